"""Preflight: reads the target and checks the contract's conditions before people are asked.

An approval whose contract requires it begins as PREPARING and requests a reading, which `reviews` takes. The
contract's preflight conditions are then checked against the reading: an action that cannot succeed fails here, and
nobody is notified. Otherwise the reading becomes the approval's baseline, and people are asked. If the system does not
answer within the contract's time, people are asked with an unknown baseline, which raises the risk.

After a crash anywhere, the deadline row remains and the next tick continues.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from approvals.models import Approval, Deadline
from approvals.policy.operations.policy_evaluation import reevaluate_policy, rules_of
from approvals.requests.operations import target_drift
from approvals.requests.operations.requests import (
    PreflightResult,
    approval_block,
    fail_unexecuted_action,
    lock_approval,
    request_after_preflight,
    request_approval,
    void_approval,
    void_grants,
)
from approvals.requests.operations.target_drift import TakenReading
from approvals.requests.queries import approvals
from approvals.requests.rules import drift, preflight
from approvals.sessions import queries as sessions_queries
from approvals.sessions.queries import disclosed_contract
from approvals.standing.operations.passing import StandingMatch, find_standing
from approvals.standing.queries import is_first_request
from ledger.actions.queries import actions, readings
from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.rules.contract import Contract
from ledger.catalogue.rules.policies import policy_context
from ledger.db import defer, insert_call
from ledger.record import operations as ledger
from ledger.record.queries import events, evidence
from ledger.record.rules.canonical import parse
from ledger.record.rules.refusals import RefusalRecord

if TYPE_CHECKING:
    from ledger.models import Action

REFUSED = "PREFLIGHT_REFUSED"
_POLICY_KINDS = ("approval", "verification", "recovery")


def resume(*, tenant_id: UUID, approval_id: UUID, at: datetime) -> bool:
    """Request approval, or refuse, once the reading is available or overdue; return True if the approval left
    PREPARING.
    """
    head = lock_approval(tenant_id, approval_id)
    approval = approvals.approval(tenant_id, approval_id)
    assert approval is not None
    if head.state != "PREPARING":
        Deadline.objects.filter(tenant_id=tenant_id, subject_id=approval_id, what="prepare").delete()
        return False
    contract = disclosed_contract(tenant_id, approval.contract_digest)
    waits = readings.is_reading_wanted(tenant_id, approval.action_id)
    taken = None if waits else target_drift.newest_reading(tenant_id, approval.action_id)
    if taken is None and at < approval.requested_at + timedelta(seconds=contract.preparation.within_s):
        return False
    found = run_preflight(approval, contract, taken)
    if found.preflight.refusals:
        refuse_action(approval, found.preflight, at=at)
        return True
    request_after_preflight(head, approval, found, match=_standing_match(approval, contract, found, at=at), at=at)
    return True


def _standing_match(
    approval: Approval, contract: Contract, found: PreflightResult, *, at: datetime
) -> StandingMatch | None:
    """The standing approval that covers an action whose target was just read; only for its first request."""
    tenant_id = approval.tenant_id
    action, policies = actions.action(tenant_id, approval.action_id), catalogue_queries.active_policies(tenant_id)
    if action is None or found.pointer is None or found.preflight.raises or approval.editor:
        return None
    if action.relation or action.supersedes or not is_first_request(tenant_id, approval):
        return None
    rules = rules_of(policies["approval"])
    session = sessions_queries.session(tenant_id, action.session_id)
    if session is None or rules.standing is None or policies["approval"].digest != approval.policy_digest:
        return None
    demand, payload = reevaluate_policy(action, rules=rules, at=at)
    return find_standing(
        session,
        tool=action.tool,
        contract_digest=contract.digest,
        target=action.target,
        payload=payload,
        goals=(session.goal,),
        demand=demand,
        rules=rules,
        at=at,
    )


def run_preflight(approval: Approval, contract: Contract, taken: TakenReading | None) -> PreflightResult:
    """Check the preflight conditions against the reading, which becomes the baseline; weak readings do not count."""
    known = taken is not None and taken.state.strong
    action = actions.action(approval.tenant_id, approval.action_id)
    assert action is not None
    assert action.payload_pointer is not None
    bindings = {
        "pre": taken.shown if taken is not None and known else {},
        "sr": parse(evidence.open_evidence(approval.tenant_id, action.payload_pointer) or b"{}"),
        "scope": _condition_scope(action),
    }
    judged = preflight.judge_conditions(
        contract.preparation, bindings, known=known, foreign=taken is not None and taken.foreign
    )
    if taken is None or not known:
        return PreflightResult(preflight=judged)
    return PreflightResult(judged, pointer=taken.pointer, digest=taken.state.digest(contract.preparation.volatile))


def _condition_scope(action: Action) -> dict[str, Any]:
    """The scope of the conditions before the action runs; without the idempotency key, which is secret."""
    return {
        "tenant": events.tenant_by_id(action.tenant_id).slug,
        "principal": action.agent,
        "action_id": str(action.id),
        "target": action.target,
        "trace_id": action.trace_id,
    }


def refuse_action(approval: Approval, judged: preflight.Preflight, *, at: datetime) -> None:
    """Fail an action that cannot succeed; its agent is told which condition failed and what was read."""
    void_approval(approval=approval, reason="The preflight showed that the action could not succeed.", at=at)
    more = {"conditions": [each.document() for each in judged.refusals]}
    fail_unexecuted_action(approval, code=REFUSED, reason=judged.message, actor=ledger.SYSTEM, more=more, at=at)


@dataclass(frozen=True, kw_only=True)
class DriftedApproval(RefusalRecord):
    """An approval whose target has changed; `request_again_on_drift` follows."""

    approval_id: UUID


def check_drift(approval: Approval, *, at: datetime) -> None:
    """Refuse an approving vote if the target has materially changed; people must be asked again (B31)."""
    changed = target_drift.drift_since_request(approval)
    if changed is not None and changed.material:
        raise drift.PreconditionDrift(
            errors=[each.document() for each in changed.material],
            records=(DriftedApproval(approval_id=approval.id, at=at),),
        )


def drift_refusal(approval: Approval | None, *, at: datetime) -> drift.PreconditionDrift | None:
    """The refusal of a release whose target has changed; this voids the approval."""
    if approval is None or approval.baseline_pointer is None:
        return None
    return request_again_on_drift(tenant_id=approval.tenant_id, approval_id=approval.id, at=at)


def request_again_on_drift(*, tenant_id: UUID, approval_id: UUID, at: datetime) -> drift.PreconditionDrift | None:
    """Void an approval whose target has changed and request one for the present target; return the refusal.

    Vote, claim and start all come here: drift ends an approval in no other way. If the preflight now shows that the
    action cannot succeed, nobody is asked again.
    """
    state = lock_approval(tenant_id, approval_id).state
    approval = approvals.approval(tenant_id, approval_id)
    assert approval is not None
    changed = target_drift.drift_since_request(approval) if state in ("REQUESTED", "APPROVED") else None
    if changed is None or not changed.material:
        return None
    contract = disclosed_contract(tenant_id, approval.contract_digest)
    found = run_preflight(approval, contract, target_drift.newest_reading(tenant_id, approval.action_id))
    if found.preflight.refusals:
        refuse_action(approval, found.preflight, at=at)
    else:
        void_approval(approval=approval, reason="The target changed since people were asked.", at=at)
        _replace_approval(approval, contract, found, changed, at=at)
    return drift.PreconditionDrift(errors=[each.document() for each in changed.material])


def _replace_approval(
    approval: Approval, contract: Contract, found: PreflightResult, changed: drift.Drift, *, at: datetime
) -> None:
    tenant_id, action_id = approval.tenant_id, approval.action_id
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=action_id, kind="action")
    action = actions.action(tenant_id, action_id)
    assert action is not None
    policies = catalogue_queries.active_policies(tenant_id)
    demand, payload = reevaluate_policy(action, rules=rules_of(policies["approval"]), at=at)
    fresh, rows, requested = request_approval(
        tenant_id=tenant_id,
        action_id=action_id,
        requester=approval.requester,
        contract=contract,
        version=policies["approval"],
        payload=payload,
        demand=demand,
        editor=approval.editor,
        at=at,
        found=found,
    )
    defer(insert_call(*rows))
    void_grants(tenant_id=tenant_id, action_id=action_id, at=at)
    event = ledger.NewEvent(
        kind="approval_asked_again",
        changes={
            "policy_context": policy_context(policies[kind] for kind in _POLICY_KINDS),
            "approval": approval_block(fresh),
        },
        detail={
            "code": drift.PreconditionDrift.code,
            "approval_id": str(fresh.id),
            "instead_of": str(approval.id),
            "changed": [each.document() for each in changed.differences],
        },
        digests={kind: policies[kind].digest for kind in _POLICY_KINDS},
        view={"approval_id": str(fresh.id)},
    )
    ledger.write_events(*requested, ledger.draft_event(head, event, actor=ledger.SYSTEM, at=at))
