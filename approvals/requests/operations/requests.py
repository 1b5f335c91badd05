"""Requests for approval: creates, renews, voids and expires them.

An approval is permission and no more (R-AP-19): nothing here changes what is known about the action, except that a
rejected or expired one fails without having run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models import Model

from approvals.execution.queries import is_unverifiable
from approvals.models import Approval, Deadline, Grant
from approvals.policy.operations.policy_evaluation import reevaluate_policy, rules_of
from approvals.policy.rules import allowed_hours, policy
from approvals.policy.rules.policy import PolicyDecision
from approvals.requests.operations import clocks
from approvals.requests.queries import approvals, deadlines
from approvals.requests.rules import clocks as clocks_rules
from approvals.requests.rules import drift, rendering
from approvals.requests.rules.preflight import Preflight
from approvals.sessions.queries import disclosed_contract
from approvals.standing.operations.passing import StandingMatch, use_standing
from approvals.voting.operations.approvers import LOOK
from approvals.voting.rules import quorum
from approvals.voting.rules.quorum import Risk
from ledger.actions.queries import actions, runs
from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.rules.contract import Contract
from ledger.catalogue.rules.policies import policy_context
from ledger.db import RawCall, defer, insert, insert_call
from ledger.record import operations as ledger
from ledger.record.rules.canonical import digest, parse
from ledger.record.rules.encryption import CannotOpen
from ledger.record.rules.envelope import instant
from ledger.record.rules.refusals import NotFound

if TYPE_CHECKING:
    from ledger.models import Action, PolicyVersion

DEFERRED = "RT-18 DEFER_OR_FAIL_CLEANLY"
FIRST_LOOK = timedelta(seconds=10)
_REQUEST_EVENTS = {
    "PREPARING": "approval_preparing",
    "REQUESTED": "approval_requested",
    "APPROVED": "standing_approval_passed",
}
LIVE = ("PREPARING", "REQUESTED", "APPROVED")
# The event of an action that ends without having run, by the code that its agent gets.
_FAILURE_EVENTS = {
    "REJECTED": "rejected",
    "CHANGES_REQUESTED": "changes_requested",
    "APPROVAL_EXPIRED": "approval_expired",
    "APPROVAL_VOIDED": "approval_voided",
    "AGENT_REVOKED": "cancelled",
    "TOOL_WITHDRAWN": "cancelled",
    "OUTSIDE_AUTONOMY": "outside_autonomy",
    "PREFLIGHT_REFUSED": "preflight_refused",
    "PROVIDER_OUTAGE": "provider_outage",
    "SUPERSEDED": "superseded",
    CannotOpen.code: "cancelled",
}


@dataclass(frozen=True)
class PreflightResult:
    """The result of a preflight; `pointer` names the reading that is the baseline."""

    preflight: Preflight
    pointer: UUID | None = None
    digest: str = ""


def request_approval(
    *,
    tenant_id: UUID,
    action_id: UUID,
    requester: UUID,
    contract: Contract,
    version: PolicyVersion,
    payload: bytes,
    demand: PolicyDecision,
    at: datetime,
    prepare: bool = False,
    found: PreflightResult | None = None,
    editor: UUID | None = None,
    match: StandingMatch | None = None,
) -> tuple[Approval, list[Model], list[ledger.EventDraft]]:
    """Request approval of an action that was just validated; this fixes what reviewers will be shown.

    Where its target must be read first (`prepare`), nobody is asked yet. Where a standing approval covers it (`match`),
    nobody is asked at all. The caller inserts the rows, of which the approval is the first, and writes the events.
    """
    ready_by = at + timedelta(seconds=contract.preparation.within_s if prepare else 0)
    approval = Approval(
        tenant_id=tenant_id,
        id=ledger.new_id(at),
        action_id=action_id,
        state="PREPARING" if prepare else "REQUESTED",
        payload_hash=digest(payload),
        rendering_digest=rendering.rendering_digest(rendering.render_payload(parse(payload))),
        contract_digest=contract.digest,
        policy_digest=version.digest,
        policy_version=version.version,
        policy_row=", ".join(demand.reasons or ("POLICY_CHANGED",))[:200],
        step_up=demand.terms.step_up,
        terms=demand.terms.document(),
        risk=demand.risk,
        requester=requester,
        editor=editor,
        requested_at=at,
        decide_by=ready_by + timedelta(seconds=demand.terms.decide_within_s),
    )
    _apply_preflight(approval, found, rules_of(version))
    if match is not None:
        _approve_by_standing(approval, match, at=at)
        requested = [_draft_request(approval, found, match=match, at=at), *use_standing(match, approval, at=at)]
        return approval, [approval, _release_deadline_row(approval)], requested
    due = [Deadline(tenant_id=tenant_id, subject_id=approval.id, what="prepare", due_at=ready_by)]
    rows = due if prepare else _deadline_rows(approval, rules_of(version), at=at)
    return approval, [approval, *rows], [_draft_request(approval, found, at=at)]


def _approve_by_standing(approval: Approval, match: StandingMatch, *, at: datetime) -> None:
    terms = quorum.read_terms(approval.terms)
    approval.state, approval.standing_id, approval.decided_at = "APPROVED", match.row.id, at
    approval.release_by = release_deadline(terms, decided_at=at)


def _release_deadline_row(approval: Approval) -> Deadline:
    assert approval.release_by is not None
    return Deadline(tenant_id=approval.tenant_id, subject_id=approval.id, what="approval", due_at=approval.release_by)


def release_deadline(terms: quorum.ApprovalTerms, *, decided_at: datetime) -> datetime:
    """The time at which an approval stops authorising a start (R-AP-08), counted from the first possible release."""
    first = allowed_hours.next_opening(terms.hours, at=decided_at) or decided_at
    return first + timedelta(seconds=terms.release_within_s)


def draft_grant(
    head: ledger.SubjectHead, approval: Approval, match: StandingMatch, *, at: datetime
) -> ledger.EventDraft:
    """The event of an action that a standing approval covers."""
    assert approval.release_by is not None
    detail = {
        "approval_id": str(approval.id),
        "release_by": instant(approval.release_by),
        **match.detail,
    }
    event = ledger.NewEvent(kind="approval_granted", changes={"approval": approval_block(approval)}, detail=detail)
    return ledger.draft_event(head, event, actor=ledger.SYSTEM, at=at)


def _deadline_rows(approval: Approval, rules: policy.ApprovalPolicy, *, at: datetime) -> list[Deadline]:
    """The deadline rows of a request that starts now."""
    return [
        first_recheck(approval, at=at),
        *clocks.due_rows(approval, clocks_rules.make_schedule(rules, approval.terms), at=at),
    ]


def request_after_preflight(
    head: ledger.SubjectHead,
    approval: Approval,
    found: PreflightResult,
    *,
    match: StandingMatch | None = None,
    at: datetime,
) -> None:
    """Request approval after the target was read or did not answer in time; no approval is requested if `match` covers
    it.
    """
    approval.state = "REQUESTED"
    version = catalogue_queries.policy_version(approval.tenant_id, "approval", approval.policy_version)
    assert version is not None
    changes = _apply_preflight(approval, found, rules_of(version))
    if match is not None:
        _approve_by_standing(approval, match, at=at)
        action = ledger.lock_subject(tenant_id=approval.tenant_id, subject_id=approval.action_id, kind="action")
        passed = _draft_request(approval, found, match=match, head=head, at=at)
        ledger.write_events(passed, *use_standing(match, approval, at=at), draft_grant(action, approval, match, at=at))
        changes |= {name: getattr(approval, name) for name in ("state", "standing_id", "decided_at", "release_by")}
        Approval.objects.filter(tenant_id=approval.tenant_id, id=approval.id).update(**changes)
        Deadline.objects.filter(tenant_id=approval.tenant_id, subject_id=approval.id).delete()
        insert(_release_deadline_row(approval))
        return
    ledger.write_events(_draft_request(approval, found, head=head, at=at))
    Approval.objects.filter(tenant_id=approval.tenant_id, id=approval.id).update(state="REQUESTED", **changes)
    Deadline.objects.filter(tenant_id=approval.tenant_id, subject_id=approval.id).delete()
    insert(first_recheck(approval, at=at), *clocks.due_rows(approval, deadlines.schedule_of(approval), at=at))


def first_recheck(approval: Approval, *, at: datetime) -> Deadline:
    """The first check whether anybody could decide."""
    return Deadline(tenant_id=approval.tenant_id, subject_id=approval.id, what=LOOK, due_at=at + FIRST_LOOK)


def needs_preflight_reading(contract: Contract, predicates: Iterable[str]) -> bool:
    """Return True if the target is read before people are asked."""
    return contract.verifiable and drift.wants_baseline(contract, predicates)


def draft_reading_request(
    head: ledger.SubjectHead, approval: Approval, contract: Contract, *, at: datetime
) -> ledger.EventDraft:
    """The action's event that requests the reading which its approval waits for."""
    reserve_key(head, at=at)
    what = "preflight" if contract.preparation.preflight else "baseline"
    detail = {"for": what, "approval_id": str(approval.id)}
    return ledger.draft_event(head, ledger.NewEvent(kind="reading_wanted", detail=detail), actor=ledger.SYSTEM, at=at)


