"""Reads of calls and the gate's verdicts, singly and as counts over time. Every one runs inside `tenancy`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from django.db.models import (
    Count,
    DateTimeField,
    F,
    Func,
    Q,
    QuerySet,
    Value,
)

from approvals.agents.rules.acceptance import HELD_BACK, UNDISCLOSED_NAMES, CallTally, sum_tallies
from approvals.gate.rules import agent_evidence
from approvals.gate.rules.agent_evidence import EvidenceItem
from approvals.models import (
    Agent,
    AgentVersion,
    Call,
    Session,
)
from ledger.actions.queries import actions
from ledger.catalogue.queries import POLICIES_IN_FORCE, PolicyVersionInForce, policies_in_force
from ledger.db import columns, execute, fetch_one, load_models, page_in_order, pipeline
from ledger.record.queries import evidence
from ledger.record.rules.ids import lower_bound

if TYPE_CHECKING:
    from ledger.models import Action

BY_CALL_ID: Final = "tenant_id = $1 AND session_id = $2 AND call_id = $3 AND call_id <> ''"
"""The last part lets the planner use the unique index, which leaves out calls without an id; else it reads them all."""


def call(tenant_id: UUID, session_id: UUID, call_id: str) -> Call | None:
    return fetch_one(Call, BY_CALL_ID, tenant_id, session_id, call_id)


_CONTINUED_CALL: Final = """tenant_id = $1 AND call_id = $2 AND call_id <> '' AND action_id IS NOT NULL
AND session_id IN (SELECT s.id FROM approvals_session s
    WHERE s.tenant_id = $1 AND s.id <> $3 AND (s.id = $4 OR s.first_id = $4))
ORDER BY id LIMIT 1"""


def continued_call(session: Session, call_id: str) -> Call | None:
    """The call of this id that left an action in one of the sessions that this one continues."""
    if session.first_id is None or not call_id:
        return None
    return fetch_one(Call, _CONTINUED_CALL, session.tenant_id, call_id, session.id, session.first_id)


class CallerFacts(NamedTuple):
    """The agent of a session, the version that the session was opened under and the one in force, each None if missing,
    and the policies in force.
    """

    agent: Agent | None
    version: AgentVersion | None
    current: AgentVersion | None
    policies: dict[str, PolicyVersionInForce]


_CALLER_COLUMNS = (
    f"{columns(Agent, 'a')}, {columns(AgentVersion, 'v')}, {columns(AgentVersion, 'b')}, {POLICIES_IN_FORCE}"
)
_CALLER_TABLES = """approvals_session s LEFT JOIN approvals_agent a ON a.tenant_id = $1 AND a.agent_id = s.agent_id
LEFT JOIN approvals_agentversion v ON v.tenant_id = $1 AND v.agent_id = a.agent_id AND v.version = s.agent_version
LEFT JOIN approvals_agentversion b ON b.tenant_id = $1 AND b.agent_id = a.agent_id AND b.version = a.version"""
_CALLER = f"SELECT {_CALLER_COLUMNS} FROM {_CALLER_TABLES} WHERE s.tenant_id = $1 AND s.id = $2"


def caller_facts(session: Session, row: tuple[Any, ...] | None = None) -> CallerFacts:
    """The facts by which a call of a session is judged now; pass the `row` where it was read behind the session's
    lock.
    """
    if row is None:
        [row] = execute(_CALLER, session.tenant_id, session.id)
    (agent, version, current), (policies,) = load_models(row, Agent, AgentVersion, AgentVersion)
    return CallerFacts(agent, version, current, policies_in_force(session.tenant_id, policies))


# Behind the lock, in a statement of its own: it sees what whoever held the lock before has left.
_BEHIND_LOCK = f"""
SELECT (SELECT min(o.forced_at) FROM approvals_session o WHERE o.tenant_id = $1 AND o.run_id = s.run_id
        AND o.key_actor = s.key_actor AND o.forced_at IS NOT NULL), ARRAY({actions.OPEN_PHASES}), {columns(Call, "c")},
    {_CALLER_COLUMNS}
FROM {_CALLER_TABLES} LEFT JOIN approvals_call c
    ON c.tenant_id = $1 AND c.session_id = $2 AND c.call_id = $3 AND c.call_id <> ''
