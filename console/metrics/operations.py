"""The roll-ups: kept behind a cursor, and made anew at any time with the same result.

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
from typing import TYPE_CHECKING, Final
from uuid import UUID

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
from console.metrics.rules.filters import EVERYTHING
from console.models import MetricAction, MetricCursor, MetricDelay, MetricRollUp
from ledger.actions.queries import actions
from ledger.catalogue import queries as catalogue
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
_DAY: Final = timedelta(days=1)
_KINDS: Final = ("verification", "reconcile")
Key = tuple[str, ...]


def update_metrics(*, tenant_id: UUID, at: datetime) -> int:
    """Count what the record has gained, a portion of it; how many events it looked at, 0 when all is counted.

    Nothing while another worker is at it. Inside `tenancy`.
    """
    cursor = _lock_cursor(tenant_id, wait=False)
    if cursor is None:
        return 0
    fresh, reached = events.changed_actions(tenant_id, after=cursor.read_to, limit=AT_A_TIME)
    late, _ = events.changed_actions(tenant_id, after=cursor.read_to - LOOK_BACK, until=cursor.read_to)
    since = cursor.looked_at - LOOK_BACK
    hours = _measure(tenant_id, [*_behind(tenant_id, late | fresh), *_falsely_told(tenant_id, since=since)])
    _count_again(tenant_id, hours | set(gate.hours_with_calls(tenant_id, since=since)))
    cursor.read_to, cursor.looked_at = reached or cursor.read_to, max(cursor.looked_at, at)
    is_all = not fresh or not events.changed_actions(tenant_id, after=cursor.read_to, limit=1)[0]
    cursor.counted_to = at if is_all else cursor.read_to
    _move_cursor(cursor)
    return len(fresh)


def rebuild_metrics(*, tenant_id: UUID, at: datetime) -> int:
    """Throw the figures away and make them from the record alone; how many actions there are. Inside `tenancy`."""
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


def _behind(tenant_id: UUID, heads: Mapping[UUID, int]) -> list[UUID]:
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
    """Measure these actions from their records; the hours whose counts have changed by it."""
    steps = events.action_steps(tenant_id, list(set(action_ids))) if action_ids else {}
    # The events of a month that was taken away are gone, and with them what an action of it adds.
    wanted = list(steps)
    if not wanted:
        return set()
    runs = after.reading_codes(tenant_id, wanted)
    told = after.completions_reported(tenant_id, event_ids=[step[0] for each in steps.values() for step in each])
    reported = {event_id for _, event_id in told}
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
    MetricAction.objects.filter(tenant_id=tenant_id, action_id__in=wanted).delete()
    MetricAction.objects.bulk_create(rows, batch_size=500)
    # Calls count in the hour of the call, and whether their tool failed has perhaps just been learnt.
    return hours | {row.hour for row in rows} | {_hour_of(steps[row.action_id][0][5]) for row in rows}


def _row(action: Action, history: ActionHistory, found: ActionMeasures, versions: Mapping[str, str]) -> MetricAction:
    return MetricAction(
        tenant_id=action.tenant_id,
        action_id=action.id,
        seq=history.events[-1].seq,
        hour=_hour_of(found.at),
        tool=action.tool,
        agent=action.agent,
        side_effect_class=action.side_effect_class,
        version=versions.get(found.version_digest, ""),
        verification_ms=found.verification_ms,
        reconcile_ms=found.reconcile_ms,
        **found.counts,
    )


def _count_again(tenant_id: UUID, hours: Iterable[datetime]) -> None:
    """Count these hours anew from the actions and calls in them, and then the days that they belong to."""
    wanted = sorted(set(hours))
    for hour in wanted:
        classes = catalogue.classes_of_tools(tenant_id, until=hour + _HOUR)
        _replace(tenant_id, 1, hour, _hour_counts(tenant_id, hour, classes), _hour_delays(tenant_id, hour))
    for day in sorted({hour.replace(hour=0) for hour in wanted}):
        until = day + _DAY
        counts = queries.count_by(tenant_id, *queries.DIMENSIONS, since=day, until=until, span=1, about=EVERYTHING)
        delays = queries.delays_by(tenant_id, *queries.DIMENSIONS, since=day, until=until, span=1, about=EVERYTHING)
        _replace(tenant_id, 24, day, counts, delays)


def _replace(
    tenant_id: UUID,
    span: int,
    start: datetime,
    counts: Mapping[Key, Mapping[str, int]],
    delays: Mapping[Key, Mapping[int, tuple[int, int]]],
) -> None:
    place = {"tenant_id": tenant_id, "span": span, "start": start}
    for model in (MetricRollUp, MetricDelay):
        model.objects.filter(**place).delete()
    MetricRollUp.objects.bulk_create(
        [MetricRollUp(**place, **_named(key), **values) for key, values in counts.items()], batch_size=500
    )
    MetricDelay.objects.bulk_create(
        [
            MetricDelay(**place, kind=kind, **_named(key), rounded_ms=rounded, count=count, total_ms=total)
            for (kind, *key), lengths in delays.items()
            for rounded, (count, total) in lengths.items()
        ],
        batch_size=2_000,
    )


def _named(key: Iterable[str]) -> dict[str, str]:
    return dict(zip(queries.DIMENSIONS, key, strict=True))


def _hour_counts(tenant_id: UUID, hour: datetime, classes: Mapping[str, str]) -> dict[Key, Counter[str]]:
    counts = {key: Counter(found) for key, found in queries.sum_actions(tenant_id, hour, OF_ACTIONS).items()}
    for tool, agent, accepted, code, category, made, failed in gate.count_calls(
        tenant_id, since=hour, until=hour + _HOUR
    ):
        # There is no end to the names of tools that do not exist.
        known = "" if category == "phantom" else tool
        here = counts.setdefault((known, agent, classes.get(known, ""), ""), Counter())
        here["calls"] += made
        here["calls_accepted"] += made if accepted else 0
        here["calls_failed"] += failed
        here["calls_valid"] += made - failed if accepted else 0
        here["calls_undisclosed"] += made if code == "UNDISCLOSED_TOOL" else 0
        here["calls_arguments"] += made if category == "argument_hallucination" else 0
        here["calls_phantom"] += made if category == "phantom" else 0
        if code == "DUPLICATE_BLOCKED":
            here["repeats"] += made
            here["repeats_absorbed"] += made
    return {key: Counter({name: found[name] for name in COUNTS}) for key, found in counts.items()}


def _hour_delays(tenant_id: UUID, hour: datetime) -> dict[Key, dict[int, tuple[int, int]]]:
    delays: dict[Key, dict[int, tuple[int, int]]] = {}
    for *key, verification, reconcile in queries.hour_delays(tenant_id, hour):
        for kind, exact in zip(_KINDS, (verification, reconcile), strict=True):
            if exact is not None:
                lengths = delays.setdefault((kind, *key), {})
                count, total = lengths.get(round_delay(exact), (0, 0))
                lengths[round_delay(exact)] = (count + 1, total + exact)
    return delays


def _hour_of(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
