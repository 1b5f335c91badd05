"""Edits: a reviewer's changed payload becomes a new action, and the original one ends (R-AP-16, C-04).

The payload of an action is never changed. The edited action passes the whole gate and gets its own hash, policy
evaluation and approval, which names the editor; the original ends as SUPERSEDED with every byte kept. Its agent is told
which fields changed, and that a reviewer did it, by role. The agent's expectations of edited fields are dropped, on
record (`approvals.requests.rules.expectations`), so that no edit causes a mismatch by itself. After a crash before the
commit, nothing was edited.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from approvals.gate import queries as gate_queries
from approvals.gate.operations import actions, call_context
from approvals.gate.rules import gate
from approvals.models import Approval, Session
from approvals.policy.operations.policy_evaluation import evaluate_policy, rules_of
from approvals.policy.rules.policy import PolicyDecision
from approvals.requests.operations import clocks
from approvals.requests.operations.requests import fail_unexecuted_action, lock_approval, void_approval
from approvals.requests.queries import approvals
from approvals.requests.rules import expectations, revisions
from approvals.requests.rules.expectations import DroppedExpectation, RequestContent, ReviewedExpectations
from approvals.requests.rules.revisions import FieldChange
from approvals.sessions import queries as sessions_queries
from approvals.voting.operations.eligibility import EligibleVoter, VotingStatus, status_if_edited
from approvals.voting.queries import approvers
from approvals.voting.rules import binding
from ledger.actions.queries import actions as actions_queries
from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.rules.contract import Contract
from ledger.db import defer, insert_call
from ledger.record import operations as ledger
from ledger.record.queries import events, evidence
from ledger.record.rules.canonical import parse
from ledger.record.rules.refusals import AlreadyDecided, ReasonMissing, Refused, leave_on_record

if TYPE_CHECKING:
    from ledger.models import Action

SUPERSEDED = "SUPERSEDED"
BY = "reviewer"

Compiler = Callable[[Contract, str], str | None]


class EditRefused(Refused):
    """The edited call did not pass the gate; the request is unchanged."""

    code = "EDIT_REFUSED"
    status = 422


class NothingChanged(Refused):
    """The edited payload is identical to the original."""

    code = "NOTHING_CHANGED"
    status = 422


class NotEditable(Refused):
    """The arguments of a recovery action come from its order and cannot be edited."""

    code = "NOT_EDITABLE"


@dataclass(frozen=True, kw_only=True)
class Edit:
    """A reviewer's edit: the new arguments, the reason, and the hash of the payload that was displayed."""

    arguments: Any
    reason: str
    payload_hash: str


@dataclass(frozen=True, kw_only=True)
class EditResult:
    """The result of an edit; `action_id` is None in a preview.

    `dropped` and `kept` are the predicates that the agent had added: those that name an edited field, and the rest.
    `eligible` are those who may approve the edited request; `leaves_nobody` means that they are not enough.
    """

    supersedes: UUID
    changes: tuple[FieldChange, ...]
    dropped: tuple[DroppedExpectation, ...]
    kept: tuple[str, ...]
    payload: bytes
    payload_hash: str
    target: str
    eligible: tuple[EligibleVoter, ...]
    leaves_nobody: bool
    action_id: UUID | None = None
    approval_id: UUID | None = None


@dataclass(frozen=True, kw_only=True)
class _EditedRequest:
    """The request that is edited, under its lock."""

    approval: Approval
    action: Any
    session: Session
    payload: Any
    call: gate.Proposal


def preview_edit(
    *, tenant_id: UUID, approval_id: UUID, edit: Edit, editor: UUID, compile_predicate: Compiler, at: datetime
) -> EditResult:
    """Check an edit at the whole gate and return its changes and possible approvers; writes nothing."""
    before = _lock_request(tenant_id, approval_id, edit, at=at)
    verdict, reviewed = _judge_edit(before, edit, compile_predicate=compile_predicate, at=at)
    return _edit_result(before, verdict, reviewed, editor=editor, at=at)


def eligible_if_edited(approval: Approval, *, editor: UUID, at: datetime) -> VotingStatus:
    """The voting status after an edit by this person, as far as it is known before the gate has checked the payload."""
    version = catalogue_queries.active_policies(approval.tenant_id)["approval"].version
    return status_if_edited(approval, approval.terms, policy_version=version, editor=editor, at=at)


