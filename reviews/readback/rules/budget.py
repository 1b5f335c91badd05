"""What verification may cost: readings per hour and per day of one tenant (R-VD-14, R-CX-12).

1. Readings are counted in the hour and in the day (UTC) in which they are made.
2. While a budget is not used up, nothing changes. Beyond it no reading is refused: intervals are stretched, the more
   the lower the class, so that what is left of the systems' patience goes to the gravest actions first.
3. Deadlines stay: the last reading of an action is made when its time is over, whatever it costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ledger.catalogue.rules.effects import SideEffectClass
from ledger.catalogue.rules.policies import ReadingBudget

_MOST_RANK = max(kind.rank for kind in SideEffectClass)


@dataclass(frozen=True, kw_only=True)
class ReadingUsage:
    """The readings of the present hour and day."""

    hour_from: datetime
    in_hour: int
    day_from: datetime
    in_day: int


def usage_at(spent: ReadingUsage | None, *, at: datetime) -> ReadingUsage:
    """What counts at `at`: a new hour and a new day begin at nothing (rule 1)."""
    hour = at.replace(minute=0, second=0, microsecond=0)
    day = hour.replace(hour=0)
    return ReadingUsage(
        hour_from=hour,
        in_hour=spent.in_hour if spent is not None and spent.hour_from == hour else 0,
        day_from=day,
        in_day=spent.in_day if spent is not None and spent.day_from == day else 0,
    )


def add_reads(spent: ReadingUsage, reads: int) -> ReadingUsage:
    """After so many more readings."""
    return ReadingUsage(
        hour_from=spent.hour_from,
        in_hour=spent.in_hour + reads,
        day_from=spent.day_from,
        in_day=spent.in_day + reads,
    )


def exceeded_budget(budget: ReadingBudget, spent: ReadingUsage) -> str | None:
    """Which budget is used up: that of the day, of the hour, or none."""
    if budget.readings_per_day is not None and spent.in_day >= budget.readings_per_day:
        return "day"
    if budget.readings_per_hour is not None and spent.in_hour >= budget.readings_per_hour:
        return "hour"
    return None


def interval_factor(budget: ReadingBudget, spent: ReadingUsage, *, rank: int) -> float:
    """By how much the intervals of a class grow (rule 2): twofold for the gravest, twice as much for each below."""
    return 1.0 if exceeded_budget(budget, spent) is None else float(2 ** (1 + _MOST_RANK - rank))