WHERE s.tenant_id = $1 AND s.id = $2
"""


class LockedSession(NamedTuple):
    """A session that accepts no other call until the end of the transaction.

    `limit_reached_at` is since when its run takes no more calls of its key, because one of its sessions reached its
    limit; `open_phases` are those of its open actions; `recorded` is the call of the id that was asked for, if there
    was one. `caller` is the row of the `caller_facts` by which its next call is judged.
    """

    session: Session
    limit_reached_at: datetime | None
    open_phases: set[str]
    recorded: Call | None
    caller: tuple[Any, ...]


def lock_session(tenant_id: UUID, session_id: UUID, *, call_id: str, behind_tenant: bool) -> LockedSession | None:
    """Lock a session, with `behind_tenant` after the tenant's gate; return None if there is none."""
    gate = (("SELECT seq FROM ledger_enter($1, $2, $3)", tenant_id, session_id, "session"),) if behind_tenant else ()
    *_, locked, behind = pipeline(
        *gate,
        (
            f"SELECT {columns(Session, 's')} FROM approvals_session s WHERE s.tenant_id = $1 AND s.id = $2"
            " FOR NO KEY UPDATE",
            *(tenant_id, session_id),
        ),
        (_BEHIND_LOCK, tenant_id, session_id, call_id),
    )
    if not locked:
        return None
    (session,), _ = load_models(locked[0], Session)
    limit_reached_at, open_phases, *rest = behind[0]
    (recorded,), caller = load_models(tuple(rest), Call)
    return LockedSession(session, limit_reached_at, set(open_phases), recorded, caller)


def call_of(tenant_id: UUID, session_id: UUID, action_id: UUID) -> Call | None:
    """The call behind an action; None for a recovery action."""
    call = "tenant_id = $1 AND session_id = $2 AND action_id = $3 LIMIT 1"
    return fetch_one(Call, call, tenant_id, session_id, action_id)


def evidence_of(action: Action) -> tuple[EvidenceItem, ...]:
    """Return the evidence that the agent gave with its call; raise `CannotOpen` if it was erased."""
    piece = evidence.first_evidence(action.tenant_id, action.id, agent_evidence.PURPOSE)
    data = evidence.open_evidence(action.tenant_id, piece[0]) if piece else None
    return agent_evidence.parse_evidence(data) if data is not None else ()


def calls_of(tenant_id: UUID, session_id: UUID, *, limit: int = 500) -> list[Call]:
    return list(Call.objects.filter(tenant_id=tenant_id, session_id=session_id).order_by("id")[:limit])


def newest_calls_of(tenant_id: UUID, session_id: UUID, *, limit: int) -> list[Call]:
    """The newest calls of a session, oldest first."""
    return list(Call.objects.filter(tenant_id=tenant_id, session_id=session_id).order_by("-id")[:limit])[::-1]


def last_call(tenant_id: UUID) -> Call | None:
    """The newest gate record, which shows that the intake works."""
    return Call.objects.filter(tenant_id=tenant_id).order_by("-id").first()


def undisclosed_attempts(
    tenant_id: UUID,
    *,
    session_id: UUID | None = None,
    agent_id: str = "",
    since: datetime | None = None,
    limit: int = 500,
) -> list[Call]:
    """Refused calls of names that were not disclosed, whether they exist or not; the newest, oldest first (R-TG-05)."""
    found = Call.objects.filter(tenant_id=tenant_id, code__in=UNDISCLOSED_NAMES, accepted=False)
    if session_id is not None:
        found = found.filter(session_id=session_id)
    if since is not None:
        found = found.filter(id__gte=lower_bound(since))
    found = found.filter(agent_id=agent_id) if agent_id else found
    return list(found.order_by("-id")[:limit])[::-1]


MOST_CALLS = 25_000
"""Over how many calls figures are made at most: the newest of the period."""


class _Bin(Func):
    """The start of the interval that contains a time."""

    function = "date_bin"
    template = "%(function)s(%(expressions)s, TIMESTAMPTZ '2000-01-01 00:00+00')"
    output_field = DateTimeField()


def calls_between(tenant_id: UUID, *, since: datetime, until: datetime, **about: Any) -> QuerySet[Call]:
    """The gate records of a period; `about` may be any of their columns."""
    ids = {"id__gte": lower_bound(since), "id__lt": lower_bound(until)}
    return Call.objects.filter(tenant_id=tenant_id, **ids, **about)


def calls_page(
    tenant_id: UUID,
    *,
    since: datetime,
    until: datetime,
    before: UUID | None,
    oldest: bool = False,
    limit: int,
    **about: Any,
) -> list[Call]:
    """Return the calls of a period, newest first or with `oldest` the oldest first, starting after the id `before`."""
    found = calls_between(tenant_id, since=since, until=until, **about)
    return page_in_order(found, "id" if oldest else "-id", behind=before, limit=limit)


