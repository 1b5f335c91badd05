"""Approvals: one, those of an action, the queue and its counts. Every function runs inside `tenancy`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, LiteralString, NamedTuple
from uuid import UUID

from django.db.models import (
    Case,
    Exists,
    OuterRef,
    Q,
    When,
)

from approvals.gate.rules import agent_evidence
from approvals.models import (
    Absence,
    Agent,
    AgentVersion,
    Approval,
    ApprovalDisplay,
    Approver,
    Delegation,
    Session,
    Vote,
)
from approvals.voting.queries.approvers import in_force
from approvals.voting.rules import quorum
from ledger.actions.queries import actions, freezes, readings
from ledger.db import columns, execute, fetch_one, instances, load_models, rows_column, select, select_call
from ledger.log.queries.log import CURRENT_CHECKPOINT
from ledger.record.queries import evidence

if TYPE_CHECKING:
    from ledger.models import Action
    from ledger.record.rules.target_readings import TargetReading


class Parties(NamedTuple):
    """The parties of an approval: the action, the session that proposed it, and its agent."""

    action: Action
    session: Session | None
    agent: Agent | None


class ApprovalFacts(NamedTuple):
    """An approval and everything on record that a vote on it covers and is judged by, as one statement saw it.

    `registered` is the agent's registration in force.
    `target` is the reading of the action's target, as the action's events have it.
    `stored_payload` is the payload as it lies there: whose it is, sealed, and the id of the key. `key_id` is that of
    the approval's own evidence, if it has any; `in_force` is the digest of the policy that now decides; `checkpoint`
    are the origin and the newest signed note of the tenant's log.
    """

    approval: Approval
    parties: Parties
    registered: AgentVersion | None
    stored_payload: tuple[UUID | None, bytes | None, UUID | None]
    payload_commitment: str
    evidence_commitment: str
    key_id: UUID | None
    frozen: bool
    target: TargetReading
    in_force: str
    checkpoint: tuple[str | None, bytes | None]

    def payload(self) -> bytes:
        """Return the stored payload; raise `Erased` if it was erased, `CannotOpen` if its key is gone."""
        subject_id, sealed, key_id = self.stored_payload
        action = self.parties.action
        if subject_id is None or action.payload_pointer is None:
            return b""
        return evidence.open_sealed(action.tenant_id, action.payload_pointer, subject_id, sealed, key_id)


ROSTER_WIDTH = 3


def roster_columns(at: LiteralString) -> LiteralString:
    """The roster of a tenant ($1), the delegations in force at a time (a placeholder) and who is away, each as one
    column.
    """
    return ", ".join(
        (
            rows_column(Approver, "tenant_id = $1 ORDER BY since, actor_id"),
            rows_column(Delegation, in_force(at) + " ORDER BY starts_at, id"),
            rows_column(Absence, in_force(at)),
        )
    )


VOTES_OF_ACTION = rows_column(Vote, "tenant_id = $1 AND approval_id = a.approval_id ORDER BY id")
"""The votes on the approval of an action (a), oldest first, as one column."""


def _facts_sql(more: LiteralString) -> LiteralString:
    return f"""
SELECT {actions.action_columns("a")}, {columns(Approval, "p")}, {columns(Session, "s")}, {columns(Agent, "g")},
    {columns(AgentVersion, "b")}, e.subject_id, e.sealed, k.key_id, e.commitment,
    (SELECT v.commitment FROM ledger_evidence v WHERE v.tenant_id = $1 AND v.subject_id = a.id AND v.purpose = $3
        ORDER BY v.observed_at, v.id LIMIT 1),
    (SELECT o.key_id FROM ledger_subjectkey o WHERE o.tenant_id = $1 AND o.subject_id = p.id),
    EXISTS (SELECT FROM ledger_freeze f WHERE f.tenant_id = $1 AND f.lifted_at IS NULL AND {freezes.COVERS}),
    {readings.EVENTS_OF_TARGET},
    (SELECT r.digest FROM ledger_policyversion r WHERE r.tenant_id = $1 AND r.kind = 'approval' AND r.active),
    h.origin, h.note{more}
