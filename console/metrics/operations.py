"""The roll-ups: stored up to a cursor, and recomputable at any time with the same result.

1. An action whose record has moved on is measured again from the whole of its events. What it adds is kept by itself,
   so the hour and the day that it counts in, before and now, change by the difference: an event costs the same however
   many actions its hour has.
2. Calls are counted for good a minute after they came. Until then they are counted again each time, and what was
   counted of them before, which the cursor keeps, is taken off: rows become visible at commit but are stamped before.
3. Whether the tool of a call failed is learnt from its action, and counts in the hour of the call.
4. All of it is one transaction with the cursor: after a crash both are as before, and the next tick does it again. What
   events were counted is known by their number.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from approvals.agents.rules.acceptance import HELD_BACK, UNDISCLOSED_NAMES
from approvals.gate import queries as gate
from console.metrics import queries
from console.metrics.rules.delays import round_delay
from console.metrics.rules.facts import (
    COUNTS,
    OF_ACTIONS,
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
from ledger.log.queries import log as logs
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
# The columns of what one action adds, with their types.
_MEASURED: Final[Mapping[str, str]] = {
    **{"action_id": "uuid", "seq": "integer", "hour": "timestamptz"},
    **dict.fromkeys(queries.DIMENSIONS, "text"),
    **dict.fromkeys(("verification_ms", "reconcile_ms"), "bigint"),
    **dict.fromkeys((*OF_ACTIONS, "call_failed"), "integer"),
}
_KEPT_MEASURES: Final = (
    f"SELECT {', '.join(_MEASURED)} FROM console_metricaction WHERE tenant_id = $1 AND action_id = ANY($2)"
)


def _upsert(table: str, key: Mapping[str, str], values: Mapping[str, str], *, adds: bool) -> str:
    """A statement that takes the tenant and one array for each column, and sets or adds the values."""
    columns = {**key, **values}
    added = ("kept.{0} + excluded.{0}" if adds else "excluded.{0}").format
    return (
        f"INSERT INTO {table} AS kept (tenant_id, {', '.join(columns)}) SELECT $1, * FROM"
        f" unnest({', '.join(f'${place}::{kind}[]' for place, kind in enumerate(columns.values(), 2))})"
        f" ON CONFLICT (tenant_id, {', '.join(key)}) DO UPDATE SET"
        f" {', '.join(f'{name} = {added(name)}' for name in values)}"
    )


_DIMENSIONS: Final = dict.fromkeys(queries.DIMENSIONS, "text")
_PERIOD: Final = {"span": "smallint", "start": "timestamptz"}
_KEEP_MEASURES: Final = _upsert(
    "console_metricaction",
    {"action_id": "uuid"},
    {name: kind for name, kind in _MEASURED.items() if name != "action_id"},
    adds=False,
)
_ADD_COUNTS: Final = _upsert("console_metricrollup", _PERIOD | _DIMENSIONS, dict.fromkeys(COUNTS, "integer"), adds=True)
_ADD_DELAYS: Final = _upsert(
    "console_metricdelay",
    _PERIOD | {"kind": "text"} | _DIMENSIONS | {"rounded_ms": "bigint"},
    {"count": "integer", "total_ms": "bigint"},
    adds=True,
)
_DROP_EMPTY: Final = (
    "DELETE FROM console_metricrollup WHERE tenant_id = $1 AND start = ANY($2) AND actions = 0 AND calls = 0",
    "DELETE FROM console_metricdelay WHERE tenant_id = $1 AND start = ANY($2) AND count = 0",
)
_DELAYS: Final = ("verification", "reconcile")
_Cell = tuple[datetime, str, str, str, str]
"""An hour, and the dimensions."""


class _Changes:
    """Additions to the roll-ups: counts by cell, and (number, sum) of delays by kind, cell and rounded length."""

    def __init__(self) -> None:
        self.counts: defaultdict[_Cell, Counter[str]] = defaultdict(Counter)
        self.delays: defaultdict[tuple[str, _Cell, int], list[int]] = defaultdict(lambda: [0, 0])

    def add_measures(self, row: Mapping[str, Any], sign: int) -> None:
        """Add, or take off, what one action adds."""
        cell: _Cell = (row["hour"], *(row[name] for name in queries.DIMENSIONS))
        for name in OF_ACTIONS:
            if row[name]:
                self.counts[cell][name] += sign * row[name]
        for kind in _DELAYS:
            exact = row[f"{kind}_ms"]
            if exact is not None:
                delay = self.delays[kind, cell, round_delay(exact)]
                delay[0] += sign
                delay[1] += sign * exact

    def add_calls(self, cell: _Cell, counts: Mapping[str, int], sign: int = 1) -> None:
        for name, count in counts.items():
            self.counts[cell][name] += sign * count

    def apply(self, tenant_id: UUID) -> None:
        """Add everything to the hours and the days."""
        counts = {cell: found for cell, found in self.counts.items() if any(found.values())}
        delays = {place: found for place, found in self.delays.items() if any(found)}
        if counts:
            rows: defaultdict[tuple[int, _Cell], Counter[str]] = defaultdict(Counter)
            for cell, found in counts.items():
                for period in _periods(cell):
                    rows[period].update(found)
            execute(
                _ADD_COUNTS,
                *(tenant_id, *_columns([(span, *cell) for span, cell in rows])),
                *([found[name] for found in rows.values()] for name in COUNTS),
            )
        if delays:
            lengths: defaultdict[tuple[int, str, _Cell, int], list[int]] = defaultdict(lambda: [0, 0])
            for (kind, cell, rounded), (number, total) in delays.items():
                for span, place in _periods(cell):
                    length = lengths[span, kind, place, rounded]
                    length[0] += number
                    length[1] += total
            columns = [
                (span, place[0], kind, *place[1:], rounded, *length)
                for (span, kind, place, rounded), length in lengths.items()
            ]
            execute(_ADD_DELAYS, tenant_id, *_columns(columns))
        if any(found["actions"] < 0 or found["calls"] < 0 for found in counts.values()) or any(
            number < 0 for number, _ in delays.values()
        ):
            cells = [*counts, *(cell for _, cell, _ in delays)]
            starts = sorted({place[0] for cell in cells for _, place in _periods(cell)})
            for drop in _DROP_EMPTY:
                execute(drop, tenant_id, starts)


def _periods(cell: _Cell) -> tuple[tuple[int, _Cell], tuple[int, _Cell]]:
    """The hour and the day of a cell, by span."""
    return (1, cell), (24, (cell[0].replace(hour=0), *cell[1:]))


def _columns(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def update_metrics(*, tenant_id: UUID, at: datetime) -> int:
    """Count a portion of new events; return the number read, 0 when all are counted.

    Nothing while another worker is at it. Inside `tenancy`.
    """
    cursor = _lock_cursor(tenant_id, wait=False)
    if cursor is None:
        return 0
    logged = logs.logged_events(tenant_id)
    fresh, reached = events.changed_actions(tenant_id, after=cursor.read_to, limit=AT_A_TIME)
    late, _ = events.changed_actions(tenant_id, after=cursor.read_to - LOOK_BACK, until=cursor.read_to)
    changes = _Changes()
    since = cursor.looked_at - LOOK_BACK
    moved = [*_uncounted_actions(tenant_id, late | fresh), *_falsely_told(tenant_id, since=since)]
    _measure(tenant_id, moved, changes)
    _count_calls(cursor, changes, at=at)
    changes.apply(tenant_id)
    cursor.read_to, cursor.looked_at = reached or cursor.read_to, max(cursor.looked_at, at)
    is_all = not fresh or not events.changed_actions(tenant_id, after=cursor.read_to, limit=1)[0]
    cursor.counted_to = at if is_all else cursor.read_to
    cursor.seen = logged if is_all else None
    _move_cursor(cursor)
    return len(fresh)


def rebuild_metrics(*, tenant_id: UUID, at: datetime) -> int:
    """Delete the figures and recompute them from the record; return the number of actions. Inside `tenancy`."""
    cursor = _lock_cursor(tenant_id, wait=True)
    assert cursor is not None
    for model in (MetricAction, MetricRollUp, MetricDelay):
        model.objects.filter(tenant_id=tenant_id).delete()
    cursor.read_to = events.changed_actions(tenant_id, after=_BEGINNING)[1] or _BEGINNING
    until = max(cursor.looked_at, at)
    cursor.looked_at, cursor.recent_calls = _BEGINNING, []
    count, last = 0, storage.NOTHING_BEFORE
    while found := actions.action_ids(tenant_id, after=last, limit=_ACTIONS_AT_A_TIME):
        # A portion at a time: the sums of every hour at once would fill the memory.
        changes = _Changes()
        _measure(tenant_id, found, changes)
        changes.apply(tenant_id)
        count, last = count + len(found), found[-1]
    changes = _Changes()
    _count_calls(cursor, changes, at=until)
    changes.apply(tenant_id)
    cursor.looked_at, cursor.counted_to = until, at
    _move_cursor(cursor)
    return count


def _lock_cursor(tenant_id: UUID, *, wait: bool) -> MetricCursor | None:
    MetricCursor.objects.get_or_create(tenant_id=tenant_id, defaults={"read_to": _BEGINNING, "looked_at": _BEGINNING})
    here = MetricCursor.objects.filter(tenant_id=tenant_id)
    return here.select_for_update(skip_locked=not wait).first()


def _move_cursor(cursor: MetricCursor) -> None:
    MetricCursor.objects.filter(tenant_id=cursor.tenant_id).update(
        read_to=cursor.read_to,
        looked_at=cursor.looked_at,
        counted_to=cursor.counted_to,
        recent_calls=cursor.recent_calls,
        seen=cursor.seen,
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
    return [action_id for action_id in wrong if action_id not in known or not known[action_id][1]]


def _measure(tenant_id: UUID, action_ids: Sequence[UUID], changes: _Changes) -> None:
    """Measure these actions from their records, and note what they add beyond what is counted of them."""
    steps = events.action_steps(tenant_id, list(set(action_ids))) if action_ids else {}
    # The events of a month that was taken away are gone, and with them what an action of it adds.
    wanted = list(steps)
    if not wanted:
        return
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
    kept = {row[0]: dict(zip(_MEASURED, row, strict=True)) for row in execute(_KEPT_MEASURES, tenant_id, wanted)}
    measured = [dict(zip(_MEASURED, row, strict=True)) for row in rows]
    _note_failed_calls(tenant_id, measured, kept, {each: steps[each][0][5] for each in steps}, changes)
    for row in kept.values():
        changes.add_measures(row, -1)
    for row in measured:
        changes.add_measures(row, 1)
    fresh = [row for row in measured if row != kept.get(row["action_id"])]
    if fresh:
        execute(_KEEP_MEASURES, tenant_id, *_columns([list(row.values()) for row in fresh]))


def _note_failed_calls(
    tenant_id: UUID,
    measured: Sequence[dict[str, Any]],
    kept: Mapping[UUID, Mapping[str, Any]],
    proposed_at: Mapping[UUID, datetime],
    changes: _Changes,
) -> None:
    """Move the calls of actions whose tool failed since, or failed and does not count so any more."""
    turned = {
        row["action_id"]: row
        for row in measured
        if row["call_failed"] != (kept[row["action_id"]]["call_failed"] if row["action_id"] in kept else 0)
    }
    if not turned:
        return
    classes = catalogue.first_classes(tenant_id)
    calls = gate.accepted_calls(tenant_id, {each: proposed_at[each] for each in turned})
    for action_id, hour, tool, agent in calls:
        sign = 1 if turned[action_id]["call_failed"] else -1
        cell = (hour, tool, agent, _class_of(tool, hour, classes), "")
        changes.add_calls(cell, {"calls_failed": sign, "calls_valid": -sign})
    # An order of ours was called by nobody.
    for action_id in set(turned) - {call[0] for call in calls}:
        turned[action_id]["call_failed"] = 0


def _row(action: Action, history: ActionHistory, found: ActionMeasures, versions: Mapping[str, str]) -> list[Any]:
    """The values of `_MEASURED`."""
    return [
        *(action.id, history.events[-1].seq, _hour_of(found.at)),
        *(action.tool, action.agent, action.side_effect_class, versions.get(found.version_digest, "")),
        *(found.verification_ms, found.reconcile_ms),
        *(found.counts.get(name, 0) for name in OF_ACTIONS),
        int(action.state == "FAILED" and action.attempt_count > 0),
    ]


def _count_calls(cursor: MetricCursor, changes: _Changes, *, at: datetime) -> None:
    """Note the calls since a minute before the last look, less what was counted of them then."""
    tenant_id, since = cursor.tenant_id, cursor.looked_at - LOOK_BACK
    again = max(cursor.looked_at, at) - LOOK_BACK
    classes = catalogue.first_classes(tenant_id)
    recent: defaultdict[_Cell, Counter[str]] = defaultdict(Counter)
    for hour, *cell, counts in cursor.recent_calls:
        changes.add_calls((datetime.fromisoformat(hour), *cell), counts, -1)
    for hour, tool, agent, accepted, code, category, is_again, made in gate.count_calls_since(
        tenant_id, since, again=again
    ):
        counts = _call_counts(accepted, code, category, made)
        if counts:
            cell = (hour, tool, agent, _class_of(tool, hour, classes), "")
            changes.add_calls(cell, counts)
            if is_again:
                recent[cell].update(counts)
    cursor.recent_calls = [[hour.isoformat(), *cell, dict(counts)] for (hour, *cell), counts in recent.items()]


def _class_of(tool: str, hour: datetime, classes: Sequence[tuple[str, str, datetime]]) -> str:
    """The class of a tool that was registered by the end of this hour."""
    return next((kind for name, kind, since in classes if name == tool and since < hour + _HOUR), "")


def _call_counts(accepted: bool, code: str, category: str, made: int) -> dict[str, int]:
    """The counts of so many calls of one kind; what their tools made of them is not known yet (rule 3)."""
    if code in HELD_BACK:
        return {}
    counts = {
        "calls": made,
        "calls_accepted": made if accepted else 0,
        "calls_valid": made if accepted else 0,
        "calls_undisclosed": made if code in UNDISCLOSED_NAMES else 0,
        "calls_arguments": made if category == "argument_hallucination" else 0,
        "calls_phantom": made if category == "phantom" else 0,
        "repeats": made if code == "DUPLICATE_BLOCKED" else 0,
        "repeats_absorbed": made if code == "DUPLICATE_BLOCKED" else 0,
    }
    return {name: count for name, count in counts.items() if count}


def _hour_of(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
