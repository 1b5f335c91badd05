"""Reads before the effect. Every one runs inside `tenancy`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final, LiteralString
from uuid import UUID

import orjson
from django.db.models import (
    Case,
    Count,
    DateTimeField,
    Exists,
    F,
    Func,
    OuterRef,
    Q,
    QuerySet,
    Value,
    When,
)

from approvals.models import (
    Absence,
    Agent,
    AgentVersion,
    Approval,
    Approver,
    ApproverKey,
    Attempt,
    Attention,
    Call,
    Comment,
    Delegation,
    Due,
    Emergency,
    Executor,
    Grant,
    Session,
    Spending,
    Vote,
)
from approvals.rules import binding, clocks, pace, policy, quorum, threads
from approvals.rules.acceptance import Tally, total
from ledger.queries import record
from ledger.queries.vouchers import Voucher, vouchers
from ledger.rules import contract as contracts
from ledger.rules.contract import Contract
from ledger.rules.effects import Reversibility
from ledger.rules.ids import lower_bound
from ledger.tenancy import ask, first, select, select_together


def agent(tenant_id: UUID, agent_id: str) -> Agent | None:
    return first(Agent, "tenant_id = $1 AND agent_id = $2", tenant_id, agent_id)


def agents(tenant_id: UUID, *, after: UUID | None = None, limit: int | None = None) -> list[Agent]:
    """The agents by their names, starting behind the row `after`."""
    found = Agent.objects.filter(tenant_id=tenant_id).order_by("agent_id")
    if after is not None:
        found = found.filter(agent_id__gt=found.filter(id=after).values_list("agent_id", flat=True)[:1])
    return list(found[:limit])


def agent_version(tenant_id: UUID, agent_id: str, version: str) -> AgentVersion | None:
    return first(AgentVersion, "tenant_id = $1 AND agent_id = $2 AND version = $3", tenant_id, agent_id, version)


def agent_versions(tenant_id: UUID, agent_id: str) -> list[AgentVersion]:
    return list(AgentVersion.objects.filter(tenant_id=tenant_id, agent_id=agent_id).order_by("-id"))


def session(tenant_id: UUID, session_id: UUID) -> Session | None:
    return first(Session, "tenant_id = $1 AND id = $2", tenant_id, session_id)


def forced_at(tenant_id: UUID, run_id: str, key_actor: UUID) -> datetime | None:
    """Since when a run takes no more calls of a key, because one of its sessions reached its limit."""
    found = ask(
        "SELECT min(forced_at) FROM approvals_session"
        " WHERE tenant_id = $1 AND run_id = $2 AND key_actor = $3 AND forced_at IS NOT NULL",
        *(tenant_id, run_id, key_actor),
    )
    return found[0][0] if found else None


def left_nothing(tenant_id: UUID, session_id: UUID) -> dict[str, int]:
    """How many calls of a session were refused and left no action, by code."""
    found = Call.objects.filter(tenant_id=tenant_id, session_id=session_id, accepted=False, action_id__isnull=True)
    return dict(found.values_list("code").annotate(made=Count("id")).order_by("code"))


def session_locked(tenant_id: UUID, session_id: UUID) -> Session | None:
    """A session whose calls come one after the other from here to the end of the transaction."""
    return first(Session, "tenant_id = $1 AND id = $2 FOR NO KEY UPDATE", tenant_id, session_id)


def sessions_by_id(tenant_id: UUID, ids: set[UUID]) -> dict[UUID, Session]:
    return {each.id: each for each in Session.objects.filter(tenant_id=tenant_id, id__in=ids)}


def sessions_of_key(tenant_id: UUID, key_actor: UUID) -> list[UUID]:
    """The newest sessions that an API key opened."""
    found = Session.objects.filter(tenant_id=tenant_id, key_actor=key_actor).order_by("-id")
    return list(found.values_list("id", flat=True)[:5000])


def sessions(tenant_id: UUID, *, before: UUID | None = None, limit: int = 50) -> list[Session]:
    found = Session.objects.filter(tenant_id=tenant_id)
    return list((found.filter(id__lt=before) if before else found).order_by("-id")[:limit])


BY_CALL_ID: Final = "tenant_id = $1 AND session_id = $2 AND call_id = $3 AND call_id <> ''"
"""The last part lets the planner use the unique index, which leaves out calls without an id; else it reads them all."""


def call(tenant_id: UUID, session_id: UUID, call_id: str) -> Call | None:
    return first(Call, BY_CALL_ID, tenant_id, session_id, call_id)


def call_of(tenant_id: UUID, session_id: UUID, action_id: UUID) -> Call | None:
    """The call that an action came from; what recovery ordered came from none."""
    return Call.objects.filter(tenant_id=tenant_id, session_id=session_id, action_id=action_id).first()


def calls_of(tenant_id: UUID, session_id: UUID, *, limit: int = 500) -> list[Call]:
    return list(Call.objects.filter(tenant_id=tenant_id, session_id=session_id).order_by("id")[:limit])


def last_call(tenant_id: UUID) -> Call | None:
    """The newest gate record: how the pages know that the intake is alive."""
    return Call.objects.filter(tenant_id=tenant_id).order_by("-id").first()


def attempted_undisclosed(
    tenant_id: UUID,
    *,
    session_id: UUID | None = None,
    agent_id: str = "",
    since: datetime | None = None,
    limit: int = 500,
) -> list[Call]:
    """Calls for tools that exist and were not disclosed, the newest of them, oldest first (R-TG-05)."""
    found = Call.objects.filter(tenant_id=tenant_id, code="UNDISCLOSED_TOOL", accepted=False)
    if session_id is not None:
        found = found.filter(session_id=session_id)
    if since is not None:
        found = found.filter(id__gte=lower_bound(since))
    found = found.filter(agent_id=agent_id) if agent_id else found
    return list(found.order_by("-id")[:limit])[::-1]


MOST_CALLS = 200_000
"""Over how many calls figures are made at most: the newest of the period."""


class _Bin(Func):
    """The beginning of the stretch of time that a moment falls in."""

    function = "date_bin"
    template = "%(function)s(%(expressions)s, TIMESTAMPTZ '2000-01-01 00:00+00')"
    output_field = DateTimeField()


def calls_between(tenant_id: UUID, *, since: datetime, until: datetime, **about: Any) -> QuerySet[Call]:
    """The gate records of a period; `about` may be any of their columns."""
    ids = {"id__gte": lower_bound(since), "id__lt": lower_bound(until)}
    return Call.objects.filter(tenant_id=tenant_id, **ids, **about)


def calls_page(
    tenant_id: UUID, *, since: datetime, until: datetime, before: UUID | None, limit: int, **about: Any
) -> list[Call]:
    """The calls of a period, newest first, starting below the id `before`."""
    found = calls_between(tenant_id, since=since, until=until, **about)
    return list((found.filter(id__lt=before) if before else found).order_by("-id")[:limit])


def tallies(
    tenant_id: UUID,
    *by: str,
    since: datetime,
    until: datetime,
    step: timedelta | None = None,
    **about: Any,
) -> dict[tuple[Any, ...], Tally]:
    """How the calls of a period fared, by the columns named, and by stretches of time where there is a `step`.

    Only the newest `MOST_CALLS` of the period count: nobody waits for a table of hundreds of millions.
    """
    found = calls_between(tenant_id, since=since, until=until, **about)
    edge = found.order_by("-id").values_list("id", flat=True)[MOST_CALLS : MOST_CALLS + 1].first()
    found = found.filter(id__gt=edge) if edge is not None else found
    keys = list(by)
    if step is not None:
        found = found.annotate(bin=_Bin(Value(step), F("at")))
        keys.append("bin")
    failed = found.filter(accepted=True, action_id__in=record.failed_executions(tenant_id, since=since, until=until))
    broken = {row[:-1]: row[-1] for row in failed.values_list(*keys).annotate(Count("id")).order_by()}
    rows = found.values_list(*keys).annotate(
        Count("id"),
        accepted_calls=Count("id", filter=Q(accepted=True)),
        phantoms=Count("id", filter=Q(category="phantom")),
        arguments=Count("id", filter=Q(category="argument_hallucination")),
        undisclosed=Count("id", filter=Q(code="UNDISCLOSED_TOOL")),
    )
    width = len(keys)
    return {row[:width]: replace(Tally(*row[width:]), failed=broken.get(row[:width], 0)) for row in rows.order_by()}


def tally(tenant_id: UUID, *, since: datetime, until: datetime, **about: Any) -> Tally:
    """How the calls of a period fared, in one."""
    return total(tallies(tenant_id, "accepted", since=since, until=until, **about).values())


def refusals(tenant_id: UUID, *, since: datetime, until: datetime, **about: Any) -> dict[tuple[Any, ...], int]:
    """How many calls of a period were refused, by code."""
    found = calls_between(tenant_id, since=since, until=until, accepted=False, **about)
    rows = found.values_list("code", "category").annotate(count=Count("id")).order_by("-count", "code")
    return {row[:2]: row[2] for row in rows}


_NAMES_TRIED = ("PHANTOM_TOOL", "UNDISCLOSED_TOOL")


def names_tried(tenant_id: UUID, *, since: datetime, until: datetime, **about: Any) -> dict[str, int]:
    """The largest number of different tools that one session of each agent tried and was refused (R-TG-11)."""
    found = calls_between(tenant_id, since=since, until=until, accepted=False, code__in=_NAMES_TRIED, **about)
    rows = found.values_list("agent_id", "session_id").annotate(names=Count("tool", distinct=True)).order_by()
    most: dict[str, int] = {}
    for agent_id, _, names in rows:
        most[agent_id] = max(names, most.get(agent_id, 0))
    return most


def agents_named(tenant_id: UUID, names: Collection[str]) -> list[Agent]:
    return list(Agent.objects.filter(tenant_id=tenant_id, agent_id__in=list(names)).order_by("agent_id"))


def flagged(tenant_id: UUID, *, limit: int = 500) -> list[Agent]:
    """The agents that somebody should look at."""
    found = Agent.objects.filter(tenant_id=tenant_id, revoked_at__isnull=True).exclude(flags={})
    return list(found.order_by("agent_id")[:limit])


def registered_at(tenant_id: UUID, agents: Collection[Agent]) -> dict[str, datetime]:
    """When the version of each agent that is in force was registered."""
    named = Q(*(Q(agent_id=each.agent_id, version=each.version) for each in agents), _connector=Q.OR)
    found = AgentVersion.objects.filter(named, tenant_id=tenant_id) if agents else AgentVersion.objects.none()
    return dict(found.values_list("agent_id", "registered_at"))


def sessions_of(tenant_id: UUID, agent_id: str, *, before: UUID | None = None, limit: int = 50) -> list[Session]:
    """The sessions of an agent, newest first."""
    found = Session.objects.filter(tenant_id=tenant_id, agent_id=agent_id)
    return list((found.filter(id__lt=before) if before else found).order_by("-id")[:limit])


def open_sessions(tenant_id: UUID, agent_id: str, *, at: datetime, most: int = 100) -> int:
    """How many sessions of an agent still take calls, counted up to `most`."""
    found = Session.objects.filter(tenant_id=tenant_id, agent_id=agent_id, closed_at__isnull=True)
    return found.filter(pin_expires_at__gt=at)[:most].count()


def approval(tenant_id: UUID, approval_id: UUID) -> Approval | None:
    return first(Approval, "tenant_id = $1 AND id = $2", tenant_id, approval_id)


def votes_between(tenant_id: UUID, *, since: datetime, until: datetime, limit: int = 20_000) -> list[Vote]:
    """The votes of a period, newest first."""
    found = Vote.objects.filter(tenant_id=tenant_id, id__gte=lower_bound(since), id__lt=lower_bound(until))
    return list(found.defer("statement").order_by("-id")[:limit])


def attention(tenant_id: UUID, approval_id: UUID, actor_id: UUID) -> Attention | None:
    """What one person had before them of an approval, if it was served to them."""
    here = "tenant_id = $1 AND approval_id = $2 AND actor_id = $3"
    return first(Attention, here, tenant_id, approval_id, actor_id)


def attentions(tenant_id: UUID, approval_ids: Collection[UUID]) -> dict[tuple[UUID, UUID], Attention]:
    """The same of several approvals, by approval and person."""
    found = Attention.objects.filter(tenant_id=tenant_id, approval_id__in=list(approval_ids))
    return {(each.approval_id, each.actor_id): each for each in found}


def approvals_by_id(tenant_id: UUID, ids: Collection[UUID]) -> list[Approval]:
    return list(Approval.objects.filter(tenant_id=tenant_id, id__in=list(ids)))


def approvals_for(tenant_id: UUID, action_ids: Collection[UUID]) -> list[Approval]:
    """Every approval that was asked for these actions, oldest first."""
    return list(Approval.objects.filter(tenant_id=tenant_id, action_id__in=list(action_ids)).order_by("id"))


def approval_of(tenant_id: UUID, action_id: UUID) -> Approval | None:
    """The newest approval of an action."""
    return Approval.objects.filter(tenant_id=tenant_id, action_id=action_id).order_by("-id").first()


def approvals_of(tenant_id: UUID, action_id: UUID) -> list[Approval]:
    """Every approval that was asked for an action, oldest first."""
    return list(Approval.objects.filter(tenant_id=tenant_id, action_id=action_id).order_by("id"))


def approvals(
    tenant_id: UUID, *, states: tuple[str, ...] = ("REQUESTED",), after: UUID | None = None, limit: int = 100
) -> list[Approval]:
    """The inbox: what must be decided soonest comes first; starting behind the row `after`."""
    found = Approval.objects.filter(tenant_id=tenant_id, state__in=states).order_by("decide_by", "id")
    if after is not None:
        last = approval(tenant_id, after)
        if last is None:
            return []
        found = found.filter(Q(decide_by__gt=last.decide_by) | Q(decide_by=last.decide_by, id__gt=last.id))
    return list(found[:limit])


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
    """What waits for people: what is riskiest first, then what ends soonest; starting behind the row `after`.

    Wanted may be: risk, tool, agent, group (whose votes are asked), holder (who was given it or has claimed it; None
    is nobody), without (whose vote it has not got yet).
    """
    waiting = Approval.objects.filter(_queued(tenant_id, wanted, at=at), tenant_id=tenant_id, state="REQUESTED")
    found = waiting.annotate(rank=_RANK).order_by(*_ORDERS[sort])
    if after is not None:
        last = Approval.objects.filter(tenant_id=tenant_id, id=after).annotate(rank=_RANK).first()
        if last is None:
            return []
        found = found.filter(_behind(last, _ORDERS[sort]))
    return list(found[:limit])


def _queued(tenant_id: UUID, wanted: Mapping[str, Any], *, at: datetime) -> Q:
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
    return kept & Q(action_id__in=record.waiting_actions(tenant_id, **about)) if about else kept


def _behind(last: Any, order: tuple[str, ...]) -> Q:
    """What comes after a row in an order: it is equal in the first so many columns and behind in the next."""
    behind, equal = Q(), Q()
    for column in order:
        name = column.removeprefix("-")
        way = "lt" if column.startswith("-") else "gt"
        behind |= equal & Q(**{f"{name}__{way}": getattr(last, name)})
        equal &= Q(**{name: getattr(last, name)})
    return behind


def approvals_named(tenant_id: UUID, ids: Collection[UUID]) -> dict[UUID, Approval]:
    """Those of these approvals that there are, in the order of their ids."""
    return {each.id: each for each in Approval.objects.filter(tenant_id=tenant_id, id__in=ids).order_by("id")}


def votes_by_approval(tenant_id: UUID, ids: Collection[UUID]) -> dict[UUID, list[Vote]]:
    """The votes on several approvals, oldest first."""
    found: dict[UUID, list[Vote]] = {}
    for vote in Vote.objects.filter(tenant_id=tenant_id, approval_id__in=ids).order_by("id"):
        found.setdefault(vote.approval_id, []).append(vote)
    return found


def waiting_of(tenant_id: UUID, agent_id: str, *, most: int) -> int:
    """How many approvals of an agent's calls wait for people, counted up to `most`."""
    live = Approval.objects.filter(tenant_id=tenant_id, state__in=["PREPARING", "REQUESTED"])
    return live.filter(action_id__in=record.waiting_actions(tenant_id, agent=agent_id))[:most].count()