def reserve_key(head: ledger.SubjectHead, *, at: datetime) -> None:
    """Create the idempotency key before a reading, so that the lookups before and after the action are the same."""
    assert head.entry is not None
    if "idempotency" in head.entry and actions.idempotency(head.tenant_id, head.id) is None:
        request_hash = head.entry["idempotency"]["request_hash"]
        insert(ledger.make_idempotency(tenant_id=head.tenant_id, action_id=head.id, request_hash=request_hash))


def _apply_preflight(approval: Approval, found: PreflightResult | None, rules: policy.ApprovalPolicy) -> dict[str, Any]:
    """Store the result of a preflight on the approval; a higher risk also raises the step-up."""
    if found is None:
        return {}
    changes: dict[str, Any] = {
        "baseline_digest": found.digest,
        "baseline_pointer": found.pointer,
        "preflight_digest": found.preflight.digest,
    }
    if found.preflight.raises:
        terms = policy.raise_terms(rules, quorum.read_terms(approval.terms), Risk.HIGH)
        changes |= {"risk": Risk.HIGH, "terms": terms.document(), "step_up": terms.step_up}
    for name, value in changes.items():
        setattr(approval, name, value)
    return changes


def _draft_request(
    approval: Approval,
    found: PreflightResult | None,
    *,
    at: datetime,
    match: StandingMatch | None = None,
    head: ledger.SubjectHead | None = None,
) -> ledger.EventDraft:
    detail: dict[str, Any] = {
        "action_id": str(approval.action_id),
        "payload_hash": approval.payload_hash,
        "rendering_digest": approval.rendering_digest,
        "decide_by": instant(approval.decide_by),
        "rules": approval.policy_row.split(", "),
        "risk": str(approval.risk),
        "terms": approval.terms,
        "step_up": approval.step_up,
        "policy_version": approval.policy_version,
        "requester": str(approval.requester),
        "editor": str(approval.editor) if approval.editor else None,
    }
    if match is not None and approval.release_by is not None:
        detail |= {"release_by": instant(approval.release_by), **match.detail}
    if found is not None:
        detail["before"] = {
            "baseline": str(found.pointer) if found.pointer else None,
            "baseline_digest": found.digest,
            "preflight_digest": found.preflight.digest,
            "preflight": [each.document() for each in found.preflight.judged],
            "touches": found.preflight.touches,
            "raises": list(found.preflight.raises),
        }
    return ledger.draft_event(
        head or ledger.SubjectHead(tenant_id=approval.tenant_id, id=approval.id, kind="approval"),
        ledger.NewEvent(
            kind=_REQUEST_EVENTS[approval.state],
            to=approval.state,
            detail=detail,
            digests={"contract": approval.contract_digest, "approval": approval.policy_digest},
        ),
        actor=ledger.SYSTEM,
        at=at,
    )