FROM approvals_approval p
JOIN ledger_action a ON a.tenant_id = $1 AND a.id = p.action_id
LEFT JOIN approvals_session s ON s.tenant_id = $1 AND s.id = a.session_id
LEFT JOIN approvals_agent g ON g.tenant_id = $1 AND g.agent_id = s.agent_id
LEFT JOIN approvals_agentversion b ON b.tenant_id = $1 AND b.agent_id = g.agent_id AND b.version = g.version
LEFT JOIN ledger_evidence e ON e.tenant_id = $1 AND e.id = a.payload_pointer
LEFT JOIN ledger_subjectkey k ON k.tenant_id = $1 AND k.subject_id = e.subject_id
LEFT JOIN ({CURRENT_CHECKPOINT}) h ON true
WHERE p.tenant_id = $1 AND p.id = $2
"""


_FACTS = _facts_sql("")
_FACTS_OF_VOTE = _facts_sql(
    f", {rows_column(Vote, 'tenant_id = $1 AND approval_id = $2 ORDER BY id')}, {roster_columns('$4')}"
)
_PARTIES = f"""
SELECT {actions.action_columns("a")}, {columns(Session, "s")}, {columns(Agent, "g")} FROM ledger_action a
LEFT JOIN approvals_session s ON s.tenant_id = $1 AND s.id = a.session_id
LEFT JOIN approvals_agent g ON g.tenant_id = $1 AND g.agent_id = s.agent_id
WHERE a.tenant_id = $1 AND a.id = $2
"""


def approval_facts(tenant_id: UUID, approval_id: UUID) -> ApprovalFacts | None:
    """The current facts about an approval; None if there is no such approval."""
    rows = execute(_FACTS, tenant_id, approval_id, agent_evidence.PURPOSE)
    return _read_facts(rows[0]) if rows else None


def vote_call(tenant_id: UUID, approval_id: UUID, at: datetime) -> tuple[Any, ...]:
    """The call for `pipeline` that reads all by which a vote is judged, for `read_vote_facts`."""
    return _FACTS_OF_VOTE, tenant_id, approval_id, agent_evidence.PURPOSE, at


def read_vote_facts(rows: list[tuple[Any, ...]]) -> tuple[ApprovalFacts, list[Vote], tuple[Any, ...]]:
    """The facts, the votes, oldest first, and the columns of the roster in the one row of a `vote_call`."""
    *facts, votes = rows[0][:-ROSTER_WIDTH]
    return _read_facts(tuple(facts)), instances(Vote, votes), rows[0][-ROSTER_WIDTH:]


def _read_facts(row: tuple[Any, ...]) -> ApprovalFacts:
    action, rest = actions.read_action(row)
    (approval, session, agent, registered), rest = load_models(rest, Approval, Session, Agent, AgentVersion)
    owner, sealed, key, commitment, said, own_key, frozen, target, in_force, origin, note = rest
    return ApprovalFacts(
        approval,
        Parties(action, session, agent),
        registered,
        (owner, sealed, key),
        commitment or "",
        said or "",
        own_key,
        frozen,
        readings.read_target(target),
        in_force,
        (origin, note),
    )


def parties(tenant_id: UUID, action_id: UUID) -> Parties:
    """An action with its session and agent."""
    [row] = execute(_PARTIES, tenant_id, action_id)
    action, rest = actions.read_action(row)
    return Parties(action, *load_models(rest, Session, Agent)[0])


def approval(tenant_id: UUID, approval_id: UUID) -> Approval | None:
    return fetch_one(Approval, "tenant_id = $1 AND id = $2", tenant_id, approval_id)


def display_of(tenant_id: UUID, approval_id: UUID, actor_id: UUID) -> ApprovalDisplay | None:
    """The display of an approval to one person, if there was one."""
    here = "tenant_id = $1 AND approval_id = $2 AND actor_id = $3"
    return fetch_one(ApprovalDisplay, here, tenant_id, approval_id, actor_id)


def approvals_by_id(tenant_id: UUID, ids: Collection[UUID]) -> list[Approval]:
    return list(Approval.objects.filter(tenant_id=tenant_id, id__in=list(ids)))


def approvals_for(tenant_id: UUID, action_ids: Collection[UUID]) -> list[Approval]:
    """Every approval requested for these actions, oldest first."""
    return list(Approval.objects.filter(tenant_id=tenant_id, action_id__in=list(action_ids)).order_by("id"))


def approval_of(tenant_id: UUID, action_id: UUID) -> Approval | None:
    """The newest approval of an action."""
    return Approval.objects.filter(tenant_id=tenant_id, action_id=action_id).order_by("-id").first()


def approvals_of(tenant_id: UUID, action_id: UUID) -> list[Approval]:
    """Every approval requested for an action, oldest first."""
    return list(Approval.objects.filter(tenant_id=tenant_id, action_id=action_id).order_by("id"))


def approvals(
    tenant_id: UUID, *, state: str = "REQUESTED", after: UUID | None = None, limit: int = 100
) -> list[Approval]:
    """Return the inbox, most urgent first, starting after the row `after`."""
    waiting = "tenant_id = $1 AND state = $2"
    if after is None:
        return select(Approval, waiting + " ORDER BY decide_by, id LIMIT $3", tenant_id, state, limit)
    last = "(SELECT decide_by, id FROM approvals_approval WHERE tenant_id = $1 AND id = $4)"
    behind = f"{waiting} AND (decide_by, id) > {last} ORDER BY decide_by, id LIMIT $3"
    return select(Approval, behind, tenant_id, state, limit, after)


_RANK = Case(When(risk="HIGH", then=2), When(risk="LOW", then=0), default=1)


# What comes first under each order of the queue; each ends with the id, so that no two are equal.
_ORDERS = {
    "": ("-rank", "decide_by", "id"),
    "deadline": ("decide_by", "id"),
    "oldest": ("requested_at", "id"),
    "newest": ("-requested_at", "-id"),
}


def queue(
    tenant_id: UUID, *, sort: str = "", after: UUID | None = None, limit: int = 50, at: datetime, **wanted: Any
) -> list[Approval]:
    """Approvals that wait for people: riskiest first, then by deadline; starting after the row `after`.

    Wanted may be: risk, tool, agent, group (whose votes are asked), holder (who was given it or has claimed it; None
    is nobody), without (whose vote it has not got yet).
    """
    waiting = Approval.objects.filter(
        _queue_condition(tenant_id, wanted, at=at), tenant_id=tenant_id, state="REQUESTED"
    )
    found = waiting.annotate(rank=_RANK).order_by(*_ORDERS[sort])
    if after is not None:
        last = Approval.objects.filter(tenant_id=tenant_id, id=after).annotate(rank=_RANK).first()
        if last is None:
            return []
        found = found.filter(_after_row(last, _ORDERS[sort]))
    return list(found[:limit])


def _queue_condition(tenant_id: UUID, wanted: Mapping[str, Any], *, at: datetime) -> Q:
    kept = Q()
    if "risk" in wanted:
        kept &= Q(risk=wanted["risk"])
    if "group" in wanted:
        asked = Q(terms__thresholds__contains=[{"group": wanted["group"]}])
        kept &= asked | Q(terms={}) if wanted["group"] == quorum.EVERYBODY else asked
    if "holder" in wanted:
        holder = wanted["holder"]
        held = Q(claimed_by=holder, claimed_until__gt=at) | Q(assigned_to=holder)
        free = Q(assigned_to__isnull=True) & (Q(claimed_until__isnull=True) | Q(claimed_until__lte=at))
        kept &= free if holder is None else held
    if "without" in wanted:
        cast = Vote.objects.filter(tenant_id=tenant_id, voter=wanted["without"], approval_id=OuterRef("id"))
        kept &= Q(~Exists(cast))
    about = {name: wanted[name] for name in ("tool", "agent") if name in wanted}
    return kept & Q(action_id__in=actions.waiting_actions(tenant_id, **about)) if about else kept


def _after_row(last: Any, order: tuple[str, ...]) -> Q:
    """Return the condition for rows after one in an order: equal in the first columns and later in the next."""
    behind, equal = Q(), Q()
    for column in order:
        name = column.removeprefix("-")
        way = "lt" if column.startswith("-") else "gt"
        behind |= equal & Q(**{f"{name}__{way}": getattr(last, name)})
        equal &= Q(**{name: getattr(last, name)})
    return behind


def approvals_named(tenant_id: UUID, ids: Collection[UUID]) -> dict[UUID, Approval]:
    """The approvals with these ids, in the order of their ids."""
    found = select(Approval, "tenant_id = $1 AND id = ANY($2) ORDER BY id", tenant_id, list(ids))
    return {each.id: each for each in found}


def count_waiting(tenant_id: UUID, agent_id: str, *, most: int) -> int:
    """Count the approvals of an agent's calls that wait for people, up to `most`."""
    live = Approval.objects.filter(tenant_id=tenant_id, state__in=["PREPARING", "REQUESTED"])
    return live.filter(action_id__in=actions.waiting_actions(tenant_id, agent=agent_id))[:most].count()