def groups_asked(tenant_id: UUID) -> list[str]:
    """The groups that approvers are in, each once."""
    return sorted({group for place in approvers(tenant_id) for group in place.groups})


def spent_approvals(tenant_id: UUID) -> list[UUID]:
    """The actions that may be tried again and whose approval the attempt before has spent."""
    asked = record.to_be_tried_again(tenant_id)
    spent = Approval.objects.filter(tenant_id=tenant_id, state="CONSUMED", id__in=list(asked))
    return [asked[approval_id] for approval_id in spent.values_list("id", flat=True)]


def approved_actions(tenant_id: UUID) -> list[UUID]:
    """The actions whose approval is granted and not yet consumed."""
    rows = ask("SELECT action_id FROM approvals_approval WHERE tenant_id = $1 AND state = 'APPROVED'", tenant_id)
    return [action_id for (action_id,) in rows]


def votes_of(tenant_id: UUID, approval_id: UUID) -> list[Vote]:
    return select(Vote, "tenant_id = $1 AND approval_id = $2 ORDER BY id", tenant_id, approval_id)


def lines_of(tenant_id: UUID, approval_id: UUID) -> list[Comment]:
    """The thread of an approval, oldest first."""
    return list(Comment.objects.filter(tenant_id=tenant_id, approval_id=approval_id).order_by("id"))