def approval_block(
    approval: Approval, *, approver: UUID | None = None, approvers: Iterable[UUID] = ()
) -> dict[str, Any]:
    """The approval block of an entry (R-AP-13); it names everyone whose vote decided."""
    named = [*approvers] or ([approver] if approver else [])
    return {
        "required": True,
        "approval_id": str(approval.id),
        "approver_id": ", ".join(str(each) for each in named) or None,
        "payload_hash": approval.payload_hash,
        "expires_at": instant(approval.release_by or approval.decide_by),
    }


# The action first: every operation that touches both locks them in this order, and the parts of a UNION ALL run in
# order.
_LOCK_WITH_ACTION = b"""
SELECT p.action_id, 'action', l.state, l.seq, l.head, l.entry
    FROM approvals_approval p, ledger_lock($1, p.action_id, 'action') l WHERE p.tenant_id = $1 AND p.id = $2
UNION ALL SELECT $2::uuid, 'approval', l.state, l.seq, l.head, l.entry FROM ledger_lock($1, $2, 'approval') l
"""


def lock_with_action(
    tenant_id: UUID, approval_id: UUID, *reads: tuple[Any, ...]
) -> tuple[ledger.SubjectHead, ledger.SubjectHead, list[list[tuple[Any, ...]]]]:
    """Lock the action of an approval and the approval, and run these statements after the locks, in one message."""
    lock = RawCall(_LOCK_WITH_ACTION, (approval_id.bytes,))
    heads, found = ledger.lock_subjects(*reads, tenant_id=tenant_id, locks=[lock])
    if len(heads) != 2:
        raise NotFound("Approval")
    return heads[0], heads[1], found


