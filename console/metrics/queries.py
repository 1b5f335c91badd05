"""The metrics of a tenant: counts, delays and their actions, from the roll-ups. Each needs an open tenant."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from console.metrics.rules.alerts import COMPARED, AlertTerms
from console.metrics.rules.facts import COUNTS, OF_ACTIONS
from console.metrics.rules.filters import MetricFilter
from console.models import Alert, AlertRule, MetricRollUp
from ledger.db import execute

DIMENSIONS = ("tool", "agent", "side_effect_class", "version")
Counts = dict[str, int]
# Written out once: putting thirty-five sums together anew costs more than most of these statements do.
_SUMS = ", ".join(f"sum({name})" for name in COUNTS)


def count_by(
    tenant_id: UUID, *by: str, since: datetime, until: datetime, span: int, about: MetricFilter
) -> dict[tuple[Any, ...], Counts]:
    """Return every count over a time range by the columns named (`start` is the hour or day); `span` is 1 or 24."""
    chosen, values = _roll_up_condition(tenant_id, since, until, span, about)
    columns = ", ".join(("tenant_id", *by))
    rows = execute(f"SELECT {columns}, {_SUMS} FROM console_metricrollup WHERE {chosen} GROUP BY {columns}", *values)
    width = len(by) + 1
    return {tuple(row[1:width]): dict(zip(COUNTS, row[width:], strict=True)) for row in rows}


def count_both_periods(
    tenant_id: UUID, *, since: datetime, middle: datetime, until: datetime, span: int, about: MetricFilter
) -> dict[str, dict[Any, Counts]]:
    """Every count of two periods that meet in the `middle`, in one statement: under "start" by hour or day, and under
    "tool", "agent" and "version" by (whether it is the later period, the value).
    """
    chosen, values = _roll_up_condition(tenant_id, since, until, span, about)
    rows = execute(
        f"SELECT GROUPING(start, tool, agent, version), start, later, tool, agent, version, {_SUMS}"
        f" FROM (SELECT *, start >= ${len(values) + 1} AS later FROM console_metricrollup WHERE {chosen}) AS counted"
        " GROUP BY GROUPING SETS ((start), (later, tool), (later, agent), (later, version))",
        *(*values, middle),
    )
    found: dict[str, dict[Any, Counts]] = {"start": {}, "tool": {}, "agent": {}, "version": {}}
    for grouping, start, later, tool, agent, version, *counts in rows:
        # A bit is set for each column that the row is not grouped by.
        name = {0b0111: "start", 0b1011: "tool", 0b1101: "agent", 0b1110: "version"}[grouping]
        key = start if name == "start" else (later, {"tool": tool, "agent": agent, "version": version}[name])
        found[name][key] = dict(zip(COUNTS, counts, strict=True))
    return found


def delays_by(
    tenant_id: UUID, *by: str, since: datetime, until: datetime, span: int, about: MetricFilter
) -> dict[tuple[Any, ...], dict[int, tuple[int, int]]]:
    """By kind of delay and the columns named: how many delays had which rounded length, and their exact sum."""
    return _delays(tenant_id, ", ".join(by), since=since, until=until, span=span, about=about)


def delays_by_step(
    tenant_id: UUID, *, since: datetime, until: datetime, step: timedelta, span: int, about: MetricFilter
) -> dict[tuple[Any, ...], dict[int, tuple[int, int]]]:
    """The same by kind and the beginning of each step, counted from `since`."""
    binned = f"date_bin('{step.total_seconds():.0f} s', start, $3)"
    return _delays(tenant_id, binned, since=since, until=until, span=span, about=about)


def _delays(
    tenant_id: UUID, by: str, *, since: datetime, until: datetime, span: int, about: MetricFilter
) -> dict[tuple[Any, ...], dict[int, tuple[int, int]]]:
    chosen, values = _roll_up_condition(tenant_id, since, until, span, about)
    # Whole milliseconds add up exactly as floating-point numbers, which takes half the time of adding them as numeric.
    rows = execute(
        f"SELECT kind, {by}, rounded_ms, sum(count), sum(total_ms::float8)::bigint FROM console_metricdelay"
        f" WHERE {chosen} GROUP BY kind, {by}, rounded_ms",
        *values,
        prepared=False,
    )
    delays: dict[tuple[Any, ...], dict[int, tuple[int, int]]] = {}
    for *key, rounded, count, total in rows:
        delays.setdefault(tuple(key), {})[rounded] = (count, total)
    return delays


def _roll_up_condition(
    tenant_id: UUID, since: datetime, until: datetime, span: int, about: MetricFilter
) -> tuple[str, tuple[Any, ...]]:
    """The condition on the roll-ups, and its values."""
    columns = about.columns()
    narrowed = "".join(f" AND {name} = ${number}" for number, name in enumerate(columns, 5))
    return (
        f"tenant_id = $1 AND span = $2 AND start >= $3 AND start < $4{narrowed}",
        (tenant_id, span, since, until, *columns.values()),
    )


def count_by_hour_of_week(
    tenant_id: UUID, *names: str, since: datetime, until: datetime, about: MetricFilter
) -> dict[tuple[int, int], list[int]]:
    """These counts by weekday (1 is Monday) and hour of the day, in UTC."""
    chosen, values = _roll_up_condition(tenant_id, since, until, 1, about)
    sums = ", ".join(f"sum({name}) AS {name}" for name in names)
    of_week = ", ".join(f"sum({name})::bigint" for name in names)
    # Each hour is added up before it is asked for its place in the week, which costs more than the adding.
    rows = execute(
        "SELECT extract(isodow FROM start AT TIME ZONE 'UTC')::int, extract(hour FROM start AT TIME ZONE 'UTC')::int,"
        f" {of_week} FROM (SELECT start, {sums} FROM console_metricrollup WHERE {chosen} GROUP BY start) AS hours"
        " GROUP BY 1, 2",
        *values,
        prepared=False,
    )
    return {(day, clock): list(counts) for day, clock, *counts in rows}


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
    """The actions behind a count of a period, by the hour that they count in, newest first, starting below the action
    `before`. Only hours with such actions, known from the roll-ups, are read.
    """
    if name not in OF_ACTIONS:
        raise ValueError(f"{name} counts no actions")
    chosen, values = _roll_up_condition(tenant_id, since, until, 1, about)
    narrowed = "".join(f" AND {column} = ${number}" for number, column in enumerate(about.columns(), 5))
    last, most = f"${len(values) + 1}::uuid", f"${len(values) + 2}"
    rows = execute(
        "WITH last AS (SELECT hour, action_id FROM console_metricaction"
        f" WHERE tenant_id = $1 AND action_id = {last}),"
        f" hours AS (SELECT DISTINCT start FROM console_metricrollup WHERE {chosen} AND {name} > 0"
        f" AND ({last} IS NULL OR start <= (SELECT hour FROM last)) ORDER BY start DESC LIMIT {most})"
        f" SELECT action_id FROM hours JOIN console_metricaction ON tenant_id = $1 AND hour = start AND {name} > 0"
        f"{narrowed} AND ({last} IS NULL OR (hour, action_id) < (SELECT hour, action_id FROM last))"
        f" ORDER BY hour DESC, action_id DESC LIMIT {most}",
        *(*values, before, limit),
    )
    return [action_id for (action_id,) in rows]


def known_values(tenant_id: UUID, *, since: datetime, until: datetime) -> dict[str, list[str]]:
    """Return the tools, agents, classes and versions that a period has, for filters."""
    found = MetricRollUp.objects.filter(tenant_id=tenant_id, span=24, start__gte=since, start__lt=until)
    rows = list(found.values_list(*DIMENSIONS).distinct().order_by())
    return {name: sorted({row[place] for row in rows if row[place]}) for place, name in enumerate(DIMENSIONS)}


_COUNTED_TO: Final = """
SELECT CASE WHEN c.counted_to < clock_timestamp() - interval '1 minute'
        AND c.seen = (SELECT coalesce(sum(size), 0) FROM ledger_tip WHERE tenant_id = $1)
        AND NOT EXISTS (SELECT FROM ledger_pending WHERE tenant_id = $1)
        AND ((SELECT id FROM approvals_call WHERE tenant_id = $1 ORDER BY id DESC LIMIT 1) > since) IS NOT true
        AND ((SELECT id FROM reviews_report WHERE tenant_id = $1 ORDER BY id DESC LIMIT 1) > since) IS NOT true
    THEN clock_timestamp() ELSE c.counted_to END
  FROM console_metriccursor c CROSS JOIN LATERAL ledger_uuid_from(c.looked_at - interval '60 seconds') since
 WHERE c.tenant_id = $1