def line(tenant_id: UUID, line_id: UUID) -> Comment | None:
    return first(Comment, "tenant_id = $1 AND id = $2", tenant_id, line_id)


def questions_to(tenant_id: UUID, action_ids: Collection[UUID]) -> dict[UUID, list[Comment]]:
    """The questions that the agent has not answered, by the action that they are about, oldest first."""
    asked = Approval.objects.filter(tenant_id=tenant_id, action_id__in=action_ids, state__in=["PREPARING", "REQUESTED"])
    about = dict(asked.values_list("id", "action_id"))
    told: dict[UUID, list[Comment]] = {}
    for each in Comment.objects.filter(tenant_id=tenant_id, approval_id__in=list(about)).order_by("id"):
        told.setdefault(about[each.approval_id], []).append(each)
    waiting = {action_id: threads.open_questions(lines) for action_id, lines in told.items()}
    return {action_id: lines for action_id, lines in waiting.items() if lines}


def load(tenant_id: UUID, *, at: datetime) -> dict[UUID, int]:
    """How many open approvals each person looks after: those assigned to them, and those that they have claimed."""
    live = Approval.objects.filter(tenant_id=tenant_id, state__in=["PREPARING", "REQUESTED"])
    held = live.filter(Q(assigned_to__isnull=False) | Q(claimed_until__gt=at))
    found: Counter[UUID] = Counter()
    for assigned, claimed, until in held.values_list("assigned_to", "claimed_by", "claimed_until"):
        claimant = claimed if until is not None and until > at else None
        found.update({one for one in (assigned, claimant) if one is not None})
    return dict(found)


