"""Periods of figures: whole hours or days of UTC, drawn in equal steps, compared with the same length before.

1. A period of hours ends with the hour that runs, one of days with the day that runs; so it is never cut within what is
   counted in one.
2. The period before has the same length and ends where this one begins.
3. A step of whole days in a period of whole days is read from the sums of days, anything else from those of hours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)
NAMED: Final = {
    "day": ("24 hours", DAY, HOUR),
    "week": ("7 days", 7 * DAY, 6 * HOUR),
    "month": ("30 days", 30 * DAY, DAY),
    "quarter": ("13 weeks", 91 * DAY, 7 * DAY),
}
MOST_STEPS: Final = 400
T = TypeVar("T")


@dataclass(frozen=True)
class MetricPeriod:
    """From `since` up to and without `until`, in steps."""

    name: str
    words: str
    since: datetime
    until: datetime
    step: timedelta

    @property
    def span(self) -> int:
        """In hours, which sums it is read from (rule 3)."""
        whole = all(not (each.hour or each.minute) for each in (self.since, self.until))
        return 24 if whole and self.step % DAY == timedelta(0) else 1

    @property
    def earlier(self) -> MetricPeriod:
        """The period before (rule 2)."""
        return MetricPeriod(self.name, self.words, self.since - (self.until - self.since), self.since, self.step)

    def starts(self) -> list[datetime]:
        """The beginning of each step."""
        return [self.since + number * self.step for number in range(-(-(self.until - self.since) // self.step))]

    def step_of(self, moment: datetime) -> datetime:
        """Return the start of the step that contains a time."""
        return self.since + (moment - self.since) // self.step * self.step


def period_named(name: str, *, at: datetime) -> MetricPeriod:
    """The running period of that name at a moment (rule 1); a week if there is no such name."""
    known = name if name in NAMED else "week"
    words, length, step = NAMED[known]
    unit = HOUR if known == "day" else DAY
    until = _floor(at, unit) + unit
    return MetricPeriod(known, words, until - length, until, step)


def period_between(since: datetime, until: datetime, *, step: timedelta) -> MetricPeriod:
    """Return the period from the hour or day (by the step) of one time to the end of that of another."""
    unit = DAY if step % DAY == timedelta(0) else HOUR
    first, last = _floor(since, unit), _floor(until, unit)
    return MetricPeriod("", "period", first, max(last if last == until else last + unit, first + unit), step)


def _floor(at: datetime, unit: timedelta) -> datetime:
    at = at.astimezone(UTC)
    day = at.replace(hour=0, minute=0, second=0, microsecond=0)
    return day + (at - day) // unit * unit


def fold_steps(rows: Mapping[tuple[Any, ...], Mapping[T, int]], period: MetricPeriod) -> dict[datetime, dict[T, int]]:
    """Counts by hour or day (the first part of each key) as counts by step of the period."""
    found: dict[datetime, dict[T, int]] = {}
    for (start, *_), counts in rows.items():
        here = found.setdefault(period.step_of(start), {})
        for name, value in counts.items():
            here[name] = here.get(name, 0) + value
    return found
