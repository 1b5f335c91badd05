"""Reads actions: by id, by filters, by key or target, and the waiting ones. All functions run inside `tenancy`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, LiteralString, NamedTuple
from uuid import UUID

import orjson
from django.db.models import BooleanField, Count, OuterRef, Q, QuerySet
from django.db.models.expressions import RawSQL

from ledger.catalogue.rules.effects import SideEffectClass
from ledger.catalogue.rules.targets import normal_form
from ledger.db import columns, execute, fetch_one, load_models, pipeline, select
from ledger.models import (
    Action,
    Entry,
    Event,
    Idempotency,
)
from ledger.record.rules.canonical import digest
from ledger.record.rules.ids import lower_bound
from ledger.record.rules.lifecycle import BLOCKS_REPEAT, OPEN, PHASES, WORDS_OF_PRESENCE, State, phases
from ledger.record.rules.outcomes import (
    ATTESTED_REVERSAL,
    LOST_STARTS,
    NO_OP,
    SET_APART,
    UNKNOWN_STATES,
    UNTOLD,
    Outcome,
    OutcomePath,
    outcome_of,
    outcome_paths,
)
from ledger.record.rules.workspaces import dirtying_action
from ledger.verification.queries.storage import is_uuid


def in_states(column: str, states: Iterable[str]) -> str:
    """The SQL condition that a column is one of these states.

    The states are written out so that it matches the predicate of a partial index: a plan made for any value would use
    no index that leaves out some rows.
    """
    return f"{column} IN ({', '.join(repr(str(state)) for state in states)})"


IS_OPEN = f"(contradicted OR {in_states('phase', phases(OPEN))})"


def in_state(*states: str) -> Q:
    """Actions in one of these states, found by their phase."""
    phase_is = Q(phase=phases(states)[0]) if len(phases(states)) == 1 else Q(phase__in=phases(states))
    return phase_is if _have_own_phases(states) else phase_is & Q(state__in=list(states))


def _have_own_phases(states: Iterable[str]) -> bool:
    """Return whether each state is a phase of its own. The state is then not queried twice, because the planner would
    take the second condition for rare.
    """
    return all(state not in PHASES.values() and state not in PHASES for state in states)


def open_duplicates_sql(*, key: str, at: str) -> str:
    """The ids of a tenant's ($1) actions of one logical mutation that keep it from being repeated, as a statement.

    Those with a `lifecycle.current_repeat_block` (R-EX-08) but a contradiction that a person has released since. Each
    part has an index of its own, so the repeats that are over are not read.
    """
    mine = f"SELECT o.id FROM ledger_action o WHERE o.tenant_id = $1 AND o.operation_key = {key} AND o.mutating"
    blocking = in_states("o.phase", phases(BLOCKS_REPEAT))
    ended = in_states("o.phase", ("FAILED", "RECONCILED_SUCCESS"))
    by_word = in_states("o.set_apart", WORDS_OF_PRESENCE)
    timed = f"{ended} AND o.blocks_until > {at} AND (o.phase = 'FAILED' OR {by_word}) AND NOT o.contradicted"
    doubtful = f"o.contradicted AND {_NOT_RELEASED}"
    return f"{mine} AND {blocking} UNION ALL {mine} AND {timed} UNION ALL {mine} AND {doubtful}"


_NOT_RELEASED = """NOT EXISTS (
    SELECT FROM ledger_event e WHERE e.tenant_id = $1 AND e.subject_id = o.id AND e.kind = 'repeat_released'
        AND NOT EXISTS (SELECT FROM ledger_event l WHERE l.tenant_id = $1 AND l.subject_id = e.subject_id
            AND l.seq > e.seq AND l.kind IN ('contradicted', 'doubted')))"""
"""A later contradiction refuses repeats again."""


class BlockingAction(NamedTuple):
    """An action that keeps its operation from being repeated.

    `state` is CONTRADICTED where a later reading contradicts what was settled. `until` is the time from which a repeat
    is possible; None where no time ends it: it lasts until the action is settled. `settled`: nothing more happens to
    the action by itself.
    """

    action_id: UUID
    state: str
    settled: bool
    until: datetime | None

    @property
    def waits_for_a_person(self) -> bool:
        """Return whether only a person can end it."""
        return self.until is None and (self.settled or self.state in ("CONTRADICTED", State.REVIEW_REQUIRED))


def blocking_actions(tenant_id: UUID, operation_key: str, *, at: datetime) -> list[BlockingAction]:
    """The actions that keep an operation from being repeated now, newest first."""
    timed = in_states("d.phase", ("FAILED", "RECONCILED_SUCCESS"))
    statement = (
        "SELECT d.id, CASE WHEN d.contradicted THEN 'CONTRADICTED' ELSE d.state END, d.settled,"
        f" CASE WHEN {timed} AND NOT d.contradicted THEN d.blocks_until END FROM ledger_action d"
        f" WHERE d.tenant_id = $1 AND d.id IN ({open_duplicates_sql(key='$2', at='$3')}) ORDER BY d.id DESC"
    )
    return [BlockingAction(*row) for row in execute(statement, tenant_id, operation_key, at)]


def action(tenant_id: UUID, action_id: UUID) -> Action | None:
    return fetch_one(Action, "tenant_id = $1 AND id = $2", tenant_id, action_id)


class LatestEvent(NamedTuple):
    """An action with its newest event: the event's id, and the entry that it carries."""

    action: Action
    event_id: UUID
    entry: dict[str, Any] | None