def policy_of(approval: Approval) -> policy.ApprovalPolicy:
    """The policy that an approval was asked under."""
    return _policy(approval.tenant_id, approval.policy_version)


@lru_cache(maxsize=1024)
def _policy(tenant_id: UUID, version: str) -> policy.ApprovalPolicy:
    """A released version never changes, so a process reads each once."""
    row = record.policy_version(tenant_id, "approval", version)
    assert row is not None
    return policy.stored(bytes(row.document))


def pace_of(approval: Approval) -> pace.Pace:
    """How the work on an approval is to go."""
    return pace.of(policy_of(approval), approval.terms)


def votes_since(tenant_id: UUID, voter: UUID, *, since: datetime, limit: int) -> list[datetime]:
    """When somebody voted lately."""
    found = Vote.objects.filter(tenant_id=tenant_id, id__gte=lower_bound(since), voter=voter)
    return list(found.order_by("-id").values_list("at", flat=True)[:limit])


def clock(approval: Approval, *, at: datetime) -> clocks.Clock:
    """The clock of an open approval: until it is decided, or then until it must have started."""
    deciding = approval.state != "APPROVED"
    began = approval.requested_at if deciding else approval.decided_at or approval.requested_at
    stops = _stops(approval, since=began, deciding=deciding)
    ends_at = approval.decide_by if deciding else approval.release_by or approval.decide_by
    if not stops and approval.paused_at is None:
        return clocks.read(began=began, allowed=ends_at - began, at=at)
    wanted = pace_of(approval)
    allowed = _allowed(approval) if deciding else wanted.release_within
    return clocks.read(began=began, allowed=allowed, stops=stops, patience=wanted.patience, at=at)


