"""Pins: the goal of a session, fixed at its start so that it cannot change unnoticed.

1. The goal is normalised before it is hashed: NFC, lower case, runs of white space become one space, ends trimmed
   (R-PA-02). Whatever else differs is drift, a paraphrase included (R-PA-04, C-54).
2. The session's id is part of what is hashed: one goal in two sessions makes two pins, and the pin of one is drift in
   the other (R-PA-03).
3. A pin lives `ttl_seconds` from when it was set, whatever happens meanwhile (C-53), and only as long as its session is
   used: once nothing was heard in it for the tenant's quiet time (ten minutes, unless its autonomy policy says
   otherwise), it is over. From then on everything is drift, with a reason of its own (R-PA-05). Nothing that comes
   afterwards renews it (R-PA-10).
4. `compare_goal` only reports; `require_match` refuses (R-PA-07).
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from datetime import datetime, timedelta
from hmac import compare_digest

from ledger.record.rules.canonical import canonical, digest
from ledger.record.rules.refusals import Refused

MAX_GOAL = 8_000
MAX_TTL_SECONDS = 30 * 24 * 3600
SESSION_QUIET = "SESSION_QUIET"
"""The code within `PIN_EXPIRED` of a session that was quiet too long."""
QUIET = timedelta(minutes=10)
"""After so long without a call a pin is over, unless the tenant's autonomy policy says otherwise."""


class BadGoal(Refused):
    """A goal is 1 to 8000 characters of text, pinned for 1 second to 30 days."""

    code = "BAD_GOAL"
    status = 422


class AskDrift(Refused):
    """The restated goal differs from the pinned goal."""

    code = "ASK_DRIFT"


class PinExpired(Refused):
    """The pin of this session has expired."""

    code = "PIN_EXPIRED"


@dataclass(frozen=True)
class Pin:
    """The goal of one session, as asked, and its hash.

    `used_at` is when its session was last used; it is over once that is longer ago than `quiet`, if that is given.
    """

    session_id: str
    goal: str
    hash: str
    pinned_at: datetime
    expires_at: datetime
    used_at: datetime | None = None
    quiet: timedelta | None = None

    def expiry(self, *, at: datetime) -> str:
        """The reason why the pin has expired, as a sentence; empty while it is valid."""
        if at >= self.expires_at:
            return "The session's pin has expired."
        if self.quiet is not None and at >= (self.used_at or self.pinned_at) + self.quiet:
            return (
                f"The session was quiet for {duration(self.quiet)}, after which its goal is no longer trusted;"
                " a new session is needed."
            )
        return ""


@dataclass(frozen=True)
class Comparison:
    """The result of comparing a restated goal; `reason` is empty on a match, `restated_hash` is evidence (R-PA-09)."""

    match: bool
    reason: str
    restated_hash: str


def normalise(goal: str) -> str:
    """The goal in the form that is hashed (rule 1)."""
    # Lower-casing can undo composition (İ becomes i and a dot), so NFC comes again afterwards.
    lowered = unicodedata.normalize("NFC", goal).lower()
    return " ".join(unicodedata.normalize("NFC", lowered).split())


def pin_hash(*, session_id: str, goal: str) -> str:
    """The hash of a goal in a session (rule 2)."""
    return digest(canonical({"goal": normalise(goal), "session_id": session_id}))


def duration(length: timedelta) -> str:
    """Return a duration in words, in the largest unit that divides it: 10 minutes."""
    seconds = int(length.total_seconds())
    size, unit = next((size, unit) for size, unit in _UNITS if seconds % size == 0)
    return f"{seconds // size} {unit}{'' if seconds == size else 's'}"


_UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


def new_pin(*, session_id: str, goal: str, ttl_seconds: int, at: datetime) -> Pin:
    """Return a new pin; raise `BadGoal` if there is nothing to pin or the lifetime is out of bounds."""
    if not normalise(goal) or len(goal) > MAX_GOAL or not 1 <= ttl_seconds <= MAX_TTL_SECONDS:
        raise BadGoal
    hashed = pin_hash(session_id=session_id, goal=goal)
    return Pin(session_id, goal, hashed, at, at + timedelta(seconds=ttl_seconds))


def compare_goal(pinned: Pin, *, goal: str | None = None, sent_hash: str | None = None, at: datetime) -> Comparison:
    """Compare a restated goal, the pin's hash, or both, with the pinned goal; an expired pin never matches."""
    restated = pin_hash(session_id=pinned.session_id, goal=goal) if goal is not None else sent_hash or ""
    if pinned.expiry(at=at):
        return Comparison(False, PinExpired.code, restated)
    hashes = [restated] if sent_hash is None else [restated, sent_hash]
    # A hash as sent may hold anything, lone surrogates too; the replacement character equals no hex digit.
    if all(compare_digest(one.encode("utf-8", "replace"), pinned.hash.encode()) for one in hashes):
        return Comparison(True, "", restated)
    return Comparison(False, AskDrift.code, restated)


def require_match(pinned: Pin, *, goal: str | None = None, sent_hash: str | None = None, at: datetime) -> None:
    """Refuse a restated goal that `compare_goal` does not match."""
    reason = compare_goal(pinned, goal=goal, sent_hash=sent_hash, at=at).reason
    if reason == PinExpired.code:
        raise PinExpired(pinned.expiry(at=at))
    if reason:
        raise AskDrift
