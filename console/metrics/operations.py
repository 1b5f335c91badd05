"""The roll-ups: stored up to a cursor, and recomputable at any time with the same result.

An action whose record has moved on is measured again from the whole of its events, and the hours that it counts in,
before and now, are counted again from the actions and calls in them. So whatever is done twice comes to the same. All
of it is one transaction with the cursor: after a crash both are as before, and the next tick does it again.

Events become visible at commit but are stamped before it: those of the last minute before the cursor are looked at
again, and what was counted already is known by its number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from approvals.agents.rules.acceptance import HELD_BACK, UNDISCLOSED_NAMES
from approvals.gate import queries as gate
from console.metrics import queries
from console.metrics.rules.facts import (
    COUNTS,
    OF_ACTIONS,
    OF_CALLS,
    ActionHistory,
    ActionMeasures,
    HistoryEvent,
    ReadingRun,
    measure_action,
)
from console.models import MetricAction, MetricCursor, MetricDelay, MetricRollUp
from ledger.actions.queries import actions
from ledger.catalogue import queries as catalogue
from ledger.db import execute
from ledger.record.queries import events
from ledger.record.rules.outcomes import outcome_of
from ledger.verification.queries import storage
from reviews import queries as after

if TYPE_CHECKING:
    from ledger.models import Action

AT_A_TIME: Final = 2_000
LOOK_BACK: Final = timedelta(seconds=60)
_BEGINNING: Final = datetime(2000, 1, 1, tzinfo=UTC)
_ACTIONS_AT_A_TIME: Final = 1_000
_HOUR: Final = timedelta(hours=1)
_KEY: Final = ", ".join(queries.DIMENSIONS)
_COUNTED: Final = ", ".join(COUNTS)
# The columns of what one action adds, with their types.
_MEASURED: Final[Mapping[str, str]] = {
    **{"action_id": "uuid", "seq": "integer", "hour": "timestamptz"},
    **dict.fromkeys(queries.DIMENSIONS, "text"),
    **dict.fromkeys(("verification_ms", "reconcile_ms"), "bigint"),
    **dict.fromkeys(OF_ACTIONS, "integer"),
}
_KEEP_MEASURES: Final = (
    f"INSERT INTO console_metricaction (tenant_id, {', '.join(_MEASURED)}) SELECT $1, * FROM"
    f" unnest({', '.join(f'${place}::{kind}[]' for place, kind in enumerate(_MEASURED.values(), 2))})"
    " ON CONFLICT (tenant_id, action_id) DO UPDATE SET"
    f" {', '.join(f'{name} = excluded.{name}' for name in _MEASURED if name != 'action_id')}"
)
_CLEAR: Final = tuple(
    f"DELETE FROM {table} WHERE tenant_id = $1 AND (span = 1 AND start = ANY($2) OR span = 24 AND start = ANY($3))"
    for table in ("console_metricrollup", "console_metricdelay")
)
_COUNT_ACTIONS: Final = (
    f"INSERT INTO console_metricrollup (tenant_id, span, start, {_KEY}, {_COUNTED})"
    f" SELECT tenant_id, 1, hour, {_KEY}, {', '.join(f'sum({name})' for name in OF_ACTIONS)}{', 0' * len(OF_CALLS)}"
    f" FROM console_metricaction WHERE tenant_id = $1 AND hour = ANY($2) GROUP BY tenant_id, hour, {_KEY}"
)
_OF_CALLS: Final = (*OF_CALLS, "repeats", "repeats_absorbed")
# What is counted of calls stands in the rows of actions where there are any; every other count of such a row is zero.
_ADD_CALLS: Final = (
    f"INSERT INTO console_metricrollup AS kept (tenant_id, span, start, {_KEY}, {_COUNTED})"
    f" SELECT $1, 1, start, tool, agent, side_effect_class, '',"
    f" {', '.join(name if name in _OF_CALLS else '0' for name in COUNTS)}"
    " FROM unnest($2::timestamptz[], $3::text[], $4::text[], $5::text[],"
    f" {', '.join(f'${place}::integer[]' for place in range(6, 6 + len(_OF_CALLS)))})"
    f" AS found(start, tool, agent, side_effect_class, {', '.join(_OF_CALLS)})"
    f" ON CONFLICT (tenant_id, span, start, {_KEY}) DO UPDATE SET"
    f" {', '.join(f'{name} = kept.{name} + excluded.{name}' for name in _OF_CALLS)}"
)
# Rounded as `rules.delays` says: half up, to two digits, in whole numbers.
_COUNT_DELAYS: Final = (
    f"INSERT INTO console_metricdelay (tenant_id, span, start, kind, {_KEY}, rounded_ms, count, total_ms)"
    f" SELECT tenant_id, 1, hour, kind, {_KEY}, (exact + unit / 2) / unit * unit, count(*), sum(exact)"
    " FROM console_metricaction, LATERAL (VALUES ('verification', verification_ms), ('reconcile', reconcile_ms))"
    " AS delays(kind, exact), LATERAL (SELECT (10 ^ greatest(length(exact::text) - 2, 0))::bigint AS unit) AS digits"
    " WHERE tenant_id = $1 AND hour = ANY($2) AND exact IS NOT NULL"
    f" GROUP BY tenant_id, hour, kind, {_KEY}, 9"
)
_IN_DAYS: Final = (
    " FROM unnest($2::timestamptz[]) AS days(day) JOIN {} AS hours ON hours.tenant_id = $1 AND hours.span = 1"
    " AND hours.start >= day AND hours.start < day + interval '24 hours' GROUP BY tenant_id, day, "
)
_SUM_DAYS: Final = (
    f"INSERT INTO console_metricrollup (tenant_id, span, start, {_KEY}, {_COUNTED})"
    f" SELECT tenant_id, 24, day, {_KEY}, {', '.join(f'sum({name})' for name in COUNTS)}"
    f"{_IN_DAYS.format('console_metricrollup')}{_KEY}"
)
_SUM_DELAYS_OF_DAYS: Final = (
    f"INSERT INTO console_metricdelay (tenant_id, span, start, kind, {_KEY}, rounded_ms, count, total_ms)"
    f" SELECT tenant_id, 24, day, kind, {_KEY}, rounded_ms, sum(count), sum(total_ms)"
    f"{_IN_DAYS.format('console_metricdelay')}kind, {_KEY}, rounded_ms"
)


def update_metrics(*, tenant_id: UUID, at: datetime) -> int:
    """Count a portion of new events; return the number read, 0 when all are counted.

    Nothing while another worker is at it. Inside `tenancy`.
    """
    cursor = _lock_cursor(tenant_id, wait=False)
    if cursor is None:
        return 0
    fresh, reached = events.changed_actions(tenant_id, after=cursor.read_to, limit=AT_A_TIME)
    late, _ = events.changed_actions(tenant_id, after=cursor.read_to - LOOK_BACK, until=cursor.read_to)
    since = cursor.looked_at - LOOK_BACK
    hours = _measure(tenant_id, [*_uncounted_actions(tenant_id, late | fresh), *_falsely_told(tenant_id, since=since)])
    _count_again(tenant_id, hours | set(gate.hours_with_calls(tenant_id, since=since)))
    cursor.read_to, cursor.looked_at = reached or cursor.read_to, max(cursor.looked_at, at)
    is_all = not fresh or not events.changed_actions(tenant_id, after=cursor.read_to, limit=1)[0]
    cursor.counted_to = at if is_all else cursor.read_to
    _move_cursor(cursor)
    return len(fresh)


def rebuild_metrics(*, tenant_id: UUID, at: datetime) -> int:
    """Delete the figures and recompute them from the record; return the number of actions. Inside `tenancy`."""
    cursor = _lock_cursor(tenant_id, wait=True)
    assert cursor is not None
    for model in (MetricAction, MetricRollUp, MetricDelay):
        model.objects.filter(tenant_id=tenant_id).delete()
    cursor.read_to = events.changed_actions(tenant_id, after=_BEGINNING)[1] or _BEGINNING
    cursor.looked_at, cursor.counted_to = max(cursor.looked_at, at), at
    count, last = 0, storage.NOTHING_BEFORE
    while found := actions.action_ids(tenant_id, after=last, limit=_ACTIONS_AT_A_TIME):
        _measure(tenant_id, found)
        count, last = count + len(found), found[-1]
    _count_again(tenant_id, {*queries.measured_hours(tenant_id), *gate.hours_with_calls(tenant_id, since=_BEGINNING)})
    _move_cursor(cursor)
    return count


def _lock_cursor(tenant_id: UUID, *, wait: bool) -> MetricCursor | None:
    MetricCursor.objects.get_or_create(tenant_id=tenant_id, defaults={"read_to": _BEGINNING, "looked_at": _BEGINNING})
    here = MetricCursor.objects.filter(tenant_id=tenant_id)
    return here.select_for_update(skip_locked=not wait).first()


def _move_cursor(cursor: MetricCursor) -> None:
    MetricCursor.objects.filter(tenant_id=cursor.tenant_id).update(
        read_to=cursor.read_to, looked_at=cursor.looked_at, counted_to=cursor.counted_to
    )


def _uncounted_actions(tenant_id: UUID, heads: Mapping[UUID, int]) -> list[UUID]:
    """The actions that have an event which is not counted yet."""
    known = queries.last_measures(tenant_id, list(heads))
    return [action_id for action_id, seq in heads.items() if action_id not in known or known[action_id][0] < seq]


def _falsely_told(tenant_id: UUID, *, since: datetime) -> list[UUID]:
    """The actions of which completion was reported on a state that was none, and that is not counted yet."""
    told = after.completions_reported(tenant_id, since=since)
    states = events.states_after(tenant_id, {event_id for _, event_id in told})
    wrong = {action_id for action_id, event_id in told if states.get(event_id) != "RECONCILED_SUCCESS"}
    known = queries.last_measures(tenant_id, list(wrong))
    return [action_id for action_id in wrong if action_id not in known or not known[action_id][2]]


def _measure(tenant_id: UUID, action_ids: Sequence[UUID]) -> set[datetime]:
    """Measure these actions from their records; return the hours whose counts have changed."""
    steps = events.action_steps(tenant_id, list(set(action_ids))) if action_ids else {}
    # The events of a month that was taken away are gone, and with them what an action of it adds.
    wanted = list(steps)
    if not wanted:
        return set()
    runs = after.reading_codes(tenant_id, wanted)
    reported = after.completions_reported_on(tenant_id, [step[0] for each in steps.values() for step in each])
    versions = catalogue.policy_versions_by_digest(tenant_id, "verification")
    rows = []
    for action_id, action in actions.actions_by_id(tenant_id, wanted).items():
        history = ActionHistory(
            events=[HistoryEvent(*step) for step in steps[action_id]],
            outcome=outcome_of(action),
            mutating=action.mutating,
            contradicted=action.contradicted,
            runs=[ReadingRun(*run) for run in runs.get(action_id, ())],
            reported=reported,
        )
        rows.append(_row(action, history, measure_action(history), versions))
    hours = {hour for _, hour, _ in queries.last_measures(tenant_id, wanted).values()}
    if rows:
        execute(_KEEP_MEASURES, tenant_id, *map(list, zip(*rows, strict=True)))
    # Calls count in the hour of the call, and whether their tool failed has perhaps just been learnt.
    return hours | {row[2] for row in rows} | {_hour_of(steps[row[0]][0][5]) for row in rows}


def _row(action: Action, history: ActionHistory, found: ActionMeasures, versions: Mapping[str, str]) -> list[Any]:
    """The values of `_MEASURED`."""
    return [
        *(action.id, history.events[-1].seq, _hour_of(found.at)),
        *(action.tool, action.agent, action.side_effect_class, versions.get(found.version_digest, "")),
        *(found.verification_ms, found.reconcile_ms),
        *(found.counts.get(name, 0) for name in OF_ACTIONS),
    ]


def _count_again(tenant_id: UUID, hours: Iterable[datetime]) -> None:
    """Recount these hours from their actions and calls, and then the days that contain them."""
    wanted = sorted(set(hours))
    if not wanted:
        return
    days = sorted({hour.replace(hour=0) for hour in wanted})
    for clear in _CLEAR:
        execute(clear, tenant_id, wanted, days)
    execute(_COUNT_ACTIONS, tenant_id, wanted)
    _count_calls(tenant_id, wanted)
    execute(_COUNT_DELAYS, tenant_id, wanted)
    execute(_SUM_DAYS, tenant_id, days)
    execute(_SUM_DELAYS_OF_DAYS, tenant_id, days)


def _count_calls(tenant_id: UUID, hours: Sequence[datetime]) -> None:
    """Add the calls of these hours to the counts of their actions."""
    found: dict[tuple[datetime, str, str, str], Counter[str]] = {}
    registered: list[tuple[str, str, datetime]] | None = None
    for hour, tool, agent, accepted, code, category, made, failed in gate.count_calls(tenant_id, hours):
        if registered is None:
            registered = catalogue.first_classes(tenant_id)
        if code in HELD_BACK:
            continue
        kind = next((each for name, each, since in registered if name == tool and since < hour + _HOUR), "")
        here = found.setdefault((hour, tool, agent, kind), Counter())
        here["calls"] += made
        here["calls_accepted"] += made if accepted else 0
        here["calls_failed"] += failed
        here["calls_valid"] += made - failed if accepted else 0
        here["calls_undisclosed"] += made if code in UNDISCLOSED_NAMES else 0
        here["calls_arguments"] += made if category == "argument_hallucination" else 0
        here["calls_phantom"] += made if category == "phantom" else 0
        if code == "DUPLICATE_BLOCKED":
            here["repeats"] += made
            here["repeats_absorbed"] += made
    if found:
        counts = [[each[name] for each in found.values()] for name in _OF_CALLS]
        execute(_ADD_CALLS, tenant_id, *map(list, zip(*found, strict=True)), *counts)


def _hour_of(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