def _allowed(approval: Approval) -> timedelta:
    """How long people were given at first: the deadline of the request itself, as it went on record."""
    told = (detail for event, _, detail in record.history(approval.tenant_id, approval.id) if detail)
    first_said = next((detail["decide_by"] for detail in told if "decide_by" in detail), None)
    return (datetime.fromisoformat(first_said) if first_said else approval.decide_by) - approval.requested_at


def _stops(approval: Approval, *, since: datetime, deciding: bool) -> list[clocks.Stop]:
    action = record.action(approval.tenant_id, approval.action_id)
    assert action is not None
    stops = [
        clocks.Stop(clocks.Why.FREEZE, freeze.placed_at, freeze.lifted_at)
        for freeze in record.freezes_since(
            approval.tenant_id, agent=action.agent, tool=action.tool, target=action.target, since=since
        )
    ]
    return stops + (_questions(approval) if deciding else [])


def _questions(approval: Approval) -> list[clocks.Stop]:
    lines = lines_of(approval.tenant_id, approval.id)
    answered = {line.answers: line.at for line in lines if line.kind == "answer"}
    return [
        clocks.Stop(clocks.Why.QUESTION, line.at, answered.get(line.id)) for line in lines if line.kind == "question"
    ]


def covered(tenant_id: UUID, *, since: datetime, limit: int = 500) -> list[UUID]:
    """The open approvals whose clock a freeze may have turned lately, and those that stand still."""
    live = Approval.objects.filter(tenant_id=tenant_id, state__in=["REQUESTED", "APPROVED"])
    standing = list(live.filter(paused_at__isnull=False).order_by("id").values_list("id", flat=True)[:limit])
    found = dict.fromkeys(standing)
    for freeze in record.freezes_lately(tenant_id, since=since):
        under = record.waiting_under(freeze, limit=limit)
        waiting = live.filter(action_id__in=under)
        wrong = waiting.filter(paused_at__isnull=True) if freeze.lifted_at is None else waiting
        found |= dict.fromkeys(wrong.values_list("id", flat=True))
    return list(found)[:limit]


def approver(tenant_id: UUID, actor_id: UUID) -> Approver | None:
    """Somebody's place in the roster, whether or not it is still theirs."""
    return first(Approver, "tenant_id = $1 AND actor_id = $2", tenant_id, actor_id)


def approvers(tenant_id: UUID) -> list[Approver]:
    """Everybody who may decide now."""
    return list(Approver.objects.filter(tenant_id=tenant_id, active=True).order_by("since", "actor_id"))


