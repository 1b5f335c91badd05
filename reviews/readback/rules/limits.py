"""Limits of readings: concurrent readers and readings per minute of a system, and the budgets of a tenant.

A system's settings may hold `limits`; what they leave out is the default, and an unknown name is refused, so that
no misspelt limit is silent (R-VD-14).

    concurrency          readers that read it at the same time, in the whole installation (4)
    reads_per_minute     readings, at most a second's worth of them at once (6000)
    failures             failures without an answer between them that open its circuit (5)
    cooldown_s           how long an open circuit waits before its first probe (10)
    longest_cooldown_s   the wait grows with each failed probe, up to this (300)
    incident_after_s     a circuit that is open for so long is an incident (300)
    incident_actions     and so is one for which so many actions wait (10)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from ledger.catalogue.rules.effects import SideEffectClass
from ledger.catalogue.rules.policies import ReadingBudget
from ledger.record.rules.refusals import Refused
from reviews.readback.rules.shapes import Shape, member, number_schema, object_schema

_BURST_S = 1.0


class BadLimits(Refused):
    """The limits of the system are not valid."""

    code = "BAD_LIMITS"
    status = 422


@dataclass(frozen=True, kw_only=True)
class SystemLimits:
    """The limits of one system."""

    concurrency: int = 4
    reads_per_minute: int = 6000
    failures: int = 5
    cooldown_s: int = 10
    longest_cooldown_s: int = 300
    incident_after_s: int = 300
    incident_actions: int = 10


_LIMITS: Final = {
    "concurrency": ("Concurrent reads", 64),
    "reads_per_minute": ("Reads per minute", 600_000),
    "failures": ("Failures until marked down", 1000),
    "cooldown_s": ("First retry after, seconds", 3600),
    "longest_cooldown_s": ("Longest retry interval, seconds", 86_400),
    "incident_after_s": ("Incident after, seconds", 86_400),
    "incident_actions": ("Incident at unverified actions", 1_000_000),
}
LABELS: Final = {name: label for name, (label, _) in _LIMITS.items()}
SHAPE: Final = Shape(
    object_schema(
        {},
        {
            name: member(number_schema(1, most), label, default=getattr(SystemLimits, name))
            for name, (label, most) in _LIMITS.items()
        },
    )
)
"""The limits as settings: each has a largest value and a default."""


def limits_of(settings: Mapping[str, Any]) -> SystemLimits:
    """Return the limits in a system's settings; raise `BadLimits` with their faults."""
    given = settings.get("limits", {})
    faults = [
        {"path": f"/settings/limits{fault.pointer}", "code": "LIMIT", "detail": fault.sentence("limits")}
        for fault in SHAPE.problems(given)
    ]
    if not faults and SystemLimits(**given).longest_cooldown_s < SystemLimits(**given).cooldown_s:
        detail = "longest_cooldown_s must not be shorter than cooldown_s."
        faults = [{"path": "/settings/limits/longest_cooldown_s", "code": "LIMIT", "detail": detail}]
    if faults:
        raise BadLimits(faults[0]["detail"], errors=faults)
    return SystemLimits(**given)


def readings_within_rate(*, reads_per_minute: int, paid_until: datetime | None, at: datetime) -> int:
    """The number of readings that may be made at `at`, if readings are paid for up to `paid_until`.

    Every reading pays for its share of a minute. After a pause, one second's worth may be read at once, and at least
    one.
    """
    share = 60.0 / reads_per_minute
    credit = (at - paid_until).total_seconds() if paid_until is not None and paid_until > at else 0.0
    return max(0, math.floor((max(_BURST_S, share) + credit) / share + 1e-9))


def paid_until_after(*, reads_per_minute: int, paid_until: datetime | None, reads: int, at: datetime) -> datetime:
    """Up to when readings are paid for after `reads` more."""
    begun = max(at, paid_until) if paid_until is not None else at
    return begun + timedelta(seconds=reads * 60.0 / reads_per_minute)


_MOST_RANK = max(kind.rank for kind in SideEffectClass)


@dataclass(frozen=True, kw_only=True)
class ReadingUsage:
    """The readings of the current hour and day (UTC), in which they are counted (R-VD-14, R-CX-12)."""

    hour_from: datetime
    in_hour: int
    day_from: datetime
    in_day: int


def usage_at(spent: ReadingUsage | None, *, at: datetime) -> ReadingUsage:
    """The usage at `at`: a new hour and a new day begin at zero."""
    hour = at.replace(minute=0, second=0, microsecond=0)
    day = hour.replace(hour=0)
    return ReadingUsage(
        hour_from=hour,
        in_hour=spent.in_hour if spent is not None and spent.hour_from == hour else 0,
        day_from=day,
        in_day=spent.in_day if spent is not None and spent.day_from == day else 0,
    )


def add_reads(spent: ReadingUsage, reads: int) -> ReadingUsage:
    """The usage after `reads` more readings."""
    return ReadingUsage(
        hour_from=spent.hour_from,
        in_hour=spent.in_hour + reads,
        day_from=spent.day_from,
        in_day=spent.in_day + reads,
    )


def exceeded_budget(budget: ReadingBudget, spent: ReadingUsage) -> str | None:
    """The exhausted budget: `day`, `hour` or none.

    Beyond a budget no reading is refused: intervals are stretched, more for lower classes. The last reading of an
    action is made when its time is over, whatever it costs.
    """
    if budget.readings_per_day is not None and spent.in_day >= budget.readings_per_day:
        return "day"
    if budget.readings_per_hour is not None and spent.in_hour >= budget.readings_per_hour:
        return "hour"
    return None


def interval_factor(budget: ReadingBudget, spent: ReadingUsage, *, rank: int) -> float:
    """By how much the intervals of a class grow (rule 2): twofold for the gravest, twice as much for each below."""
    return 1.0 if exceeded_budget(budget, spent) is None else float(2 ** (1 + _MOST_RANK - rank))