def apply_edit(
    *, tenant_id: UUID, approval_id: UUID, edit: Edit, editor: UUID, compile_predicate: Compiler, at: datetime
) -> EditResult:
    """Replace the action of a request by an edited one."""

    def describe(refusal: Refused) -> ledger.RefusedEvent:
        event = ledger.NewEvent(kind="edit_refused", detail={"code": refusal.code})
        actor = ledger.Actor("person", editor)
        return ledger.RefusedEvent(subject_kind="approval", subject_id=approval_id, event=event, actor=actor, at=at)

    with leave_on_record(describe, of=(EditRefused, NotEditable)):
        before = _lock_request(tenant_id, approval_id, edit, at=at)
        _check_editor(tenant_id, editor)
        if not edit.reason.strip():
            raise ReasonMissing("An edit says why: the agent is told.")
        verdict, reviewed = _judge_edit(before, edit, compile_predicate=compile_predicate, at=at)
    result = _edit_result(before, verdict, reviewed, editor=editor, at=at)
    note = {"reason": edit.reason, "expectations_dropped": [each.document() for each in result.dropped]}
    revision = actions.Revision(before.action.id, editor, note)
    call_origin = actions.CallOrigin(actions.trace_of(before.action), revision=revision)
    answer, rows, drafts = actions.create_action(before.session, before.call, verdict, call_origin=call_origin, at=at)
    defer(insert_call(*rows), ledger.events_call(*drafts))
    assert answer.action_id is not None
    _supersede(before.approval, result, edit.reason, by=answer.action_id, editor=editor, at=at)
    approval_of_edit = UUID(answer.document["approval"]["approval_id"])
    return replace(result, action_id=answer.action_id, approval_id=approval_of_edit)


def _lock_request(tenant_id: UUID, approval_id: UUID, edit: Edit, *, at: datetime) -> _EditedRequest:
    head = lock_approval(tenant_id, approval_id)
    approval = approvals.approval(tenant_id, approval_id)
    assert approval is not None
    head = clocks.settle_clock_if_late(head, approval, at=at)
    if head.state != "REQUESTED":
        raise AlreadyDecided
    if at >= approval.decide_by:
        raise binding.ApprovalLapsed
    if edit.payload_hash != approval.payload_hash:
        raise binding.PayloadChanged
    action = actions_queries.action(tenant_id, approval.action_id)
    assert action is not None
    assert action.payload_pointer is not None
    if action.ordered_by is not None:
        raise NotEditable
    session = sessions_queries.session(tenant_id, action.session_id)
    assert session is not None
    payload = parse(evidence.open_evidence(tenant_id, action.payload_pointer) or b"{}")
    return _EditedRequest(
        approval=approval,
        action=action,
        session=session,
        payload=payload,
        call=_call_with_arguments(action, session, edit.arguments),
    )


def _call_with_arguments(action: Action, session: Session, arguments: Any) -> gate.Proposal:
    """The original call with other arguments and the same dependencies, expectations and evidence."""
    entry = events.entry(action.tenant_id, action.id, action.seq) or {}
    own = sessions_queries.disclosed_contract(action.tenant_id, action.contract_digest).predicates
    wanted = entry["intended_outcome"]["expected_predicates"]
    first = events.history(action.tenant_id, action.id)[0][2] or {}
    return gate.Proposal(
        call_id=action.call_id,
        tool=action.tool,
        arguments=arguments,
        pin_hash=session.pin_hash,
        outcome_predicates=tuple(text for text in wanted if text not in own),
        depends_on=tuple(first.get("depends_on", ())),
        acknowledges=frozenset(first.get("acknowledges", ())),
        evidence=gate_queries.evidence_of(action),
    )