def actions_with_spent_approval(tenant_id: UUID) -> list[UUID]:
    """The actions that may be tried again and whose approval the attempt before has spent."""
    asked = actions.retryable_actions(tenant_id)
    spent = Approval.objects.filter(tenant_id=tenant_id, state="CONSUMED", id__in=list(asked))
    return [asked[approval_id] for approval_id in spent.values_list("id", flat=True)]


def workload(tenant_id: UUID, *, at: datetime) -> dict[UUID, int]:
    """The number of open approvals per person: those assigned to or claimed by them."""
    live = Approval.objects.filter(tenant_id=tenant_id, state__in=["PREPARING", "REQUESTED"])
    held = live.filter(Q(assigned_to__isnull=False) | Q(claimed_until__gt=at))
    found: Counter[UUID] = Counter()
    for assigned, claimed, until in held.values_list("assigned_to", "claimed_by", "claimed_until"):
        claimant = claimed if until is not None and until > at else None
        found.update({one for one in (assigned, claimant) if one is not None})
    return dict(found)


def approvals_with_moved_clock(tenant_id: UUID, *, since: datetime, limit: int = 500) -> list[UUID]:
    """The open approvals whose deadline a recent freeze may have moved, and those whose clock is paused."""
    live = Approval.objects.filter(tenant_id=tenant_id, state__in=["REQUESTED", "APPROVED"])
    standing = list(live.filter(paused_at__isnull=False).order_by("id").values_list("id", flat=True)[:limit])
    found = dict.fromkeys(standing)
    for freeze in freezes.recent_freezes(tenant_id, since=since):
        under = freezes.frozen_actions(freeze, limit=limit)
        waiting = live.filter(action_id__in=under)
        wrong = waiting.filter(paused_at__isnull=True) if freeze.lifted_at is None else waiting
        found |= dict.fromkeys(wrong.values_list("id", flat=True))
    return list(found)[:limit]