def lock_approval(tenant_id: UUID, approval_id: UUID) -> ledger.SubjectHead:
    """Lock an approval, after its action."""
    return lock_with_action(tenant_id, approval_id)[1]


def fail_unexecuted_action(
    approval: Approval,
    *,
    code: str,
    reason: str,
    actor: ledger.Actor,
    at: datetime,
    decision: str = "",
    more: Mapping[str, Any] | None = None,
) -> None:
    """Fail an action that has not run (R-AP-10); `decision` names the recovery row that ends it, if one does.

    `more` is added to what its agent is told.
    """
    head = ledger.lock_subject(tenant_id=approval.tenant_id, subject_id=approval.action_id, kind="action")
    told = {"approval_id": str(approval.id), **(more or {})}
    _fail_unexecuted(head, code=code, reason=reason, actor=actor, decision=decision, more=told, at=at)


def end_unexecuted_action(head: ledger.SubjectHead, action: Action, *, code: str, reason: str, at: datetime) -> None:
    """Fail a locked action that may no longer run, with or without an approval."""
    told = {"approval_id": str(action.approval_id)} if action.approval_id else {}
    _fail_unexecuted(head, code=code, reason=reason, actor=ledger.SYSTEM, decision="", more=told, at=at)


def end_unreadable_action(head: ledger.SubjectHead, action: Action, approval: Approval | None, *, at: datetime) -> None:
    """End a locked action that has not started and whose payload cannot be opened, with its approval."""
    if approval is not None and approval.state in LIVE:
        void_approval(approval=approval, reason="The payload cannot be opened.", at=at)
    again = " again" if action.attempt_count else ""
    reason = (
        f"The stored payload cannot be opened: its key is gone, or its bytes were altered. This had not started{again},"
        " and will not. Propose it again."
    )
    end_unexecuted_action(head, action, code=CannotOpen.code, reason=reason, at=at)


