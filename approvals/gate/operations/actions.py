"""Creates the action of a checked call with its first events, and builds the answer for the agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models import Model

from approvals.gate.rules import agent_evidence
from approvals.gate.rules.gate import GateVerdict
from approvals.gate.rules.proposals import Proposal
from approvals.models import Approval, Session
from approvals.policy.operations.policy_evaluation import rules_of
from approvals.requests.operations.requests import (
    approval_block,
    draft_grant,
    draft_reading_request,
    needs_preflight_reading,
    request_approval,
)
from approvals.standing.operations.passing import StandingMatch, find_standing
from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.rules.policies import policy_context
from ledger.record import operations as ledger
from ledger.record.queries import events
from ledger.record.rules.entry import Entry
from ledger.record.rules.envelope import instant

if TYPE_CHECKING:
    from ledger.models import Action


@dataclass(frozen=True, slots=True)
class Trace:
    """The W3C trace of a call: its id, and the caller's span where the caller sent one. Without it, the id is ours."""

    trace_id: str
    parent_span_id: str | None = None


def trace_of(action: Action) -> Trace:
    """Return the trace of an action, for work done on its behalf."""
    entry = events.entry(action.tenant_id, action.id, action.seq)
    return Trace(action.trace_id, entry["trace"]["parent_span_id"] if entry is not None else None)


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """The answer to one call as in api.md, without the user status, which depends on when it is read.

    `entry` is that of the action just created; a replayed answer has none.
    """

    document: dict[str, Any]
    action_id: UUID | None
    state: str | None
    entry: Entry | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryOrigin:
    """The origin of a recovery action: the event that ordered it, its parent action, and who requested the order."""

    ordered_by: UUID
    parent_id: UUID
    relation: str
    requester: UUID


@dataclass(frozen=True, slots=True)
class Revision:
    """The action that a new one replaces, and its editor; None if the agent sent it again.

    `note` is recorded with an edit: its reason, and which of the agent's expectations it dropped.
    """

    supersedes: UUID
    editor: UUID | None = None
    note: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CallOrigin:
    """The origin of a call: its trace, the order if it is a recovery action, and the action that it replaces."""

    trace: Trace
    origin: RecoveryOrigin | None = None
    revision: Revision | None = None

    @property
    def editor(self) -> UUID | None:
        """The person who edited it, if any."""
        return self.revision.editor if self.revision else None


def reject_call(call: Proposal, verdict: GateVerdict, at: datetime) -> CallAnswer:
    """The answer to a call that creates no action."""
    return CallAnswer(answer_document(call, verdict, at=at), None, None)


def create_action(
    session: Session,
    call: Proposal,
    verdict: GateVerdict,
    *,
    call_origin: CallOrigin,
    at: datetime,
    policies: Mapping[str, Any] | None = None,
) -> tuple[CallAnswer, list[Model], list[ledger.EventDraft]]:
    """Create an action: PROPOSED, then VALIDATED (with an approval, where one is needed) or FAILED.

    `policies` are those that the call was checked against, if it was. The caller inserts the rows and then writes the
    events, which point to them.
    """
    assert verdict.contract is not None
    by = ledger.Actor("person", call_origin.editor) if call_origin.editor else ledger.Actor("agent", session.actor_id)
    policies = policies or catalogue_queries.active_policies(session.tenant_id)
    action_id = ledger.new_id(at)
    evidence, rows = _seal_call(session, action_id, call, verdict, call_origin, at=at)
    digests = {"contract": verdict.contract.digest} | {kind: each.digest for kind, each in policies.items()}
    proposed = ledger.draft_event(
        ledger.SubjectHead(tenant_id=session.tenant_id, id=action_id, kind="action"),
        ledger.NewEvent(
            kind="proposed",
            to="PROPOSED",
            entry=_first_entry(session, action_id, verdict, policies, call_origin.trace, at),
            evidence=evidence,
            digests=digests,
            detail=_first_detail(session, call, verdict, call_origin),
            view=_first_view(session, call, verdict, evidence[0], call_origin),
            causation=call_origin.origin.ordered_by if call_origin.origin else None,
        ),
        actor=by,
        at=at,
    )
    if verdict.accepted:
        requester = call_origin.origin.requester if call_origin.origin else session.actor_id
        people = (requester, call_origin.editor)
        match = _standing_match(session, call, verdict, policies, call_origin, at=at)
        approval, requested, following = _draft_validation(
            people, proposed.head, verdict, policies, digests, match=match, at=at
        )
    else:
        approval, requested, following = None, [], [_draft_failure(proposed.head, verdict, at=at)]
    end = following[-1].head
    told = answer_document(call, verdict, at=at, action_id=action_id, state=end.state, approval=approval)
    return CallAnswer(told, action_id, end.state, end.entry), [*rows, *requested], [proposed, *following]