_LATEST = f"""
SELECT {columns(Action, "a")}, e.id, n.entry FROM ledger_action a
JOIN ledger_event e ON e.tenant_id = $1 AND e.subject_id = $2 AND e.seq = a.seq
LEFT JOIN ledger_entry n ON n.tenant_id = $1 AND n.subject_id = $2 AND n.seq = a.seq
WHERE a.tenant_id = $1 AND a.id = $2
"""


def workspace_left_dirty(action: Action) -> Action | None:
    """The action that left the target of this local write dirty (R-VD-02); None where it is clean."""
    if action.side_effect_class != SideEffectClass.EPHEMERAL_WRITE:
        return None
    return dirtying_action(actions(action.tenant_id, target=action.target, limit=50))


def latest_event(tenant_id: UUID, action_id: UUID) -> LatestEvent:
    """An action, which must exist, with its newest event."""
    [row] = execute(_LATEST, tenant_id, action_id)
    (action,), (event_id, entry) = load_models(row, Action)
    return LatestEvent(action, event_id, orjson.loads(entry) if entry is not None else None)


def action_columns(alias: LiteralString) -> LiteralString:
    """The columns of an action for a query that joins it to others, in the order in which `read_action` reads them."""
    return columns(Action, alias)


def read_action(row: tuple[Any, ...]) -> tuple[Action, tuple[Any, ...]]:
    """Read an action from the start of a joined row; returns it and the rest of the row."""
    [found], rest = load_models(row, Action)
    return found, rest


ORDERS: Final[dict[str, tuple[LiteralString, bool]]] = {
    "": ("id", True),
    "oldest": ("id", False),
    "agent": ("agent", False),
    "-agent": ("agent", True),
    "tool": ("tool", False),
    "-tool": ("tool", True),
    "target": ("target", False),
    "-target": ("target", True),
}
"""By what actions can be listed and whether downwards, each served by an index; an id begins with its time."""


def sorted_actions(tenant_id: UUID, order: str, *, behind: UUID | None = None, limit: int) -> list[Action]:
    """Return a page of all actions in an order of `ORDERS`, starting after the row `behind`; never count."""
    if behind is None:
        return select(Action, sorted_page_sql(order), tenant_id, limit)
    return select(Action, sorted_page_sql(order, is_behind=True), tenant_id, limit, behind)


