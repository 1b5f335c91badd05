"""The clock of an approval: how long it has run, what stops it, and when it ends.

1. A freeze that covers the approval stops its clock from the moment it was placed until it is lifted; afterwards the
   clock goes on with the time that was left.
2. A question that is open stops it too, but in all no longer than the policy allows: after that it goes on although
   nobody has answered (the hard limit).
3. What was over before something stopped the clock stays over.

All of it follows from what is on record (when it began, which freezes and questions there were), so it can be computed
again at any time and nothing is lost by a process that dies in between.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise

_NONE = timedelta(0)


class StopReason(StrEnum):
    """What stops a clock."""

    FREEZE = "freeze"
    QUESTION = "question"


@dataclass(frozen=True, slots=True)
class Stop:
    """Something that stops the clock, from its begin to its end; None is not over yet."""

    why: StopReason
    begin: datetime
    end: datetime | None


@dataclass(frozen=True, slots=True)
class Clock:
    """How a clock stands at one moment.

    `ends_at` is when it ends if nothing (more) stops it; while it stands still, that is counted from `stopped_at`.
    `goes_on_at` is when it goes on by itself: only questions run out, nobody knows the end of a freeze.
    """

    ran: timedelta
    left: timedelta
    ends_at: datetime
    stopped_at: datetime | None = None
    why: StopReason | None = None
    goes_on_at: datetime | None = None

    @property
    def latest(self) -> datetime:
        """When it ends if no question is answered; what a freeze adds to that, nobody knows."""
        return self.ends_at if self.goes_on_at is None else self.goes_on_at + self.left

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return self.left <= _NONE


@dataclass(slots=True)
class _Run:
    """A clock on its way through the pieces of time."""

    left: timedelta
    patience: timedelta
    ran: timedelta = _NONE
    stopped_at: datetime | None = None
    why: StopReason | None = None
    over_at: datetime | None = None

    def through(self, begin: datetime, end: datetime, why: StopReason | None) -> None:
        """One piece of time, all through which the same holds."""
        held = _NONE
        if why is StopReason.FREEZE:
            held = end - begin
        elif why is StopReason.QUESTION:
            held = min(end - begin, self.patience)
            self.patience -= held
        if why is not None and held > _NONE:
            self.stopped_at, self.why = self.stopped_at or begin, why
        self._go(begin + held, end)

    def _go(self, begin: datetime, end: datetime) -> None:
        if begin >= end:
            return
        self.stopped_at, self.why = None, None
        going = min(end - begin, self.left)
        self.ran, self.left = self.ran + going, self.left - going
        if self.left <= _NONE:
            self.over_at = begin + going


def compute_clock(
    *, began: datetime, allowed: timedelta, stops: Iterable[Stop] = (), patience: timedelta = _NONE, at: datetime
) -> Clock:
    """The clock that began with `allowed` on it, at the moment `at` (rules 1 to 3).

    `patience` is how long questions may stop it in all.
    """
    known, run = [stop for stop in stops if stop.begin <= at], _Run(allowed, patience)
    for begin, end in _pieces(began, known, max(began, at)):
        run.through(begin, end, _stopping(known, begin))
        if run.over_at is not None:
            return Clock(run.ran, _NONE, run.over_at)
    still = _stopping(known, at)
    if still is None or (still is StopReason.QUESTION and run.patience <= _NONE):
        return Clock(run.ran, run.left, max(began, at) + run.left)
    stopped_at = run.stopped_at or at
    goes_on_at = at + run.patience if still is StopReason.QUESTION else None
    return Clock(run.ran, run.left, stopped_at + run.left, stopped_at, still, goes_on_at)


def _stopping(stops: list[Stop], moment: datetime) -> StopReason | None:
    """What stops the clock from this moment on: a freeze before a question, for it uses up no patience."""
    found = {stop.why for stop in stops if stop.begin <= moment and (stop.end is None or stop.end > moment)}
    if StopReason.FREEZE in found:
        return StopReason.FREEZE
    return StopReason.QUESTION if StopReason.QUESTION in found else None


def _pieces(began: datetime, stops: list[Stop], at: datetime) -> list[tuple[datetime, datetime]]:
    """The time from the begin until now, cut wherever something began or ceased to stop the clock."""
    cuts = {began, at} | {stop.begin for stop in stops} | {stop.end for stop in stops if stop.end is not None}
    inside = sorted(cut for cut in cuts if began <= cut <= at)
    return list(pairwise(inside))
