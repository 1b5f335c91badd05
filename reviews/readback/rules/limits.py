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
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any

from ledger.catalogue.rules.effects import SideEffectClass
from ledger.catalogue.rules.policies import ReadingBudget
from ledger.record.rules.refusals import Refused

_BURST_S = 1.0
_MOST = {
    "concurrency": 64,
    "reads_per_minute": 600_000,
    "failures": 1000,
    "cooldown_s": 3600,
    "longest_cooldown_s": 86_400,
    "incident_after_s": 86_400,
    "incident_actions": 1_000_000,
}


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


NAMES: tuple[str, ...] = tuple(field.name for field in fields(SystemLimits))


def limits_of(settings: Mapping[str, Any]) -> SystemLimits:
    """Return the limits in a system's settings; raise `BadLimits` with their faults."""
    given = settings.get("limits", {})
    faults = [{"path": f"/settings/limits{path}", "code": "LIMIT", "detail": detail} for path, detail in _faults(given)]
    if faults:
        raise BadLimits(faults[0]["detail"], errors=faults)
    return SystemLimits(**given)


def _faults(given: Any) -> list[tuple[str, str]]:
    if not isinstance(given, Mapping):
        return [("", "The limits of a system are an object.")]
    found = [(f"/{name}", f"There is no limit named {name}.") for name in given if name not in NAMES]
    for name, most in _MOST.items():
        value = given.get(name, 1)
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            found.append((f"/{name}", f"{name} must be a whole number from 1 to {most}."))
    if not found and SystemLimits(**given).longest_cooldown_s < SystemLimits(**given).cooldown_s:
        found.append(("/longest_cooldown_s", "longest_cooldown_s must not be shorter than cooldown_s."))
    return found


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