def sorted_page_sql(order: str, *, is_behind: bool = False) -> LiteralString:
    """Return the condition, order and limit ($2) of a page of a tenant's ($1) actions; with `is_behind` after the row
    $3.

    A row is compared as a whole with the last one seen, so that a page begins in the index where that one stands.
    """
    column, downwards = ORDERS[order]
    key: LiteralString = "id" if column == "id" else f"{column}, id"
    way: LiteralString = " DESC" if downwards else ""
    by: LiteralString = f"id{way}" if column == "id" else f"{column}{way}, id{way}"
    step: LiteralString = "<" if downwards else ">"
    last: LiteralString = f"(SELECT {key} FROM ledger_action l WHERE l.tenant_id = $1 AND l.id = $3)"
    start: LiteralString = f" AND ({key}) {step} {last}" if is_behind else ""
    return f"tenant_id = $1{start} ORDER BY {by} LIMIT $2"


def actions(
    tenant_id: UUID,
    *,
    before: UUID | None = None,
    limit: int = 50,
    q: str | None = None,
    oldest: bool = False,
    **filters: Any,
) -> list[Action]:
    """A page of actions, newest first, starting below the id `before`; never counts (keyset paging).

    With `oldest` the oldest first, starting above it; a search for `q` knows only the newest first.

    Filters: state, outcome (or `NOT_KNOWN`), tool, agent, session, run, side_effect_class, discrepancy, target
    (exact), q (part of the target), since and until (datetimes).
    """
    upwards, condition = oldest and not q, filter_condition(filters)
    found = Action.objects.filter(condition, tenant_id=tenant_id).order_by("id" if upwards else "-id")
    if before is not None:
        found = found.filter(id__gt=before) if upwards else found.filter(id__lt=before)
    return (
        _with_target_like(tenant_id, found, q, limit=limit, is_filtered=bool(condition)) if q else list(found[:limit])
    )


LOOKED_THROUGH = 2000
"""The number of the newest actions that are searched one by one: frequent matches are found there."""
MOST_LOOKED_THROUGH = 40_000
"""The most actions searched after these in their order, where the newest show that matches may fill a page."""
MOST_MATCHES = 1000


def _with_target_like(
    tenant_id: UUID, found: QuerySet[Action], part: str, *, limit: int, is_filtered: bool
) -> list[Action]:
    """The newest of these actions that have `part` in their target.

    Frequent matches are found among the newest actions, less frequent ones among some more, in their order. Rare ones
    come from the index, which reads all that match, however many they are. It does not know the other filters: where
    there are some, it is asked for more than is wanted. Only if it finds too few are the remaining actions scanned.
    """
    matching = found.filter(target__icontains=part)
    edge = next(iter(found.values_list("id", flat=True)[LOOKED_THROUGH : LOOKED_THROUGH + 1]), None)
    if edge is None:
        return list(matching[:limit])
    rows = list(matching.filter(id__gt=edge)[:limit])
    if len(rows) == limit:
        return rows
    pattern = "%" + part.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
    most = MOST_MATCHES if is_filtered else limit - len(rows)
    through = 0 if is_filtered else _ordered_window(len(rows), limit)
    named = execute("SELECT action_id FROM ledger_search($1, $2, $3, $4, $5)", tenant_id, pattern, edge, most, through)
    ids = [action_id for (action_id,) in named]
    rows += found.filter(id__in=ids)[: limit - len(rows)]
    if len(ids) < most or len(rows) == limit:
        return rows
    return rows + list(matching.filter(id__lt=ids[-1])[: limit - len(rows)])


def _ordered_window(found: int, wanted: int) -> int:
    """The number of actions to search in their order after the newest, `found` of which matched: twice as many as
    should contain the rest of a page, or none if that is more than the index is likely to cost.
    """
    if not found:
        return 0
    through = 2 * LOOKED_THROUGH * (wanted - found) // found
    return through if through <= MOST_LOOKED_THROUGH else 0


