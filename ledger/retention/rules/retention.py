"""Rules of retention: the conditions and times of erasure, legal holds, and the two people behind every erasure
(R-LE-21).

1. Three clocks run apart: what payloads, evidence and entries hold (`payload_days`), the envelopes (`envelope_days`),
   and the tree, which stays for ever.
2. Nothing is erased before it is `floor_days` old, nor envelopes before `ENVELOPE_FLOOR_DAYS`; nothing while it is open
   or under a hold.
3. An erasure is requested by one person and confirmed by another. A policy that two people put in force and called
   `standing` stands for both, for what is older than its `payload_days`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from ledger.record.rules.refusals import Refused

ENVELOPE_FLOOR_DAYS = 183
MOST_DAYS = 36_500
MOST_SUBJECTS = 5000

RESTING: dict[str, frozenset[str]] = {
    "action": frozenset({"RECONCILED_SUCCESS", "COMPENSATED", "ROLLED_BACK", "ABANDONED", "FAILED"}),
    "approval": frozenset({"REJECTED", "EXPIRED", "VOIDED", "CONSUMED"}),
    "case": frozenset({"RESOLVED"}),
    "session": frozenset({"OPEN", "CLOSED"}),
    "incident": frozenset({"CLOSED"}),
    "freeze": frozenset({"LIFTED"}),
    "unwinding": frozenset({"DONE"}),
    "recording": frozenset({"IMPORTED"}),
    "claim": frozenset({"VERIFIED", "DIFFERENT", "ABSENT", "UNKNOWN"}),
}
"""By kind, the states in which a subject can be erased; other kinds hold nothing of those whom actions are about."""


class OnHold(Refused):
    """A legal hold covers this; it cannot be erased until the hold is lifted."""

    code = "ON_HOLD"


class TooYoung(Refused):
    """This is younger than the minimum age for erasure in the retention policy."""

    code = "TOO_YOUNG"


class StillOpen(Refused):
    """This is still in progress and needs the data that would be erased."""

    code = "STILL_OPEN"


class AlreadyErased(Refused):
    """This is already erased, or another erasure request covers it."""

    code = "ALREADY_ERASED"


class HasBegun(Refused):
    """The erasure has started and cannot be withdrawn."""

    code = "ERASURE_BEGUN"


class TooMuch(Refused):
    """A request covers at most 5000 items; put the rest in another request."""

    code = "TOO_MUCH"
    status = 422


class BadRetention(Refused):
    """The retention policy contradicts itself."""

    code = "BAD_RETENTION"
    status = 422


class AlreadyHeld(Refused):
    """A hold with this scope is already in force."""

    code = "ALREADY_HELD"


class HoldScope(StrEnum):
    """The kinds of scope that a hold can have."""

    ACTION = "action"
    TARGET = "target"
    AGENT = "agent"
    RECORDING = "recording"
    ALL = "all"


@dataclass(frozen=True, kw_only=True)
class RetentionPolicy:
    """Retention periods in days; a tenant without a policy has these defaults."""

    payload_days: int = 395
    envelope_days: int = 2557
    floor_days: int = 0
    standing: bool = False

    def document(self) -> dict[str, Any]:
        """The policy as the record keeps it."""
        return {
            "payload_days": self.payload_days,
            "envelope_days": self.envelope_days,
            "floor_days": self.floor_days,
            "standing": self.standing,
        }


@dataclass(frozen=True, kw_only=True)
class RetentionSubject:
    """A subject's kind and state, as far as retention needs them."""

    id: UUID
    kind: str
    state: str
    created_at: datetime
    target: str = ""
    agent: str = ""


def check_policy(policy: RetentionPolicy) -> None:
    """Refuse a policy whose periods contradict each other (rule 2)."""
    if not 0 <= policy.floor_days <= policy.payload_days <= policy.envelope_days <= MOST_DAYS:
        raise BadRetention("Days must rise: the floor, then payloads, then envelopes, up to a hundred years.")
    if policy.envelope_days < ENVELOPE_FLOOR_DAYS:
        raise BadRetention(f"Envelopes are kept for at least {ENVELOPE_FLOOR_DAYS} days.")


def check_scope(subjects: Iterable[RetentionSubject], policy: RetentionPolicy, *, at: datetime) -> None:
    """Refuse subjects that are open or too young (rule 2)."""
    found = list(subjects)
    if len(found) > MOST_SUBJECTS:
        raise TooMuch
    for each in found:
        if each.state not in RESTING.get(each.kind, frozenset()):
            raise StillOpen(f"The {each.kind} {each.id} is {each.state or 'nothing'}: it has not come to an end.")
        if each.created_at > at - timedelta(days=policy.floor_days):
            raise TooYoung(f"The {each.kind} {each.id} is younger than {policy.floor_days} days.")


def covers(scope: str, value: str, subjects: Iterable[RetentionSubject]) -> bool:
    """Return whether a hold covers one of these subjects."""
    wanted = {"action": "id", "target": "target", "agent": "agent", "recording": "id"}
    return scope == HoldScope.ALL or any(
        str(getattr(each, wanted[scope])) == value and bool(value) for each in subjects
    )


def retention_cutoff(policy: RetentionPolicy, *, at: datetime) -> datetime:
    """The time before which payloads have reached the end of their retention (rule 1)."""
    return at - timedelta(days=policy.payload_days)


def load_stored(row: Mapping[str, Any]) -> RetentionPolicy:
    """The policy that a stored document holds."""
    return RetentionPolicy(**{name: row[name] for name in RetentionPolicy.__dataclass_fields__})