"""


def counted_to(tenant_id: UUID) -> datetime | None:
    """The time up to which everything recorded is counted; None while nothing is.

    A tenant of which nothing new is recorded is not looked at: there everything is counted until now.
    """
    rows = execute(_COUNTED_TO, tenant_id)
    return rows[0][0] if rows else None


def last_measures(tenant_id: UUID, action_ids: Sequence[UUID]) -> dict[UUID, tuple[int, bool]]:
    """(last event counted, whether a false success is counted) by action."""
    rows = execute(
        "SELECT action_id, seq, false_success FROM console_metricaction WHERE tenant_id = $1 AND action_id = ANY($2)",
        *(tenant_id, list(action_ids)),
    )
    return {action_id: (seq, bool(false)) for action_id, seq, false in rows}


def count_by_contract(tenant_id: UUID, tools: Sequence[str], *, since: datetime) -> dict[str, Counts]:
    """The counts that reveal regressions of these tools, by the digest of the actions' contract."""
    names = tuple(dict.fromkeys(name for each in COMPARED for name in (each.whole, each.part)))
    rows = execute(
        f"SELECT a.contract_digest, {', '.join(f'sum(m.{name})' for name in names)} FROM console_metricaction m"
        " JOIN ledger_action a ON a.tenant_id = m.tenant_id AND a.id = m.action_id"
        " WHERE m.tenant_id = $1 AND m.hour >= $2 AND m.tool = ANY($3) GROUP BY a.contract_digest",
        *(tenant_id, since, list(tools)),
    )
    return {digest: dict(zip(names, counts, strict=True)) for digest, *counts in rows}