_FILTERS = {
    "tool": "tool",
    "agent": "agent",
    "session": "session_id",
    "sessions": "session_id__in",
    "run": "run_id",
    "relation": "relation",
    "side_effect_class": "side_effect_class",
    "discrepancy": "discrepancy",
    "target": "target",
    "q": "target__icontains",
    "since": "id__gte",
    "until": "id__lt",
}


_FORMS: Mapping[str, Any] = {"since": lower_bound, "until": lower_bound, "target": normal_form, "q": normal_form}


def filter_condition(filters: Mapping[str, Any]) -> Q:
    """The actions that these filters choose (see `actions`)."""
    found = Q()
    for name, value in filters.items():
        if name == "outcome" and value:
            found &= not_known() if value == NOT_KNOWN else outcome_condition(Outcome(value))
        elif name in ("state", "states"):
            found &= in_state(*([value] if name == "state" else value)) if value else Q()
        elif value is not None and (value != "" or name == "relation"):
            found &= Q(**{_FILTERS[name]: _FORMS[name](value) if name in _FORMS else value})
    return found


NOT_KNOWN: Final = "NOT_KNOWN"
"""The filter by outcome that finds everything of which it is not known whether it took effect, also where people have
it in review for that reason, or where it was contradicted."""
_STARTED_SQL: Final = f"(discrepancy <> '' OR attempt_count > 0 OR {in_states('reached_by', LOST_STARTS)})"
_NOT_KNOWN_SQL: Final = (
    f"(contradicted OR {in_states('phase', phases(UNKNOWN_STATES))}"
    f" OR phase = 'REVIEW_REQUIRED' AND {in_states('discrepancy', UNTOLD)} AND {_STARTED_SQL})"
)


def not_known() -> Q:
    """The condition of `NOT_KNOWN`: `outcomes.is_unknown` as the database is asked for it."""
    return Q(RawSQL(_NOT_KNOWN_SQL, (), output_field=BooleanField()))


def outcome_condition(outcome: Outcome) -> Q:
    """The condition for actions with an outcome, from the same table as `outcomes.outcome_of`."""
    if outcome is Outcome.CONTRADICTED:
        return Q(contradicted=True)
    by_word = Q(reached_by__in=[ATTESTED_REVERSAL, "attested_absent"])
    turned = {
        Outcome.COMPENSATED: Q(reversed=True, contradicted=False) & ~by_word,
        Outcome.COMPENSATED_AS_ATTESTED: Q(reversed=True, contradicted=False) & by_word,
    }
    found = turned.get(outcome, Q())
    for way in outcome_paths(outcome):
        found |= _outcome_condition(way)
    return found


def _outcome_condition(way: OutcomePath) -> Q:
    found = in_state(str(way.state)) & Q(contradicted=False, reversed=False)
    if way.kinds:
        found &= Q(set_apart__in=way.kinds) if set(way.kinds) <= set(SET_APART) else Q(reached_by__in=way.kinds)
    if way.but:
        found &= ~Q(reached_by__in=way.but)
    if way.asked is not None:
        found &= Q(approval_id__isnull=not way.asked)
    if way.read_only is not None:
        reads = Q(side_effect_class=str(SideEffectClass.READ_ONLY))
        found &= reads if way.read_only else ~reads
    if way.no_op is not None:
        found &= Q(discrepancy=NO_OP) if way.no_op else ~Q(discrepancy=NO_OP)
    return found


def count_ready_under(tenant_id: UUID, tool: str, versions: Collection[str], *, most: int) -> int:
    """Count the validated, not yet started actions of these versions of a tool's contract, up to `most`."""
    found = Action.objects.filter(in_state(State.VALIDATED), tenant_id=tenant_id, tool=tool)
    return found.filter(tool_version__in=list(versions))[:most].count()


READY = "phase = 'VALIDATED' AND state = 'VALIDATED'"
"""The condition that an action may start as far as the record goes."""


