"""Lets actions pass under standing approvals, and pauses or ends a standing approval.

What must be true after a crash: the pass, its event, the approval that it grants and the action are one transaction, so
the budget is never smaller or larger than what passed. Two calls at once wait for each other at the row of the standing
approval, where the database counts (`sql/standing.sql`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from approvals.gate.rules.intent import AgentStatement, find_contradictions
from approvals.models import Approval, Session, StandingApproval, StandingPass
from approvals.policy.rules.policy import ApprovalPolicy, PolicyDecision
from approvals.policy.rules.policy_facts import money_amount
from approvals.standing import queries
from approvals.standing.operations.offers import current_versions, policy_digests
from approvals.standing.rules import shapes, standing
from approvals.standing.rules.standing import EndReason, Pause, PauseReason, StandingBudget, StandingState
from ledger.actions.queries import freezes
from ledger.catalogue import queries as catalogue_queries
from ledger.db import insert
from ledger.record import operations as ledger
from ledger.record.rules.canonical import parse
from ledger.record.rules.envelope import instant

OPEN_INCIDENTS = Callable[[UUID, Collection[UUID]], UUID | None]


@dataclass(frozen=True, slots=True)
class StandingMatch:
    """A standing approval, locked, under which a call may pass now, and the amount of money in the call."""

    head: ledger.SubjectHead
    row: StandingApproval
    minor: int

    @property
    def detail(self) -> dict[str, Any]:
        """The reference in the events of an action and its approval; of a time-boxed pass with its giver and end."""
        told: dict[str, Any] = {"standing_approval_id": str(self.row.id)}
        if self.row.is_time_boxed:
            told["time_box"] = {"by": str(self.row.proposed_by), "until": instant(self.row.ends_at)}
        return told


def find_standing(
    session: Session,
    *,
    tool: str,
    contract_digest: str,
    target: str,
    payload: bytes,
    goals: Collection[str],
    demand: PolicyDecision,
    rules: ApprovalPolicy,
    at: datetime,
) -> StandingMatch | None:
    """Return the standing approval under which a call that needs people passes, or None: then people are asked.

    Nothing of the standing approval changes here; `use_standing` does that, in the same transaction.
    """
    if rules.standing is None:
        return None
    arguments = parse(payload)
    waiting = queries.active_for(session.tenant_id, agent=session.agent_id, tool=tool)
    if not waiting or not isinstance(arguments, dict):
        return None
    if reason_for_a_person(session, tool=tool, arguments=arguments, goals=goals, demand=demand, rules=rules):
        return None
    scope = shapes.scope_of(
        agent=session.agent_id,
        agent_version=session.agent_version,
        tool=tool,
        contract_digest=contract_digest,
        target=target,
        arguments=arguments,
    )
    minor = money_amount(arguments).get("minor", 0)
    matches = (_match(session.tenant_id, each, scope, arguments, minor, at=at) for each in waiting)
    return next((match for match in matches if match is not None), None)


def reason_for_a_person(
    session: Session,
    *,
    tool: str,
    arguments: Mapping[str, Any],
    goals: Collection[str],
    demand: PolicyDecision,
    rules: ApprovalPolicy,
) -> str:
    """The reason why people are asked about this call each time; empty if a standing approval may cover it."""
    if why := standing.reason_for_a_person(rules.standing, tool=tool, reasons=demand.reasons, terms=demand.terms):
        return why
    if session.undisclosed_attempts or session.drifts:
        return "Its session tried a tool that it was not given, or strayed from its goal."
    if find_contradictions(arguments, [AgentStatement("goal", goal) for goal in goals if goal]):
        return "Its goal contradicts its payload."
    return ""


def _match(
    tenant_id: UUID,
    standing_id: UUID,
    scope: shapes.CallScope,
    arguments: Mapping[str, Any],
    minor: int,
    *,
    at: datetime,
) -> StandingMatch | None:
    row = queries.standing_approval(tenant_id, standing_id)
    if row is None or shapes.find_misfit(shapes.read_shape(row.shape), scope, arguments):
        return None
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=standing_id, kind="standing_approval")
    row = queries.standing_approval(tenant_id, standing_id)
    if row is None or row.state != StandingState.ACTIVE:
        return None
    used = {"used_count": row.used_count, "used_minor": row.used_minor}
    if not standing.has_room(budget_of(row), **used, minor=minor, at=at):
        return None
    # What the next tick would pause is not used before that tick.
    if standing.reason_to_pause(shapes.read_shape(row.shape), row.policies, current_basis(row)) is not None:
        return None
    return StandingMatch(head, row, minor)


def budget_of(row: StandingApproval) -> StandingBudget:
    """The budget that people agreed to."""
    return StandingBudget(count=row.max_count, sum_minor=row.max_minor, ends_at=row.ends_at)


def use_standing(match: StandingMatch, approval: Approval, *, at: datetime) -> list[ledger.EventDraft]:
    """Count the pass of an approval; the caller writes the events of the standing approval with its own."""
    row = match.row
    number, used_minor = row.used_count + 1, row.used_minor + match.minor
    insert(
        StandingPass(
            tenant_id=row.tenant_id,
            standing_id=row.id,
            number=number,
            action_id=approval.action_id,
            approval_id=approval.id,
            minor=match.minor,
            at=at,
        )
    )
    detail = {
        "number": number,
        "of": row.max_count,
        "action_id": str(approval.action_id),
        "approval_id": str(approval.id),
        "minor": match.minor,
        "used_minor": used_minor,
    }
    used = ledger.draft_event(
        match.head, ledger.NewEvent(kind="standing_approval_used", detail=detail), actor=ledger.SYSTEM, at=at
    )
    if not standing.is_spent(budget_of(row), used_count=number, used_minor=used_minor):
        return [used]
    return [used, _end_standing(used.head, row, EndReason.BUDGET, at=at)]


def _end_standing(
    head: ledger.SubjectHead, row: StandingApproval, because: EndReason, *, at: datetime
) -> ledger.EventDraft:
    StandingApproval.objects.filter(tenant_id=row.tenant_id, id=row.id).update(
        state=StandingState.ENDED, ended_at=at, ended_because=because
    )
    happening = ledger.NewEvent(
        kind="standing_approval_ended", to=StandingState.ENDED, detail={"because": because, "reason": ""}
    )
    return ledger.draft_event(head, happening, actor=ledger.SYSTEM, at=at)


def current_basis(row: StandingApproval, *, incident: str = "") -> standing.CurrentBasis:
    """The current state of everything that a standing approval rests on."""
    tenant_id = row.tenant_id
    version, contract = current_versions(tenant_id, agent=row.agent, tool=row.tool)
    drifted = queries.drifted_action(tenant_id, row.id)
    return standing.CurrentBasis(
        passed=queries.passed_actions(tenant_id, row.id),
        drifted=str(drifted) if drifted else "",
        frozen=bool(freezes.freezes_on(tenant_id, agent=row.agent, tool=row.tool, target="")),
        incident=incident,
        contract_digest=contract,
        agent_version=version,
        policies=policy_digests(catalogue_queries.active_policies(tenant_id)),
    )


def check_standing(
    *, tenant_id: UUID, standing_id: UUID, open_incident: OPEN_INCIDENTS, at: datetime
) -> StandingApproval | None:
    """End an expired standing approval or pause one that must stop; return its row if a case is to be opened.

    If we crash before the case is there, the next tick finds a paused one without it.
    """
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=standing_id, kind="standing_approval")
    row = queries.standing_approval(tenant_id, standing_id)
    assert row is not None
    if row.state == StandingState.ACTIVE:
        actions = [UUID(each.action_id) for each in queries.passed_actions(tenant_id, standing_id)]
        about = open_incident(tenant_id, actions)
        now = current_basis(row, incident=str(about) if about else "")
        found = standing.reason_to_pause(shapes.read_shape(row.shape), row.policies, now)
        if found is not None:
            words = standing.PAUSE_SENTENCES[found.reason]
            pause_standing(head, row, found, words=words, by=ledger.SYSTEM, at=at)
    wants_case = row.state == StandingState.PAUSED and row.case_id is None and row.pause_reason != PauseReason.BY_HAND
    # The request that a time-boxed pass was given from still waits for people: a case about it would ask them twice.
    if wants_case and row.is_time_boxed and not row.pause_action and not queries.passes(tenant_id, row.id):
        wants_case = False
    ending = (StandingState.ACTIVE, StandingState.PROPOSED, *([StandingState.PAUSED] if row.is_time_boxed else []))
    if row.state in ending and row.ends_at <= at and not wants_case:
        ledger.write_events(_end_standing(head, row, EndReason.DATE, at=at))
    return row if wants_case else None


def pause_standing(
    head: ledger.SubjectHead, row: StandingApproval, found: Pause, *, words: str, by: ledger.Actor, at: datetime
) -> None:
    """Pause a standing approval; actions that passed and have not started need a vote again."""
    changes = {
        "state": StandingState.PAUSED,
        "paused_at": at,
        "pause_reason": found.reason,
        "pause_action": UUID(found.action_id) if found.action_id else None,
    }
    StandingApproval.objects.filter(tenant_id=row.tenant_id, id=row.id).update(**changes)
    for name, value in changes.items():
        setattr(row, name, value)
    agreed = [str(each) for each in (row.proposed_by, row.answered_by) if each]
    detail = {"because": found.reason, "action_id": found.action_id or None, "reason": words, "actors": agreed}
    ledger.append(
        head,
        ledger.NewEvent(kind="standing_approval_paused", to=StandingState.PAUSED, detail=detail),
        actor=by,
        at=at,
    )


def note_case(*, row: StandingApproval, case_id: UUID, at: datetime) -> None:
    """Record which case was opened about a pause."""
    head = ledger.lock_subject(tenant_id=row.tenant_id, subject_id=row.id, kind="standing_approval")
    happening = ledger.NewEvent(kind="case_opened", detail={"case_id": str(case_id), "reason": row.pause_reason})
    ledger.append(head, happening, actor=ledger.SYSTEM, at=at)
    StandingApproval.objects.filter(tenant_id=row.tenant_id, id=row.id).update(case_id=case_id)