def _standing_match(
    session: Session,
    call: Proposal,
    verdict: GateVerdict,
    policies: Mapping[str, Any],
    call_origin: CallOrigin,
    *,
    at: datetime,
) -> StandingMatch | None:
    """The standing approval that covers a call; never for a recovery action, an edit or a replacement.

    Where the target must be read first, preflight looks for it later (`requests.operations.preflight`).
    """
    assert verdict.contract is not None
    assert verdict.demand is not None
    if verdict.demand.outcome != "hold" or call_origin.origin or call_origin.revision:
        return None
    if needs_preflight_reading(verdict.contract, verdict.predicates):
        return None
    return find_standing(
        session,
        tool=verdict.contract.name,
        contract_digest=verdict.contract.digest,
        target=verdict.target_resource,
        payload=verdict.payload,
        goals=(session.goal, call.goal or ""),
        demand=verdict.demand,
        rules=rules_of(policies["approval"]),
        at=at,
    )


def _seal_call(
    session: Session, action_id: UUID, call: Proposal, verdict: GateVerdict, call_origin: CallOrigin, *, at: datetime
) -> tuple[tuple[ledger.SealedEvidence, ...], list[Model]]:
    """Seal the payload and the evidence that the agent gave with it (R-AP-04); also the rows of both."""
    given = {agent_evidence.PURPOSE: agent_evidence.write_evidence(call.evidence)} if call.evidence else {}
    agent = f"agent {session.agent_id}"
    pieces = {"payload": verdict.payload, **given}
    sealed, rows = ledger.seal_pieces(
        tenant_id=session.tenant_id,
        subject_id=action_id,
        pieces=pieces,
        media_types=dict.fromkeys(pieces, "application/json"),
        sources={"payload": "a reviewer's edit" if call_origin.editor else agent, agent_evidence.PURPOSE: agent},
        at=at,
        key_id=None,
    )
    return sealed, list(rows)


def _draft_failure(head: ledger.SubjectHead, verdict: GateVerdict, *, at: datetime) -> ledger.EventDraft:
    return ledger.draft_event(
        head,
        ledger.NewEvent(
            kind="validation_failed",
            to="FAILED",
            changes={"verification": {"status": "NOT_REQUIRED"}},
            detail={
                "code": verdict.code,
                "reason": verdict.message,
                "layer": verdict.layer,
                "errors": [dict(one) for one in verdict.errors],
            },
        ),
        actor=ledger.SYSTEM,
        at=at,
    )


def _draft_validation(
    people: tuple[UUID, UUID | None],
    head: ledger.SubjectHead,
    verdict: GateVerdict,
    policies: Mapping[str, Any],
    digests: Mapping[str, str],
    *,
    match: StandingMatch | None,
    at: datetime,
) -> tuple[Approval | None, list[Model], list[ledger.EventDraft]]:
    """Validate the action and request its approval, if it needs one, with the rows of the request; `people` are
    requester and editor.

    With a `match`, the standing approval covers the call and nobody is asked.
    """
    assert verdict.contract is not None
    assert verdict.demand is not None
    held = verdict.demand.outcome == "hold"
    approval, rows, drafts = None, list[Model](), list[ledger.EventDraft]()
    prepare = needs_preflight_reading(verdict.contract, verdict.predicates)
    if held:
        approval, rows, drafts = request_approval(
            tenant_id=head.tenant_id,
            action_id=head.id,
            requester=people[0],
            contract=verdict.contract,
            version=policies["approval"],
            payload=verdict.payload,
            demand=verdict.demand,
            at=at,
            prepare=prepare,
            editor=people[1],
            match=match,
        )
    block = {"approval": approval_block(approval)} if approval else {}
    validated = ledger.draft_event(
        head,
        ledger.NewEvent(
            kind="validated",
            to="VALIDATED",
            changes={"timestamps": {"validated_at": instant(at)}, **block},
            detail={"approval_required": held and match is None, "rules": list(verdict.demand.reasons)},
            view={"approval_id": str(approval.id)} if approval else {},
            digests=digests,
        ),
        actor=ledger.SYSTEM,
        at=at,
    )
    if approval is not None and match is not None:
        return approval, rows, [*drafts, validated, draft_grant(validated.head, approval, match, at=at)]
    readings = (
        [draft_reading_request(validated.head, approval, verdict.contract, at=at)] if approval and prepare else []
    )
    return approval, rows, [*drafts, validated, *readings]


def _first_entry(
    session: Session, action_id: UUID, verdict: GateVerdict, policies: Mapping[str, Any], trace: Trace, at: datetime
) -> Entry:
    contract = verdict.contract
    assert contract is not None
    entry: Entry = {
        "action_id": str(action_id),
        "workflow_run_id": session.run_id,
        "tenant_id": str(session.tenant_id),
        "principal_id": str(session.actor_id),
        "tool_contract": {
            "name": contract.name,
            "version": contract.version,
            "schema_version": contract.schema_version,
            "wrapper_version": contract.wrapper_version,
        },
        "policy_context": policy_context(policies.values()),
        "side_effect_class": str(contract.side_effect_class),
        "intended_outcome": {
            "target_resource": verdict.target_resource,
            "expected_predicates": list(verdict.predicates),
        },
        "requested_operation": {
            "validated_payload_hash": verdict.payload_hash,
            "target_resource": verdict.target_resource,
            "operation_kind": contract.operation_kind,
        },
        **_initial_blocks(at),
        "trace": {
            "trace_id": trace.trace_id,
            "parent_span_id": trace.parent_span_id,
            # Its replay bundle is made of the record whenever somebody asks, so its id is the action's own.
            "replay_bundle_id": str(action_id),
        },
    }
    if contract.mutating:
        entry["idempotency"] = {
            "required": True,
            "key_hash": None,
            "request_hash": verdict.payload_hash,
            "status": None,
        }
    return entry