def _fail_unexecuted(
    head: ledger.SubjectHead,
    *,
    code: str,
    reason: str,
    actor: ledger.Actor,
    decision: str,
    more: Mapping[str, Any],
    at: datetime,
) -> None:
    if head.state != "VALIDATED":
        return
    void_grants(tenant_id=head.tenant_id, action_id=head.id, at=at)
    ledger.append(
        head,
        ledger.NewEvent(
            kind=_FAILURE_EVENTS[code],
            to="FAILED",
            changes={
                "verification": {"status": "NOT_REQUIRED"},
                **({"reconciliation": {"recovery_decision": decision}} if decision else {}),
            },
            detail={"code": code, "reason": reason, **more},
            view={"recovery_row": decision.partition(" ")[0]} if decision else {},
        ),
        actor=actor,
        at=at,
    )


def void_grants(*, tenant_id: UUID, action_id: UUID, at: datetime) -> int:
    """End every unspent grant of an action and return their number."""
    return Grant.objects.filter(
        tenant_id=tenant_id, action_id=action_id, consumed_at__isnull=True, voided_at__isnull=True
    ).update(voided_at=at)


def expire_approval(*, tenant_id: UUID, approval_id: UUID, unverifiable: Collection[str] = (), at: datetime) -> None:
    """Expire an approval and fail its action; one whose deadline moved is checked again later.

    An approved action that waited for a system which could not be verified fails cleanly: nothing was executed (RT-18).
    """
    head = lock_approval(tenant_id, approval_id)
    approval = approvals.approval(tenant_id, approval_id)
    assert approval is not None
    if head.state not in ("REQUESTED", "APPROVED"):
        Deadline.objects.filter(tenant_id=tenant_id, subject_id=approval_id, what="approval").delete()
        return
    head, clock = clocks.settle_clock(head, approval, at=at)
    if clock is not None and clock.stopped_at is not None:
        Deadline.objects.filter(tenant_id=tenant_id, subject_id=approval_id, what="approval").update(
            due_at=at + clocks.AGAIN
        )
        return
    ends_at = approval.release_by or approval.decide_by
    if ends_at > at:
        Deadline.objects.filter(tenant_id=tenant_id, subject_id=approval_id, what="approval").update(due_at=ends_at)
        return
    ledger.append(head, ledger.NewEvent(kind="approval_expired", to="EXPIRED"), actor=ledger.SYSTEM, at=at)
    Approval.objects.filter(tenant_id=tenant_id, id=approval_id).update(state="EXPIRED")
    Deadline.objects.filter(tenant_id=tenant_id, subject_id=approval_id, what="approval").delete()
    action = actions.action(tenant_id, approval.action_id)
    if head.state == "APPROVED" and action is not None and is_unverifiable(action, unverifiable):
        what = "It was approved, but the system that would have to tell its outcome did not answer in time."
        fail_unexecuted_action(
            approval, code="PROVIDER_OUTAGE", reason=what, decision=DEFERRED, actor=ledger.SYSTEM, at=at
        )
        return
    what = "Nobody decided in time." if head.state == "REQUESTED" else "It was approved, but not started in time."
    fail_unexecuted_action(approval, code="APPROVAL_EXPIRED", reason=what, actor=ledger.SYSTEM, at=at)


def void_approval(*, approval: Approval, reason: str, kind: str = "approval_voided", at: datetime) -> None:
    """Void an approval, which no longer authorises anything. `kind` is that of its event."""
    head = ledger.lock_subject(tenant_id=approval.tenant_id, subject_id=approval.id, kind="approval")
    if head.state not in LIVE:
        return
    ledger.append(
        head,
        ledger.NewEvent(kind=kind, to="VOIDED", detail={"reason": reason}),
        actor=ledger.SYSTEM,
        at=at,
    )
    Approval.objects.filter(tenant_id=approval.tenant_id, id=approval.id).update(state="VOIDED")
    Deadline.objects.filter(
        tenant_id=approval.tenant_id, subject_id=approval.id, what__in=["approval", "prepare"]
    ).delete()