def ids_to_start(tenant_id: UUID, tools: list[str], *, after: UUID | None = None, limit: int = 200) -> list[UUID]:
    """Return validated actions of these tools, oldest first, after the id `after`."""
    rows = execute(
        f"SELECT id FROM ledger_action WHERE tenant_id = $1 AND {READY} AND tool = ANY($2)"
        " AND ($3::uuid IS NULL OR id > $3) ORDER BY id LIMIT $4",
        *(tenant_id, tools, after, limit),
    )
    return [action_id for (action_id,) in rows]


def retryable_actions(tenant_id: UUID, *, limit: int = 200) -> dict[UUID, UUID]:
    """Return actions that were attempted and may be started once more, by the approval that they name."""
    found = Action.objects.filter(in_state("VALIDATED"), tenant_id=tenant_id, attempt_count__gt=0)
    gated = found.filter(approval_id__isnull=False).order_by("id")[:limit]
    return {action.approval_id: action.id for action in gated if action.approval_id is not None}


def unsettled_actions(tenant_id: UUID, *, limit: int = 2000) -> list[UUID]:
    """Actions whose effect must still be read back, oldest first; after a recovery action has ended, too."""
    states = [State.ACCEPTED, State.PENDING, State.UNKNOWN, State.FORWARD_RECOVERY, State.RECONCILIATION_FAILED]
    found = Action.objects.filter(in_state(*states), tenant_id=tenant_id, settled=False)
    return list(found.order_by("id").values_list("id", flat=True)[:limit])


def actions_in_review(tenant_id: UUID, *, limit: int = 2000) -> list[UUID]:
    """Actions that wait for a person."""
    found = Action.objects.filter(in_state(State.REVIEW_REQUIRED), tenant_id=tenant_id)
    return list(found.order_by("id").values_list("id", flat=True)[:limit])


def stalled_actions(tenant_id: UUID, *, since: datetime, limit: int = 2000) -> list[UUID]:
    """Return mutations that were started, have not ended, and have had no event since then."""
    started = Action.objects.filter(phase__in=phases(OPEN), tenant_id=tenant_id, mutating=True, attempt_count__gt=0)
    return list(started.filter(changed_at__lt=since).order_by("id").values_list("id", flat=True)[:limit])


def child_of(tenant_id: UUID, event_id: UUID) -> Action | None:
    """The recovery action that an ordering event led to."""
    return Action.objects.filter(tenant_id=tenant_id, ordered_by=event_id).first()


def children_of(tenant_id: UUID, action_id: UUID) -> list[Action]:
    """The recovery actions that were ordered for an action, oldest first."""
    return list(Action.objects.filter(tenant_id=tenant_id, parent_id=action_id).order_by("id"))


def actions_by_id(tenant_id: UUID, ids: list[UUID]) -> dict[UUID, Action]:
    return {each.id: each for each in select(Action, "tenant_id = $1 AND id = ANY($2)", tenant_id, ids)}


def related_actions(action: Action) -> list[tuple[Action, str]]:
    """(action, relation) of parents, children and replacements, oldest first."""
    related = """tenant_id = $1 AND id <> $2 AND (supersedes = $2 OR parent_id = $2 OR id = ANY(ARRAY[$3, $4]::uuid[]))
        ORDER BY id LIMIT 20"""
    found = select(Action, related, action.tenant_id, action.id, action.supersedes, action.parent_id)
    return [(each, _relation_text(action, each)) for each in found]


def _relation_text(action: Action, other: Action) -> str:
    if other.id == action.parent_id:
        return f"this one is its {action.relation.lower()}"
    if other.parent_id == action.id:
        return f"{other.relation.lower()} of this one"
    return "replaced by this one" if other.id == action.supersedes else "replaces this one"


def same_operation(action: Action, *, limit: int) -> list[tuple[Action, str]]:
    """Other actions of the same logical mutation, newest first."""
    same = "tenant_id = $1 AND operation_key = $2 AND id <> $3 ORDER BY id DESC LIMIT $4"
    return [(each, "") for each in select(Action, same, action.tenant_id, action.operation_key, action.id, limit)]