def call_tallies(
    tenant_id: UUID,
    *by: str,
    since: datetime,
    until: datetime,
    step: timedelta | None = None,
    **about: Any,
) -> dict[tuple[Any, ...], CallTally]:
    """Tallies of the calls of a period by these columns, and by intervals of `step` if given.

    Only the newest `MOST_CALLS` of the period count: nobody waits for a table of hundreds of millions.
    """
    found = calls_between(tenant_id, since=since, until=until, **about).exclude(code__in=HELD_BACK)
    edge = found.order_by("-id").values_list("id", flat=True)[MOST_CALLS : MOST_CALLS + 1].first()
    found = found.filter(id__gt=edge) if edge is not None else found
    keys = list(by)
    if step is not None:
        found = found.annotate(bin=_Bin(Value(step), F("at")))
        keys.append("bin")
    failed = found.filter(accepted=True, action_id__in=actions.failed_executions(tenant_id, since=since, until=until))
    broken = {row[:-1]: row[-1] for row in failed.values_list(*keys).annotate(Count("id")).order_by()}
    rows = found.values_list(*keys).annotate(
        Count("id"),
        accepted_calls=Count("id", filter=Q(accepted=True)),
        phantoms=Count("id", filter=Q(category="phantom")),
        arguments=Count("id", filter=Q(category="argument_hallucination")),
        undisclosed=Count("id", filter=Q(code__in=UNDISCLOSED_NAMES)),
    )
    width = len(keys)
    return {row[:width]: replace(CallTally(*row[width:]), failed=broken.get(row[:width], 0)) for row in rows.order_by()}


@dataclass(frozen=True, kw_only=True)
class TwoPeriods:
    """Tallies of the calls of a period by interval and by one column, and of the period before."""

    by_step: dict[tuple[Any, ...], CallTally]
    by_column: dict[Any, CallTally]
    earlier: CallTally


def two_periods(
    tenant_id: UUID, column: str, *, before: datetime, since: datetime, until: datetime, step: timedelta
) -> TwoPeriods:
    """Two periods that meet at `since`, of each its newest `MOST_CALLS`, read once for everything that a page shows."""
    if column not in _COLUMNS:
        raise ValueError(f"calls are not compared by {column}")
    rows = execute(
        _TWO_PERIODS.replace("{column}", column),
        *(tenant_id, lower_bound(before), lower_bound(since), lower_bound(until), MOST_CALLS),
        *(step, list(UNDISCLOSED_NAMES), list(HELD_BACK)),
    )
    found = TwoPeriods(by_step={}, by_column={}, earlier=CallTally())
    for is_later, without_bin, bin_, value, *counts in rows:
        tally = CallTally(*counts)
        if not is_later:
            # The period before is shown as a whole: one of its two groupings is enough.
            found = replace(found, earlier=found.earlier + tally) if not without_bin else found
        elif without_bin:
            found.by_column[value] = tally
        else:
            found.by_step[bin_,] = tally
    return found


_COLUMNS: Final = ("agent_id", "tool", "model_tier", "disclosed")
_NEWEST = """(SELECT id, at, accepted, category, code, action_id, {column} AS sliced FROM approvals_call
    WHERE tenant_id = $1 AND id >= {first} AND id < {last} AND code <> ALL($8) ORDER BY id DESC LIMIT $5)"""
# Failed executions are read from the first to the last action of the calls that are counted, not of the whole period.
_FAILED = """(SELECT id FROM ledger_action WHERE tenant_id = $1 AND phase = 'FAILED' AND attempt_count > 0
    AND id >= (SELECT action_id FROM {calls} WHERE action_id IS NOT NULL ORDER BY action_id LIMIT 1)
    AND id <= (SELECT action_id FROM {calls} WHERE action_id IS NOT NULL ORDER BY action_id DESC LIMIT 1))"""