def roster_call(tenant_id: UUID, at: datetime) -> tuple[Any, ...]:
    """The call for `pipeline` that reads the roster, in one row of `ROSTER_WIDTH` columns."""
    return f"SELECT {roster_columns('$2')}", tenant_id, at


def votes_call(tenant_id: UUID, approval_id: UUID) -> tuple[Any, ...]:
    """The call for `pipeline` that reads the votes of an approval, oldest first."""
    return select_call(Vote, "tenant_id = $1 AND approval_id = $2 ORDER BY id", tenant_id, approval_id)


def agents_by_name(tenant_id: UUID, names: Collection[str]) -> dict[str, Agent]:
    """The agents of these names."""
    named = select(Agent, "tenant_id = $1 AND agent_id = ANY($2)", tenant_id, list(names))
    return {each.agent_id: each for each in named}


def stranded_approvals(tenant_id: UUID, *, limit: int = 50) -> list[Approval]:
    """The open approvals without an eligible reviewer, longest waiting first."""
    found = Approval.objects.filter(tenant_id=tenant_id, state="REQUESTED", stranded_at__isnull=False)
    return list(found.order_by("stranded_at", "id")[:limit])


def open_approvals(tenant_id: UUID) -> list[UUID]:
    """Every approval that waits for people, or for its action to start."""
    found = Approval.objects.filter(tenant_id=tenant_id, state__in=["PREPARING", "REQUESTED", "APPROVED"])
    return list(found.order_by("id").values_list("id", flat=True))


def waiting_times(tenant_id: UUID, *, most: int = 1000) -> list[tuple[datetime, datetime]]:
    """(since when, to be decided by) of the approvals that wait for a vote; of at most `most`."""
    waiting = (
        "SELECT requested_at, decide_by FROM approvals_approval WHERE tenant_id = $1 AND state = 'REQUESTED' LIMIT $2"
    )
    return [(since, until) for since, until in execute(waiting, tenant_id, most)]


def decided_approvals(tenant_id: UUID, *, before: UUID | None = None, limit: int = 50) -> list[Approval]:
    """Return approvals that no longer wait, newest first, starting below the id `before`."""
    found = Approval.objects.filter(tenant_id=tenant_id).exclude(state__in=["REQUESTED", "APPROVED"])
    return list((found.filter(id__lt=before) if before else found).order_by("-id")[:limit])