def delegations_to(tenant_id: UUID, actor_id: UUID, at: datetime) -> list[Delegation]:
    """The powers that are lent to somebody now. Whether one fits an action is for `rules.lending.usable`."""
    return select(Delegation, _IN_FORCE + " AND to_actor = $3 ORDER BY starts_at, id", tenant_id, at, actor_id)


def delegations_of(tenant_id: UUID, actor_id: UUID, at: datetime) -> list[Delegation]:
    """What somebody has lent or was lent, as far as it has not ended; later ones too."""
    either = Q(from_actor=actor_id) | Q(to_actor=actor_id)
    open_ones = Delegation.objects.filter(either, tenant_id=tenant_id, ended_at__isnull=True, ends_at__gt=at)
    return list(open_ones.order_by("starts_at", "id"))


def delegations(tenant_id: UUID, at: datetime) -> list[Delegation]:
    """Every delegation that has not ended."""
    open_ones = Delegation.objects.filter(tenant_id=tenant_id, ended_at__isnull=True, ends_at__gt=at)
    return list(open_ones.order_by("starts_at", "id"))


def delegation(tenant_id: UUID, delegation_id: UUID) -> Delegation | None:
    return Delegation.objects.filter(tenant_id=tenant_id, id=delegation_id).first()


_IN_FORCE: LiteralString = "tenant_id = $1 AND ended_at IS NULL AND starts_at <= $2 AND ends_at > $2"


def is_absent(tenant_id: UUID, actor_id: UUID, at: datetime) -> bool:
    """Whether somebody is away now."""
    return actor_id in absent(tenant_id, at)


def absent(tenant_id: UUID, at: datetime) -> set[UUID]:
    """Everybody who is away now."""
    return {actor_id for (actor_id,) in ask("SELECT actor_id FROM approvals_absence WHERE " + _IN_FORCE, tenant_id, at)}


def absences(tenant_id: UUID, at: datetime) -> list[Absence]:
    """Every absence that has not ended, begun or not."""
    found = Absence.objects.filter(tenant_id=tenant_id, ended_at__isnull=True, ends_at__gt=at)
    return list(found.order_by("starts_at", "id"))


def absence(tenant_id: UUID, absence_id: UUID) -> Absence | None:
    return Absence.objects.filter(tenant_id=tenant_id, id=absence_id).first()


def was_taken_back(vote: Vote) -> bool:
    """Whether the power that a vote used was taken back since, before its time was over."""
    if vote.delegated_by is None:
        return False
    used = Delegation.objects.filter(
        tenant_id=vote.tenant_id,
        from_actor=vote.delegated_by,
        to_actor=vote.voter,
        starts_at__lte=vote.at,
        ends_at__gt=vote.at,
    )
    return used.exists() and not used.filter(Q(ended_at__isnull=True) | Q(ended_at__gte=F("ends_at"))).exists()


def author_of_policy(tenant_id: UUID, version: str) -> UUID | None:
    """Who put a version of the approval policy in force."""
    row = record.policy_version(tenant_id, "approval", version)
    return _author(tenant_id, row.id) if row else None


@lru_cache(maxsize=1024)
def _author(tenant_id: UUID, policy_id: UUID) -> UUID | None:
    """Who wrote a version, which nobody can any more: a process reads each once."""
    return record.created_by(tenant_id, policy_id)


def behind(
    tenant_id: UUID, agent_id: str | None, at: datetime
) -> tuple[list[Approver], list[Delegation], list[Absence], Agent | None]:
    """Who is or was in the roster, what is lent, who is away, and an agent, as one message brings them."""
    roster, lent, away, agents = select_together(
        (Approver, "tenant_id = $1 ORDER BY since, actor_id", tenant_id),
        (Delegation, _IN_FORCE + " ORDER BY starts_at, id", tenant_id, at),
        (Absence, _IN_FORCE, tenant_id, at),
        (Agent, "tenant_id = $1 AND agent_id = $2", tenant_id, agent_id),
    )
    return roster, lent, away, next(iter(agents), None)


def stranded(tenant_id: UUID, *, limit: int = 50) -> list[Approval]:
    """The open approvals that nobody can decide, the longest first."""
    found = Approval.objects.filter(tenant_id=tenant_id, state="REQUESTED", stranded_at__isnull=False)
    return list(found.order_by("stranded_at", "id")[:limit])


def open_approvals(tenant_id: UUID) -> list[UUID]:
    """Every approval that waits for people, or for its action to start."""
    found = Approval.objects.filter(tenant_id=tenant_id, state__in=["PREPARING", "REQUESTED", "APPROVED"])
    return list(found.order_by("id").values_list("id", flat=True))