def lock_comparison(tenant_id: UUID) -> bool:
    """Take the lock for comparing this tenant's versions until the end of the transaction; return
    whether it was free.
    """
    [(free,)] = execute("SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0))", f"regressions of {tenant_id}")
    return bool(free)


def alert_rules(tenant_id: UUID) -> list[AlertRule]:
    """The rules that are watched, oldest first."""
    return list(AlertRule.objects.filter(tenant_id=tenant_id, ended_at__isnull=True).order_by("id"))


def open_alerts(tenant_id: UUID) -> dict[tuple[UUID | None, str], Alert]:
    """The open alerts, by rule and by the object of a regression."""
    found = Alert.objects.filter(tenant_id=tenant_id, cleared_at__isnull=True).order_by("id")
    return {(each.rule_id, each.about): each for each in found}


def alerts_by_id(tenant_id: UUID, ids: Collection[UUID]) -> dict[UUID, Alert]:
    """The existing ones of these alerts."""
    return {each.id: each for each in Alert.objects.filter(tenant_id=tenant_id, id__in=ids)}


def alerts(tenant_id: UUID, *, is_open: bool | None, before: UUID | None = None, limit: int = 51) -> list[Alert]:
    """Alerts, newest first: open ones, cleared ones, or all."""
    found = Alert.objects.filter(tenant_id=tenant_id)
    if is_open is not None:
        found = found.filter(cleared_at__isnull=is_open)
    if before is not None:
        found = found.filter(id__lt=before)
    return list(found.order_by("-id")[:limit])


def terms_of(rule: AlertRule) -> AlertTerms:
    """The terms of a stored rule."""
    return AlertTerms(
        metric=rule.metric,
        about=MetricFilter(rule.tool, rule.agent, rule.side_effect_class),
        window_h=rule.window_h,
        raise_at=rule.raise_at,
        clear_at=rule.clear_at,
        least_cases=rule.least_cases,
        hold=timedelta(minutes=rule.hold_min),
    )
