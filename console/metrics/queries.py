"""The metrics of a tenant: counts, delays and the actions behind them, from the roll-ups. Each needs an open tenant."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet, Sum, Value
from django.db.models.functions import ExtractHour, ExtractIsoWeekDay

from console.metrics.rules.facts import COUNTS
from console.metrics.rules.filters import MetricFilter
from console.models import MetricAction, MetricCursor, MetricDelay, MetricRollUp

DIMENSIONS = ("tool", "agent", "side_effect_class", "version")
Counts = dict[str, int]


def count_by(
    tenant_id: UUID, *by: str, since: datetime, until: datetime, span: int, about: MetricFilter
) -> dict[tuple[Any, ...], Counts]:
    """Every count of a stretch of time by the columns named (`start` is the hour or day); `span` is 1 or 24."""
    found = _rows(MetricRollUp, tenant_id, since, until, span, about)
    # Without a column to group by, each row would be a group.
    grouped = found.annotate(all=Value(1)).values_list("all", *by)
    width = len(by) + 1
    return {
        tuple(row[1:width]): dict(zip(COUNTS, row[width:], strict=True))
        for row in grouped.annotate(*(Sum(name) for name in COUNTS)).order_by()
    }


def delays_by(
    tenant_id: UUID, *by: str, since: datetime, until: datetime, span: int, about: MetricFilter
) -> dict[tuple[Any, ...], dict[int, tuple[int, int]]]:
    """By kind of delay and the columns named: how many delays had which rounded length, and their exact sum."""
    found = _rows(MetricDelay, tenant_id, since, until, span, about).values_list("kind", *by, "rounded_ms")
    delays: dict[tuple[Any, ...], dict[int, tuple[int, int]]] = {}
    for *key, rounded, count, total in found.annotate(Sum("count"), Sum("total_ms")).order_by():
        delays.setdefault(tuple(key), {})[rounded] = (count, int(total))
    return delays


def count_by_hour_of_week(
    tenant_id: UUID, *names: str, since: datetime, until: datetime, about: MetricFilter
) -> dict[tuple[int, int], list[int]]:
    """These counts by weekday (1 is Monday) and hour of the day, in UTC."""
    found = _rows(MetricRollUp, tenant_id, since, until, 1, about)
    rows = found.annotate(day=ExtractIsoWeekDay("start"), clock=ExtractHour("start")).values_list("day", "clock")
    summed = rows.annotate(*(Sum(name) for name in names)).order_by()
    return {(day, clock): list(counts) for day, clock, *counts in summed}


def _rows(
    model: Any, tenant_id: UUID, since: datetime, until: datetime, span: int, about: MetricFilter
) -> QuerySet[Any]:
    chosen = model.objects.filter(tenant_id=tenant_id, span=span, start__gte=since, start__lt=until)
    rows: QuerySet[Any] = chosen.filter(**about.columns())
    return rows


def actions_behind(
    tenant_id: UUID,
    name: str,
    *,
    since: datetime,
    until: datetime,
    about: MetricFilter,
    before: UUID | None = None,
    limit: int = 51,
) -> list[UUID]:
    """The actions that a count of a stretch of time is made of, newest first, starting below the id `before`."""
    found = MetricAction.objects.filter(
        tenant_id=tenant_id, hour__gte=since, hour__lt=until, **{f"{name}__gt": 0}, **about.columns()
    )
    if before is not None:
        found = found.filter(action_id__lt=before)
    return list(found.order_by("-action_id").values_list("action_id", flat=True)[:limit])


def known_values(tenant_id: UUID, *, since: datetime, until: datetime) -> dict[str, list[str]]:
    """The tools, agents, classes and versions that a period has, for filters."""
    found = MetricRollUp.objects.filter(tenant_id=tenant_id, span=24, start__gte=since, start__lt=until)
    rows = list(found.values_list(*DIMENSIONS).distinct().order_by())
    return {name: sorted({row[place] for row in rows if row[place]}) for place, name in enumerate(DIMENSIONS)}


def counted_to(tenant_id: UUID) -> datetime | None:
    """Until when everything that was recorded is counted; None while nothing is."""
    return MetricCursor.objects.filter(tenant_id=tenant_id).values_list("counted_to", flat=True).first()


def last_measures(tenant_id: UUID, action_ids: Sequence[UUID]) -> dict[UUID, tuple[int, datetime, int]]:
    """(last event counted, hour, whether a false success is counted) by action."""
    found = MetricAction.objects.filter(tenant_id=tenant_id, action_id__in=list(action_ids))
    rows = found.values_list("action_id", "seq", "hour", "false_success")
    return {action_id: (seq, hour, false) for action_id, seq, hour, false in rows}


def measured_hours(tenant_id: UUID) -> list[datetime]:
    """Every hour that an action counts in."""
    return list(MetricAction.objects.filter(tenant_id=tenant_id).values_list("hour", flat=True).distinct())


def sum_actions(tenant_id: UUID, hour: datetime, names: Sequence[str]) -> dict[tuple[str, ...], Counts]:
    """The counts of the actions of one hour, by `DIMENSIONS`."""
    rows = MetricAction.objects.filter(tenant_id=tenant_id, hour=hour).values_list(*DIMENSIONS)
    width = len(DIMENSIONS)
    return {
        tuple(row[:width]): dict(zip(names, row[width:], strict=True))
        for row in rows.annotate(*(Sum(name) for name in names)).order_by()
    }


def hour_delays(tenant_id: UUID, hour: datetime) -> list[tuple[Any, ...]]:
    """(tool, agent, class, version, verification, reconcile) of the actions of one hour that have a delay."""
    found = MetricAction.objects.filter(tenant_id=tenant_id, hour=hour)
    known = found.filter(Q(verification_ms__isnull=False) | Q(reconcile_ms__isnull=False))
    return list(known.values_list(*DIMENSIONS, "verification_ms", "reconcile_ms"))