def same_target(action: Action, *, limit: int) -> list[tuple[Action, str]]:
    """Other actions on the same target, by any tool, newest first."""
    same = "tenant_id = $1 AND target = $2 AND id <> $3 ORDER BY id DESC LIMIT $4"
    return [(each, "") for each in select(Action, same, action.tenant_id, action.target, action.id, limit)]


def same_agent_and_tool(action: Action, *, limit: int) -> list[Action]:
    """The newest other actions of the same agent with the same tool."""
    same = "tenant_id = $1 AND agent = $2 AND tool = $3 AND id <> $4 ORDER BY id DESC LIMIT $5"
    return select(Action, same, action.tenant_id, action.agent, action.tool, action.id, limit)


def waiting_actions(tenant_id: UUID, **about: str) -> QuerySet[Action, UUID]:
    """The ids of the waiting actions of a tool or an agent, as a sub-query."""
    found = Action.objects.filter(in_state(State.VALIDATED), tenant_id=tenant_id, approval_id__isnull=False, **about)
    return found.values_list("id", flat=True)


def actions_of_agent(tenant_id: UUID, agent: str) -> QuerySet[Action, UUID]:
    """The ids of an agent's actions, as a sub-query."""
    return Action.objects.filter(tenant_id=tenant_id, agent=agent).values_list("id", flat=True)


def tool_of_row(tenant_id: UUID) -> QuerySet[Action, str]:
    """The tool of a row's action: a sub-query for tables with an `action_id`."""
    return Action.objects.filter(tenant_id=tenant_id, id=OuterRef("action_id")).values_list("tool", flat=True)


def failed_executions(tenant_id: UUID, *, since: datetime, until: datetime) -> QuerySet[Action, UUID]:
    """The ids of a period's actions whose tool failed, as a sub-query."""
    ids = {"id__gte": lower_bound(since), "id__lt": lower_bound(until)}
    found = Action.objects.filter(in_state(State.FAILED), tenant_id=tenant_id, attempt_count__gt=0, **ids)
    return found.values_list("id", flat=True)


def demonstrated_tools(tenant_id: UUID, agent: str, tools: Collection[str]) -> set[str]:
    """The tools of these with which an agent reached a verified success that is not contradicted (R-CR-17)."""
    rows = execute(
        # Each tool is looked up by itself: a join would read every success of the agent.
        "SELECT tool.tool FROM unnest($3::text[]) AS tool, LATERAL (SELECT FROM ledger_action a WHERE a.tenant_id = $1"
        " AND a.agent = $2 AND a.tool = tool.tool AND a.phase = 'RECONCILED_SUCCESS'"
        f" AND NOT {in_states('a.reached_by', WORDS_OF_PRESENCE)} AND NOT a.contradicted LIMIT 1) AS success",
        *(tenant_id, agent, sorted(tools)),
    )
    return {tool for (tool,) in rows}


def idempotency(tenant_id: UUID, action_id: UUID) -> Idempotency | None:
    return fetch_one(Idempotency, "tenant_id = $1 AND action_id = $2", tenant_id, action_id)


def action_by_key(tenant_id: UUID, key: str) -> UUID | None:
    """The action whose mutation was sent with this idempotency key."""
    kept = fetch_one(Idempotency, "tenant_id = $1 AND key_hash = $2", tenant_id, digest(key.encode()))
    return kept.action_id if kept is not None else None


def newest_of_target(tenant_id: UUID, target: str, states: Iterable[str]) -> UUID | None:
    """The newest mutating action on a target that is in one of these states."""
    found = fetch_one(
        Action,
        "tenant_id = $1 AND target = $2 AND mutating AND state = ANY($3) ORDER BY id DESC LIMIT 1",
        *(tenant_id, target, sorted(states)),
    )
    return found.id if found is not None else None


