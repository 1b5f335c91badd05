"""What happens to an approval that nobody decides, before its time is up: reminders and escalation.

1. A reminder goes out when so much of its time is left as the policy says.
2. It is escalated when it has waited as long as the policy says. A clock that stands still waits for nobody, so
   neither happens meanwhile.
3. When the group it was escalated to lets the same time pass, that is recorded. Nothing is ever approved or denied
   because people were silent; what lapses in the end is a request, and is called so.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from approvals.requests.rules.clocks import Clock


class DeadlineStep(StrEnum):
    """One step on the way to the deadline; each is taken once."""

    REMIND = "remind"
    ESCALATE = "escalate"
    BREACH = "breach"


@dataclass(frozen=True, slots=True)
class ReminderPlan:
    """What the policy wants; None leaves a step out."""

    remind_before: timedelta | None = None
    escalate_after: timedelta | None = None

    def runs(self, step: DeadlineStep, allowed: timedelta) -> timedelta | None:
        """How long the clock must have run for a step; None where it never comes before the end."""
        if step is DeadlineStep.REMIND:
            wanted = None if self.remind_before is None else max(allowed - self.remind_before, timedelta(0))
        else:
            times = 1 if step is DeadlineStep.ESCALATE else 2
            wanted = None if self.escalate_after is None else self.escalate_after * times
        return wanted if wanted is not None and wanted < allowed else None


def make_plan(*, remind_before_s: int | None, escalate_after_s: int | None) -> ReminderPlan:
    """The plan in a policy's own numbers."""
    before = None if not remind_before_s else timedelta(seconds=remind_before_s)
    return ReminderPlan(before, None if not escalate_after_s else timedelta(seconds=escalate_after_s))


def is_due(step: DeadlineStep, plan: ReminderPlan, clock: Clock) -> bool:
    """Whether a step is to be taken now (rules 1 and 2)."""
    wanted = plan.runs(step, clock.ran + clock.left)
    return wanted is not None and clock.stopped_at is None and not clock.is_over and clock.ran >= wanted


def next_check(
    step: DeadlineStep, plan: ReminderPlan, clock: Clock, *, at: datetime, again: timedelta
) -> datetime | None:
    """When to look whether a step is due; None where it never will be. A clock that stands is looked at `again`."""
    wanted = plan.runs(step, clock.ran + clock.left)
    if wanted is None or clock.is_over:
        return None
    if clock.stopped_at is not None:
        return at + again
    return at + max(wanted - clock.ran, timedelta(0))