_TWO_PERIODS: Final = f"""
WITH earlier AS MATERIALIZED {_NEWEST.format(column="{column}", first="$2", last="$3")},
    later AS MATERIALIZED {_NEWEST.format(column="{column}", first="$3", last="$4")}
SELECT later, GROUPING(bin) = 1, bin, sliced, count(*), count(*) FILTER (WHERE accepted),
    count(*) FILTER (WHERE category = 'phantom'), count(*) FILTER (WHERE category = 'argument_hallucination'),
    count(*) FILTER (WHERE code = ANY($7)), count(*) FILTER (WHERE accepted AND failed IS NOT NULL)
FROM (
    SELECT c.*, date_bin($6, c.at, TIMESTAMPTZ '2000-01-01 00:00+00') AS bin, f.id AS failed
    FROM (SELECT *, false AS later FROM earlier UNION ALL SELECT *, true FROM later) AS c
    LEFT JOIN ({_FAILED.format(calls="earlier")} UNION ALL {_FAILED.format(calls="later")}) AS f ON f.id = c.action_id
) AS call GROUP BY GROUPING SETS ((later, bin), (later, sliced))
"""


def call_tally(tenant_id: UUID, *, since: datetime, until: datetime, **about: Any) -> CallTally:
    """The tally of the calls of a period."""
    return sum_tallies(call_tallies(tenant_id, "accepted", since=since, until=until, **about).values())


def count_refusals(tenant_id: UUID, *, since: datetime, until: datetime, **about: Any) -> dict[tuple[Any, ...], int]:
    """Count the refused calls of a period, by code."""
    found = calls_between(tenant_id, since=since, until=until, accepted=False, **about)
    rows = found.values_list("code", "category").annotate(count=Count("id")).order_by("-count", "code")
    return {row[:2]: row[2] for row in rows}


def count_names_tried(tenant_id: UUID, *, since: datetime, until: datetime, **about: Any) -> dict[str, int]:
    """The largest number of different tools that one session of each agent tried and was refused (R-TG-11)."""
    found = calls_between(tenant_id, since=since, until=until, accepted=False, code__in=UNDISCLOSED_NAMES, **about)
    rows = found.values_list("agent_id", "session_id").annotate(names=Count("tool", distinct=True)).order_by()
    most: dict[str, int] = {}
    for agent_id, _, names in rows:
        most[agent_id] = max(names, most.get(agent_id, 0))
    return most


def refused_calls(tenant_id: UUID, *, since: datetime, limit: int = 8) -> list[Call]:
    """The calls that the gate refused lately, newest first."""
    found = Call.objects.filter(tenant_id=tenant_id, id__gte=lower_bound(since), accepted=False)
    return list(found.order_by("-id")[:limit])


# Without statistics the planner expects a third of the table behind a beginning, and little between it and an end.
_CALLS_SINCE: Final = (
    "SELECT date_trunc('hour', at, 'UTC'), CASE WHEN category = 'phantom' THEN '' ELSE tool END, agent_id, accepted,"
    " code, category, id >= $3, count(*) FROM approvals_call WHERE tenant_id = $1 AND id >= $2"
    " AND id <= 'ffffffff-ffff-ffff-ffff-ffffffffffff' GROUP BY 1, 2, 3, 4, 5, 6, 7"
)


def count_calls_since(tenant_id: UUID, since: datetime, *, again: datetime) -> list[tuple[Any, ...]]:
    """Count the calls since a time, as rows of (hour, tool, agent, accepted, code, category, whether they came since
    `again`, calls); a tool that does not exist has no name, for there is no end to such names.
    """
    return execute(_CALLS_SINCE, tenant_id, lower_bound(since), lower_bound(again))


def accepted_calls(tenant_id: UUID, actions: Mapping[UUID, datetime]) -> list[tuple[UUID, datetime, str, str]]:
    """Return (action, hour of the call, tool, agent) of the calls that proposed these actions, each about then."""
    return execute(
        "SELECT action_id, date_trunc('hour', at, 'UTC'), tool, agent_id"
        " FROM unnest($2::uuid[], $3::uuid[], $4::uuid[]) AS wanted(action, low, high), LATERAL (SELECT * FROM"
        " approvals_call WHERE tenant_id = $1 AND id >= low AND id < high AND action_id = action AND accepted) AS call",
        *(tenant_id, list(actions)),
        [lower_bound(at - timedelta(seconds=1)) for at in actions.values()],
        [lower_bound(at + timedelta(seconds=1)) for at in actions.values()],
    )


def call_codes(tenant_id: UUID, *, after: UUID, limit: int) -> list[tuple[Any, ...]]:
    """Return (id, at, tool, agent, accepted, code, category, action) of the calls after an id, oldest first."""
    found = Call.objects.filter(tenant_id=tenant_id, id__gt=after).order_by("id")
    return list(found.values_list("id", "at", "tool", "agent_id", "accepted", "code", "category", "action_id")[:limit])