def attributable_actions(
    tenant_id: UUID, *, key_hashes: list[str], traces: list[str], ids: list[str], targets: list[str], limit: int = 2000
) -> list[Action]:
    """Return the started actions with these keys, traces and ids, and the newest ones on these targets."""
    keyed = Idempotency.objects.filter(tenant_id=tenant_id, key_hash__in=key_hashes).values_list("action_id", flat=True)
    wanted = [Q(id__in=[*keyed, *(UUID(each) for each in ids if is_uuid(each))])]
    # Query each only when needed: traces have no index, and targets match many old actions.
    wanted += [Q(trace_id__in=traces)] if traces else []
    wanted += [Q(target__in=targets)] if targets else []
    found = Action.objects.filter(tenant_id=tenant_id, attempt_count__gt=0).order_by("-id")
    return list({each.id: each for part in wanted for each in found.filter(part)[:limit]}.values())


class ActionRecord(NamedTuple):
    """An action with its entry, the durable record of its mutation, and the newest reading taken before it ran."""

    action: Action
    entry: dict[str, Any]
    idempotency: Idempotency | None
    reading: UUID | None


_RECORDS = f"""
SELECT {columns(Action, "a")}, {columns(Idempotency, "i")}, n.entry,
    (SELECT t.detail FROM ledger_event e JOIN ledger_entry t
            ON t.tenant_id = $1 AND t.subject_id = e.subject_id AND t.seq = e.seq
        WHERE e.tenant_id = $1 AND e.subject_id = a.id AND e.kind = 'reading_taken' ORDER BY e.seq DESC LIMIT 1)
FROM ledger_action a
LEFT JOIN ledger_entry n ON n.tenant_id = $1 AND n.subject_id = a.id AND n.seq = a.seq
LEFT JOIN ledger_idempotency i ON i.tenant_id = $1 AND i.action_id = a.id
WHERE a.tenant_id = $1 AND a.id = ANY($2)
"""


def records_call(tenant_id: UUID, action_ids: list[UUID]) -> tuple[Any, ...]:
    """The call for `pipeline` whose rows `read_records` reads."""
    return _RECORDS, tenant_id, action_ids


def read_records(rows: Iterable[tuple[Any, ...]]) -> list[ActionRecord]:
    """Read these actions with everything on record about them."""
    records = []
    for row in rows:
        (action, idempotency), (entry, detail) = load_models(row, Action, Idempotency)
        reading = UUID(orjson.loads(detail)["pointer"]) if detail is not None else None
        records.append(ActionRecord(action, orjson.loads(entry) if entry is not None else {}, idempotency, reading))
    return records


def idempotencies(tenant_id: UUID, action_ids: list[UUID]) -> dict[UUID, Idempotency]:
    """The durable records of these actions' mutations, by action."""
    found = select(Idempotency, "tenant_id = $1 AND action_id = ANY($2)", tenant_id, action_ids)
    return {each.action_id: each for each in found}


def count_outcomes(tenant_id: UUID, *, since: datetime, most: int | None = None) -> Counter[Outcome]:
    """Count the actions proposed since a moment by outcome, all or the newest ones."""
    rows = execute(
        "SELECT state, reached_by, side_effect_class, discrepancy,"
        " CASE WHEN approval_id IS NOT NULL THEN tenant_id END, contradicted, reversed, count(*)"
        " FROM (SELECT * FROM ledger_action WHERE tenant_id = $1 AND id >= $2 ORDER BY id DESC LIMIT $3) AS made"
        " GROUP BY 1, 2, 3, 4, 5, 6, 7",
        *(tenant_id, lower_bound(since), most),
    )
    names = ("state", "reached_by", "side_effect_class", "discrepancy", "approval_id", "contradicted", "reversed")
    counted: Counter[Outcome] = Counter()
    for *view, count in rows:
        counted[outcome_of(Action(**dict(zip(names, view, strict=True))))] += count
    return counted


