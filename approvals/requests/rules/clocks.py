"""The clock of an approval: its elapsed time, pauses and deadline; with reminders and schedule.

1. A freeze that covers the approval pauses its clock from the moment it was placed until it is lifted; then the clock
   continues with the time that was left.
2. An open question pauses it too, but in total no longer than the policy allows; after that the clock runs although
   nobody has answered (the hard limit).
3. An approval that was over before the pause stays over.

All of it follows from the record (when it began, which freezes and questions there were), so it can be computed again
at any time and a process that dies loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from typing import Any

from approvals.policy.rules.policy import ApprovalPolicy

_NONE = timedelta(0)


class StopReason(StrEnum):
    """The reason why a clock is paused."""

    FREEZE = "freeze"
    QUESTION = "question"


@dataclass(frozen=True, slots=True)
class Stop:
    """A pause of the clock from its start to its end; `until` is None while it continues."""

    why: StopReason
    begin: datetime
    end: datetime | None


@dataclass(frozen=True, slots=True)
class Clock:
    """The state of a clock at one time.

    `ends_at` is when it ends if nothing (more) pauses it; while it is paused, that is counted from `stopped_at`.
    `goes_on_at` is when it continues by itself: only questions run out, nobody knows the end of a freeze.
    """

    ran: timedelta
    left: timedelta
    ends_at: datetime
    stopped_at: datetime | None = None
    why: StopReason | None = None
    goes_on_at: datetime | None = None

    @property
    def latest(self) -> datetime:
        """The latest end if no question is answered; the time that a freeze may add is unknown."""
        return self.ends_at if self.goes_on_at is None else self.goes_on_at + self.left

    @property
    def is_over(self) -> bool:
        """Return whether the time is up."""
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
    """Return the state at `at` of a clock that began with `allowed` on it (rules 1 to 3).

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
    """Return the reason why the clock is paused from this time on: a freeze before a question, because a freeze does
    not use up patience.
    """
    found = {stop.why for stop in stops if stop.begin <= moment and (stop.end is None or stop.end > moment)}
    if StopReason.FREEZE in found:
        return StopReason.FREEZE
    return StopReason.QUESTION if StopReason.QUESTION in found else None


def _pieces(began: datetime, stops: list[Stop], at: datetime) -> list[tuple[datetime, datetime]]:
    """The time from the begin until now, cut wherever something began or ceased to stop the clock."""
    cuts = {began, at} | {stop.begin for stop in stops} | {stop.end for stop in stops if stop.end is not None}
    inside = sorted(cut for cut in cuts if began <= cut <= at)
    return list(pairwise(inside))


class DeadlineStep(StrEnum):
    """A step before an undecided approval runs out; each is taken once.

    A reminder is sent when only the time that the policy names is left. The approval is escalated when it has waited as
    long as the policy says, and if the group that it was escalated to lets the same time pass, a breach is recorded. A
    paused clock delays both. Silence never approves or denies: in the end the request expires.
    """

    REMIND = "remind"
    ESCALATE = "escalate"
    BREACH = "breach"


@dataclass(frozen=True, slots=True)
class ReminderPlan:
    """The times of the reminder and the escalation; None omits a step."""

    remind_before: timedelta | None = None
    escalate_after: timedelta | None = None

    def runs(self, step: DeadlineStep, allowed: timedelta) -> timedelta | None:
        """The time that the clock must have run before a step; None if the step never comes before the deadline."""
        if step is DeadlineStep.REMIND:
            wanted = None if self.remind_before is None else max(allowed - self.remind_before, timedelta(0))
        else:
            times = 1 if step is DeadlineStep.ESCALATE else 2
            wanted = None if self.escalate_after is None else self.escalate_after * times
        return wanted if wanted is not None and wanted < allowed else None


def make_plan(*, remind_before_s: int | None, escalate_after_s: int | None) -> ReminderPlan:
    """Build the plan from the numbers of a policy."""
    before = None if not remind_before_s else timedelta(seconds=remind_before_s)
    return ReminderPlan(before, None if not escalate_after_s else timedelta(seconds=escalate_after_s))


def is_due(step: DeadlineStep, plan: ReminderPlan, clock: Clock) -> bool:
    """Return whether a step is due now."""
    wanted = plan.runs(step, clock.ran + clock.left)
    return wanted is not None and clock.stopped_at is None and not clock.is_over and clock.ran >= wanted


def next_check(
    step: DeadlineStep, plan: ReminderPlan, clock: Clock, *, at: datetime, again: timedelta
) -> datetime | None:
    """Return when to check the step next, or None if it can never fall due.

    A paused clock is rechecked after `again`.
    """
    wanted = plan.runs(step, clock.ran + clock.left)
    if wanted is None or clock.is_over:
        return None
    if clock.stopped_at is not None:
        return at + again
    return at + max(wanted - clock.ran, timedelta(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The schedule of one approval: its release window, reminders and batch limits.

    The frozen terms of the approval come first, then the policy under which it was requested.
    """

    release_within: timedelta
    patience: timedelta
    plan: ReminderPlan
    escalate_to: str
    batch_most: int
    batchable: bool


def make_schedule(policy: ApprovalPolicy, terms: Mapping[str, Any]) -> Schedule:
    """Build the schedule from a policy and the terms of one approval."""
    return Schedule(
        release_within=timedelta(seconds=terms.get("release_within_s", policy.release_within_s)),
        patience=timedelta(seconds=policy.question_pause_s),
        plan=make_plan(remind_before_s=policy.remind_before_s, escalate_after_s=policy.escalate_after_s),
        escalate_to=policy.escalate_to,
        batch_most=policy.batch.most,
        batchable=bool(terms.get("batchable")),
    )