def _judge_edit(
    before: _EditedRequest, edit: Edit, *, compile_predicate: Compiler, at: datetime
) -> tuple[gate.GateVerdict, ReviewedExpectations]:
    """Check the edit at the gate; returns the verdict, without the expectations that the edit drops, and their review.

    The pinned goal still applies; a session that has ended does not refuse the edit.
    """
    session = before.session
    known = call_context.caller_context(session, before.call, gate_queries.caller_facts(session))
    lasting = replace(known.pin, expires_at=at + timedelta(seconds=1), quiet=None)
    known = replace(known, open=True, iteration_limit=None, pin=lasting)
    verdict = gate.check_call(before.call, known, compile_predicate=compile_predicate, at=at)
    if verdict.accepted:
        context = call_context.target_context(before.session, before.call, verdict, at=at, remedy=False, edited=True)
        verdict = gate.check_preconditions(verdict, before.call, context)
    if verdict.accepted:
        verdict = gate.apply_policy(verdict, _policy_decision(before, verdict, at=at))
    if not verdict.accepted:
        errors = [dict(each) for each in verdict.errors]
        told = errors or [{"path": "/payload", "code": verdict.code, "detail": verdict.message}]
        raise EditRefused(f"{verdict.message} The request stands as it was.", hint=verdict.hint or None, errors=told)
    if verdict.payload_hash == before.action.payload_hash:
        raise NothingChanged
    reviewed = _review_expectations(before, verdict)
    assert verdict.contract is not None
    standing = dict.fromkeys((*verdict.contract.predicates, *reviewed.kept))
    return replace(verdict, predicates=tuple(standing)), reviewed


def _review_expectations(before: _EditedRequest, verdict: gate.GateVerdict) -> ReviewedExpectations:
    """Review the agent's expectations; refuse the edit if its payload contradicts one that is kept."""
    assert verdict.contract is not None
    reviewed = expectations.review_expectations(
        before.call.outcome_predicates,
        before=RequestContent(before.payload, before.action.target),
        after=RequestContent(parse(verdict.payload), verdict.target_resource[:512]),
        predicates=verdict.contract.predicates,
    )
    if reviewed.contradicted:
        found = [
            {
                "path": "/intended_outcome/expected_predicates",
                "code": "EXPECTATION_CONTRADICTED",
                "detail": f"The agent expects `{text}`, and the edited payload contradicts it.",
            }
            for text in reviewed.contradicted
        ]
        hint = "Edit the fields that it names as well, or request changes from the agent."
        raise EditRefused(f"{found[0]['detail']} The request stands as it was.", hint=hint, errors=found)
    return reviewed


def _policy_decision(before: _EditedRequest, verdict: gate.GateVerdict, *, at: datetime) -> PolicyDecision:
    """Evaluate the policy in force for the new payload; an edited action is always held for people."""
    assert verdict.contract is not None
    wanted = evaluate_policy(
        before.session,
        contract=verdict.contract,
        rules=rules_of(catalogue_queries.active_policies(before.session.tenant_id)["approval"]),
        payload=verdict.payload,
        target=verdict.target_resource,
        at=at,
    )
    if wanted.outcome == "refuse":
        return wanted
    return replace(wanted, outcome="hold", reasons=(*wanted.reasons, "EDITED"))


def _edit_result(
    before: _EditedRequest, verdict: gate.GateVerdict, reviewed: ReviewedExpectations, *, editor: UUID, at: datetime
) -> EditResult:
    assert verdict.demand is not None
    version = catalogue_queries.active_policies(before.session.tenant_id)["approval"].version
    terms = verdict.demand.terms.document()
    stands = status_if_edited(before.approval, terms, policy_version=version, editor=editor, at=at)
    return EditResult(
        supersedes=before.action.id,
        changes=revisions.field_changes(before.payload, parse(verdict.payload)),
        dropped=reviewed.dropped,
        kept=reviewed.kept,
        payload=verdict.payload,
        payload_hash=verdict.payload_hash,
        target=verdict.target_resource,
        eligible=stands.may_vote,
        leaves_nobody=stands.stranded,
    )


def _check_editor(tenant_id: UUID, editor: UUID) -> None:
    place = approvers.approver(tenant_id, editor)
    if place is None or not place.active:
        raise binding.NotEligible


def _supersede(approval: Approval, result: EditResult, reason: str, *, by: UUID, editor: UUID, at: datetime) -> None:
    void_approval(approval=approval, reason="It was edited; another action replaces it.", at=at)
    more = {
        "superseded_by": str(by),
        "by": BY,
        "changed": [each.document() for each in result.changes],
        "expectations_dropped": [each.document() for each in result.dropped],
    }
    person = ledger.Actor("person", editor)
    fail_unexecuted_action(approval, code=SUPERSEDED, reason=reason, actor=person, more=more, at=at)