def count_standings(tenant_id: UUID, *groups: tuple[str, ...], most: int = 1000) -> list[tuple[int, datetime | None]]:
    """Count the actions of `NOT_KNOWN`, and of each group of states, up to `most`, with since when the oldest is."""
    wanted = (_NOT_KNOWN_SQL, *map(_in_state_sql, groups))
    counts = pipeline(*((_COUNTED.format(condition), tenant_id, most) for condition in wanted))
    return [(count, since) for [(count, since)] in counts]


_COUNTED = """SELECT count(*), min(changed_at) FROM (
    SELECT changed_at FROM ledger_action WHERE tenant_id = $1 AND {} LIMIT $2) AS found"""


def _in_state_sql(states: tuple[str, ...]) -> str:
    """The condition of `in_state` as text."""
    phase_is = in_states("phase", phases(states))
    return phase_is if _have_own_phases(states) else f"{phase_is} AND {in_states('state', states)}"


def count_actions(tenant_id: UUID, **filters: Any) -> int:
    """Count the actions of a session or a run (see `record.actions` for the filters), never of a whole tenant."""
    found = Action.objects.filter(filter_condition(filters), tenant_id=tenant_id)
    return int(found.aggregate(made=Count("id"))["made"])


def open_actions_before(
    tenant_id: UUID, settled: Collection[str], *, before: UUID, limit: int = 200, **filters: Any
) -> list[Action]:
    """Actions below an id that are in no settled state, or were contradicted, oldest first."""
    found = Action.objects.filter(filter_condition(filters), tenant_id=tenant_id, id__lt=before)
    return list(found.filter(~Q(state__in=list(settled)) | Q(contradicted=True)).order_by("id")[:limit])


# A skip scan: each phase is looked up once, however many actions are in it.
OPEN_PHASES: Final = f"""
WITH RECURSIVE open AS (
    (SELECT contradicted, phase FROM ledger_action WHERE tenant_id = $1 AND session_id = $2 AND {IS_OPEN}
        ORDER BY contradicted, phase LIMIT 1)
    UNION ALL
    SELECT following.contradicted, following.phase FROM open, LATERAL (SELECT contradicted, phase FROM ledger_action
        WHERE tenant_id = $1 AND session_id = $2 AND {IS_OPEN}
            AND (contradicted, phase) > (open.contradicted, open.phase)
        ORDER BY contradicted, phase LIMIT 1) following)
SELECT CASE WHEN contradicted THEN 'UNKNOWN' ELSE phase END FROM open
"""
"""The query of `open_phases`, for a statement whose first two values are the tenant and the session."""


def open_phases(tenant_id: UUID, session_id: UUID) -> set[str]:
    """The phases of a session's open actions; contradicted ones count as unknown."""
    return {each for (each,) in execute(OPEN_PHASES, tenant_id, session_id)}


def newest_action(tenant_id: UUID, session_id: UUID) -> Action | None:
    """The action that a session proposed last."""
    return Action.objects.filter(tenant_id=tenant_id, session_id=session_id).order_by("-id").first()


def suggested_next_tool(tenant_id: UUID, action_id: UUID) -> dict[str, Any] | None:
    """The next tool that an answer named, and whether the agent called it; None if none was named."""
    observed = Event.objects.filter(tenant_id=tenant_id, subject_id=action_id, kind="observed").values_list("seq")
    kept = Entry.objects.filter(tenant_id=tenant_id, subject_id=action_id, seq__in=observed).order_by("-seq")
    for detail in kept.values_list("detail", flat=True)[:5]:
        named = orjson.loads(bytes(detail)).get("next_tool") if detail is not None else None
        if named is not None:
            return dict(named)
    return None


def action_ids(tenant_id: UUID, *, after: UUID, limit: int) -> list[UUID]:
    """The next actions in the order of their ids, which is that of their proposals."""
    found = Action.objects.filter(tenant_id=tenant_id, id__gt=after).order_by("id")
    return list(found.values_list("id", flat=True)[:limit])