def misdeeds(tenant_id: UUID, session_id: UUID) -> dict[str, int]:
    """How often a session tried tools that it was not shown, and how often its restated goal drifted."""
    found = Call.objects.filter(tenant_id=tenant_id, session_id=session_id, accepted=False)
    counted: dict[str, int] = found.aggregate(
        undisclosed_attempts=Count("id", filter=Q(code="UNDISCLOSED_TOOL")),
        drifts=Count("id", filter=Q(code="ASK_DRIFT")),
    )
    return counted


def spent(tenant_id: UUID, *, agent_id: str, session_ids: Collection[UUID] = (), limit: int = 100) -> list[Spending]:
    """What was used of the budgets of an agent and of some of its sessions, newest window first."""
    holders = [f"agent:{agent_id}", *(f"session:{each}" for each in session_ids)]
    found = Spending.objects.filter(tenant_id=tenant_id, holder__in=holders)
    return list(found.order_by("-window_from", "holder", "budget", "unit")[:limit])


def approver_keys(tenant_id: UUID, *, actor_id: UUID | None = None, states: Collection[str] = ()) -> list[ApproverKey]:
    """The passkeys of approvers, or of one of them, oldest first."""
    found = ApproverKey.objects.filter(tenant_id=tenant_id)
    if actor_id is not None:
        found = found.filter(actor_id=actor_id)
    return list((found.filter(state__in=states) if states else found).order_by("id"))


def key(tenant_id: UUID, key_id: UUID) -> ApproverKey | None:
    """One passkey of an approver, in whatever state."""
    return ApproverKey.objects.filter(tenant_id=tenant_id, id=key_id).first()


def approver_key(tenant_id: UUID, credential_id: str) -> ApproverKey | None:
    """The passkey of this credential, in whatever state."""
    return ApproverKey.objects.filter(tenant_id=tenant_id, credential_id=credential_id).first()


def person_of(tenant_id: UUID, actor_id: UUID) -> UUID:
    """The human behind an account; an account that is not in the roster is somebody of its own."""
    row = approver(tenant_id, actor_id)
    return row.person_id if row is not None else actor_id


def emergency(tenant_id: UUID, emergency_id: UUID) -> Emergency | None:
    return first(Emergency, "tenant_id = $1 AND id = $2", tenant_id, emergency_id)


def emergency_of(tenant_id: UUID, approval_id: UUID) -> Emergency | None:
    """The use of break-glass that granted an approval."""
    return first(Emergency, "tenant_id = $1 AND approval_id = $2", tenant_id, approval_id)


def emergencies(
    tenant_id: UUID, *, reviewed: bool = False, before: UUID | None = None, limit: int = 100
) -> list[Emergency]:
    """Uses of break-glass: those whose review is due soonest, or the reviewed ones, newest first."""
    found = Emergency.objects.filter(tenant_id=tenant_id, reviewed_at__isnull=not reviewed)
    if not reviewed:
        return list(found.order_by("review_by", "id")[:limit])
    return list((found.filter(id__lt=before) if before else found).order_by("-id")[:limit])


def bearing(tenant_id: UUID, session_id: UUID, approval_id: UUID | None) -> tuple[str, tuple[str, ...]]:
    """The version of the agent behind a session, and the hashes of the statements that approve, oldest first."""
    [(version, votes)] = ask(
        "SELECT (SELECT agent_version FROM approvals_session WHERE tenant_id = $1 AND id = $2),"
        " array(SELECT statement_hash::text FROM approvals_vote WHERE tenant_id = $1 AND approval_id = $3"
        " AND verdict = ANY($4) ORDER BY id)",
        *(tenant_id, session_id, approval_id, sorted(map(str, binding.AUTHORISING))),
    )
    return version or "", tuple(votes)


def proof_of_votes(tenant_id: UUID, approval_id: UUID) -> dict[str, Any] | None:
    """What shows an outsider that people voted so, from the signed log: each statement with its event and its path.

    None where the newest signed checkpoint does not cover a vote that authorises.
    """
    statements = {
        row.statement_hash: bytes(row.statement)
        for row in votes_of(tenant_id, approval_id)
        if row.verdict in binding.AUTHORISING
    }
    checkpoint, found = vouchers(tenant_id, approval_id, "statement_hash")
    told = [(statements.pop(orjson.loads(each.detail)["statement_hash"], None), each) for each in found]
    if statements or not checkpoint:
        return None
    votes = [_vote_told(statement, each) for statement, each in told if statement is not None]
    return {"checkpoint": checkpoint.decode(), "votes": votes}


def _vote_told(statement: bytes, voucher: Voucher) -> dict[str, Any]:
    return {
        "statement": statement.decode(),
        "index": voucher.index,
        "path": [each.hex() for each in voucher.path],
        "envelope": voucher.envelope.decode(),
        "detail": voucher.detail.decode(),
        "salt": voucher.salt.hex(),
    }