def renew_approval(*, tenant_id: UUID, action_id: UUID, at: datetime) -> bool:
    """Request a new approval for an action that may be tried again: the attempt before consumed the old one (D8).

    After a crash before the commit, the next tick requests it.
    """
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=action_id, kind="action")
    action = actions.action(tenant_id, action_id)
    approval = approvals.approval(tenant_id, action.approval_id) if action and action.approval_id else None
    if approval is None or head.state != "VALIDATED" or approval.state != "CONSUMED":
        return False
    assert action is not None
    request_again(head=head, action=action, at=at, row="RT-33", said="REFRESH_AND_RETRY")
    return True


def request_again(
    *,
    head: ledger.SubjectHead,
    action: Action,
    at: datetime,
    row: str = "RT-20",
    said: str = "REVALIDATE_APPROVAL",
    why: str = "The policy changed.",
) -> None:
    """Void the old approval, if it is live, and request another where the policy in force requires one (RT-20).

    A policy whose `on_change` is void fails the action instead, as does one that refuses it now; the agent is told why.
    """
    policies = catalogue_queries.active_policies(action.tenant_id)
    before = approvals.approval(action.tenant_id, action.approval_id) if action.approval_id else None
    live = before is not None and before.state != "CONSUMED"
    if before is not None and live:
        void_approval(approval=before, reason=why, at=at)
    demand, payload = reevaluate_policy(action, rules=rules_of(policies["approval"]), at=at)
    if demand.outcome == "refuse":
        end_unexecuted_action(head, action, code="OUTSIDE_AUTONOMY", reason=demand.refusal, at=at)
    elif before is not None and live and quorum.read_terms(before.terms).on_change == "void":
        end_unexecuted_action(head, action, code="APPROVAL_VOIDED", reason=f"{why} Propose the action again.", at=at)
    elif before is None and demand.outcome == "auto":
        _record_revalidation(head, None, policies, row=row, said=said, at=at)
    else:
        _replace_approval(head, action, before, demand, payload, policies, row=row, said=said, at=at)


def _replace_approval(
    head: ledger.SubjectHead,
    action: Action,
    before: Approval | None,
    demand: PolicyDecision,
    payload: bytes,
    policies: Mapping[str, Any],
    *,
    row: str,
    said: str,
    at: datetime,
) -> None:
    contract = disclosed_contract(action.tenant_id, action.contract_digest)
    assert head.entry is not None
    prepare = needs_preflight_reading(contract, head.entry["intended_outcome"]["expected_predicates"])
    fresh, rows, requested = request_approval(
        tenant_id=action.tenant_id,
        action_id=action.id,
        requester=before.requester if before else _requester(action),
        contract=contract,
        version=policies["approval"],
        payload=payload,
        demand=demand,
        editor=before.editor if before else None,
        at=at,
        prepare=prepare,
    )
    defer(insert_call(*rows))
    ledger.write_events(*requested)
    asked = _record_revalidation(head, fresh, policies, row=row, said=said, at=at)
    if prepare:
        ledger.write_events(draft_reading_request(asked, fresh, contract, at=at))


def _record_revalidation(
    head: ledger.SubjectHead, fresh: Approval | None, policies: Mapping[str, Any], *, row: str, said: str, at: datetime
) -> ledger.SubjectHead:
    asked_again = {kind: each for kind, each in policies.items() if kind != "autonomy"}
    return ledger.append(
        head,
        ledger.NewEvent(
            kind="approval_revalidated",
            changes={
                "policy_context": policy_context(asked_again.values()),
                "reconciliation": {"recovery_decision": f"{row} {said}"},
                **({"approval": approval_block(fresh)} if fresh else {}),
            },
            detail={"recovery_row": row},
            digests={kind: each.digest for kind, each in asked_again.items()},
            view={"recovery_row": row, **({"approval_id": str(fresh.id)} if fresh else {})},
        ),
        actor=ledger.SYSTEM,
        at=at,
    )


def _requester(action: Action) -> UUID:
    """The requester of an action: its agent, or the person who ordered a recovery action."""
    if action.ordered_by is None or action.parent_id is None:
        return UUID(str(action.agent_actor))
    return UUID(runs.order_details(action.tenant_id, action.parent_id)[action.ordered_by]["requester"])