def _initial_blocks(at: datetime) -> Entry:
    """The blocks of an entry before anything has happened."""
    later = dict.fromkeys(("validated_at", "executed_at", "verified_at", "reconciled_at"))
    return {
        "execution": {"status": "NOT_EXECUTED", "observation_pointer": None, "attempt_count": 0},
        "verification": {
            "status": "NOT_STARTED",
            "source": None,
            "query_pointer": None,
            "verified_state_pointer": None,
        },
        "reconciliation": {"status": "NOT_STARTED", "discrepancy_class": None, "recovery_decision": None},
        "timestamps": {"proposed_at": instant(at), **later},
    }


def _first_detail(session: Session, call: Proposal, verdict: GateVerdict, call_origin: CallOrigin) -> dict[str, Any]:
    """The detail of the first event: the call and its dependencies, so that a chain can be followed later."""
    detail: dict[str, Any] = {
        "call_id": call.call_id,
        "session_id": str(session.id),
        "pin_hash": session.pin_hash,
        "depends_on": list(call.depends_on),
        "acknowledges": sorted(call.acknowledges),
        "based_on": [
            {"resource": each.resource, "version": each.version, "read_at": instant(each.read_at)}
            for each in call.based_on
        ],
    }
    if verdict.coerced:
        detail["coerced"] = [dict(one) for one in verdict.coerced]
    if call_origin.revision is not None:
        detail |= {"supersedes": str(call_origin.revision.supersedes), "edited": call_origin.editor is not None}
        if call_origin.editor is not None:
            detail["edit"] = dict(call_origin.revision.note)
    if call_origin.origin is not None:
        detail |= {"parent_id": str(call_origin.origin.parent_id), "relation": call_origin.origin.relation}
    return detail


def _first_view(
    session: Session, call: Proposal, verdict: GateVerdict, payload: ledger.SealedEvidence, call_origin: CallOrigin
) -> dict[str, Any]:
    contract = verdict.contract
    assert contract is not None
    return {
        "tool": contract.name,
        "tool_version": contract.version,
        "contract_digest": contract.digest,
        "side_effect_class": str(contract.side_effect_class),
        "reversibility": str(contract.reversibility),
        "mutating": contract.mutating,
        "agent": session.agent_id,
        "agent_actor": str(session.actor_id),
        "session_id": str(session.id),
        "run_id": session.run_id,
        "call_id": call.call_id,
        "target": verdict.target_resource[:512],
        "operation_kind": contract.operation_kind,
        "operation_key": verdict.operation_hash,
        "payload_hash": verdict.payload_hash,
        "payload_pointer": str(payload.pointer),
        "trace_id": call_origin.trace.trace_id,
        "recovery_row": "",
        "contradicted": False,
        "reversed": False,
        "settled": False,
        **({"supersedes": str(call_origin.revision.supersedes)} if call_origin.revision else {}),
        **_lineage_columns(session, call_origin.origin),
    }


def _lineage_columns(session: Session, origin: RecoveryOrigin | None) -> dict[str, Any]:
    if origin is None:
        return {"relation": "", "unwinds": session.unwinds}
    return {
        "ordered_by": str(origin.ordered_by),
        "parent_id": str(origin.parent_id),
        "relation": origin.relation,
        "unwinds": False,
    }


def answer_document(
    call: Proposal,
    verdict: GateVerdict,
    *,
    at: datetime,
    action_id: UUID | None = None,
    state: str | None = None,
    approval: Approval | None = None,
) -> dict[str, Any]:
    """The answer to one call (docs/api.md). A refused call is an answer like any other (C-29)."""
    error = None if verdict.accepted else {"code": verdict.code, "message": verdict.message}
    return {
        "call_id": call.call_id,
        "accepted": verdict.accepted,
        "action_id": str(action_id) if action_id else None,
        "state": state,
        "result": {
            "tool": call.tool,
            "status": "pending" if verdict.accepted else "failed",
            "evidence": None,
            "error": error,
            "timestamp": instant(at),
            "side_effects": [],
        },
        "hint": verdict.hint or None,
        "suggestion": verdict.suggestion,
        "errors": [dict(one) for one in verdict.errors],
        "layer": verdict.layer or None,
        "coerced": [dict(one) for one in verdict.coerced],
        "approval": {
            "required": verdict.accepted
            and verdict.demand is not None
            and verdict.demand.outcome == "hold"
            and (approval is None or approval.state != "APPROVED"),
            "approval_id": str(approval.id) if approval else None,
            "expires_at": instant(approval.decide_by) if approval else None,
            "reasons": list(verdict.demand.reasons) if verdict.dry_run and verdict.demand is not None else [],
        },
    }