@lru_cache(maxsize=1024)
def approval_policy(tenant_id: UUID, digest: str) -> policy.ApprovalPolicy:
    """A version of the approval policy by its digest, which its document has for good."""
    row = record.policy_by_digest(tenant_id, "approval", digest)
    rules = policy.stored(bytes(row.document)) if row is not None else None
    if rules is None or rules.digest != digest:
        raise LookupError(f"no approval policy {digest}")
    return rules


def executor(tenant_id: UUID, executor_id: str) -> Executor | None:
    return first(Executor, "tenant_id = $1 AND executor_id = $2", tenant_id, executor_id)


def executors(tenant_id: UUID) -> list[Executor]:
    """The registered executors, in the order of their names."""
    return list(Executor.objects.filter(tenant_id=tenant_id).order_by("executor_id"))


def may_use(executor: Executor, key_actor: UUID) -> bool:
    """Whether this API key may act as the executor: it registered it, or an operator did, for nobody in particular."""
    return executor.key_actor in (key_actor, executor.id)


def grant(tenant_id: UUID, jti: UUID) -> Grant | None:
    return first(Grant, "tenant_id = $1 AND jti = $2", tenant_id, jti)


def reserved(tenant_id: UUID, action_ids: list[UUID]) -> set[UUID]:
    """The actions that a live grant reserves, by the clock of the database."""
    found = ask(
        "SELECT action_id FROM approvals_grant WHERE tenant_id = $1 AND action_id = ANY($2)"
        " AND consumed_at IS NULL AND voided_at IS NULL AND expires_at > clock_timestamp()",
        *(tenant_id, action_ids),
    )
    return {action_id for (action_id,) in found}


def attempt(tenant_id: UUID, action_id: UUID, number: int) -> Attempt | None:
    return Attempt.objects.filter(tenant_id=tenant_id, action_id=action_id, number=number).first()


def attempts_of(tenant_id: UUID, action_id: UUID) -> list[Attempt]:
    return list(Attempt.objects.filter(tenant_id=tenant_id, action_id=action_id).order_by("number"))


def due(*, at: datetime, limit: int = 200) -> list[tuple[UUID, UUID, str]]:
    """(tenant, subject, what) of leases and approvals whose time has come. Outside row-level security."""
    found = Due.objects.filter(due_at__lte=at).order_by("due_at")[:limit]
    return list(found.values_list("tenant_id", "subject_id", "what"))


def preparing(*, limit: int = 200) -> list[tuple[UUID, UUID]]:
    """(tenant, approval) of the approvals whose target is read first. Outside row-level security."""
    found = Due.objects.filter(what="prepare").order_by("due_at")[:limit]
    return list(found.values_list("tenant_id", "subject_id"))


@lru_cache(maxsize=4096)
def disclosed_contract(tenant_id: UUID, contract_digest: str) -> Contract:
    """A registered contract by its digest. Versions never change, so a process reads each once."""
    row = record.contract_by_digest(tenant_id, contract_digest)
    if row is None:
        raise LookupError(f"no contract {contract_digest}")
    return contracts.stored(bytes(row.document), expected_digest=contract_digest)


def is_untellable(action: Any, unverifiable: Collection[str]) -> bool:
    """Whether the action can be neither taken back nor verified now: one of its systems is among `unverifiable`."""
    if not unverifiable or not action.mutating or action.reversibility != Reversibility.IRREVERSIBLE:
        return False
    verification = disclosed_contract(action.tenant_id, action.contract_digest).verification
    if verification is None:
        return False
    return any(system in unverifiable for system in (verification.system, *(s.system for s in verification.further)))


def waiting(tenant_id: UUID, *, most: int = 1000) -> tuple[int, datetime | None]:
    """How many approvals wait for a vote, counted up to `most`, and since when the oldest does."""
    asked = Approval.objects.filter(tenant_id=tenant_id, state="REQUESTED")[:most]
    times = list(asked.values_list("requested_at", flat=True))
    return len(times), min(times, default=None)


def decided(tenant_id: UUID, *, before: UUID | None = None, limit: int = 50) -> list[Approval]:
    """Approvals that no longer wait, newest first, starting below the id `before`."""
    found = Approval.objects.filter(tenant_id=tenant_id).exclude(state__in=["REQUESTED", "APPROVED"])
    return list((found.filter(id__lt=before) if before else found).order_by("-id")[:limit])


def refused_calls(tenant_id: UUID, *, since: datetime, limit: int = 8) -> list[Call]:
    """What the gate refused lately, newest first."""
    found = Call.objects.filter(tenant_id=tenant_id, id__gte=lower_bound(since), accepted=False)
    return list(found.order_by("-id")[:limit])
