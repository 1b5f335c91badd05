"""Target drift: compares the baseline of an approval with the newest reading (B31).

`reviews` takes the readings; they arrive as events of the action: `reading_wanted` requests one, `reading_taken`
carries the sealed reading. An approval names the reading that is its baseline; that never changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson

from approvals.models import Approval, Deadline
from approvals.requests.operations.requests import LIVE, lock_approval, request_again, reserve_key
from approvals.requests.queries import approvals
from approvals.requests.rules import drift
from approvals.sessions.queries import disclosed_contract
from approvals.voting.operations import decision, eligibility
from approvals.voting.operations.approvers import LOOK
from ledger.actions.queries import actions
from ledger.actions.queries import readings as readings_read
from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.rules.contract import Contract
from ledger.record import operations as ledger
from ledger.record.queries import events, evidence
from ledger.record.rules.encryption import CannotOpen
from ledger.record.rules.entry import Entry
from ledger.record.rules.target_readings import TargetReading

# A page that is opened again within this time shows the reading that it requested before.
SEEN_FOR = timedelta(seconds=20)


@dataclass(frozen=True, kw_only=True)
class TakenReading:
    """A reading of an action's target: its pointer, the state that it shows, and `pre` as displayed."""

    pointer: UUID
    at: datetime
    state: drift.TargetState
    shown: Mapping[str, Any]
    foreign: bool


def newest_reading(tenant_id: UUID, action_id: UUID) -> TakenReading | None:
    """The newest reading of an action's target; None if none was taken, or it was erased."""
    readings = readings_read.readings(tenant_id, action_id)
    taken = [(at, detail) for kind, at, detail in readings if kind == "reading_taken"]
    return _open_reading(tenant_id, UUID(taken[-1][1]["pointer"]), taken[-1][0]) if taken else None


def baseline_of(approval: Approval) -> TakenReading | None:
    """The reading that is the baseline of an approval."""
    if approval.baseline_pointer is None:
        return None
    return _open_reading(approval.tenant_id, approval.baseline_pointer, approval.requested_at)


def _open_reading(tenant_id: UUID, pointer: UUID, at: datetime) -> TakenReading | None:
    try:
        data = evidence.open_evidence(tenant_id, pointer)
    except CannotOpen:
        return None
    if data is None:
        return None
    document = orjson.loads(data)
    return TakenReading(
        pointer=pointer,
        at=at,
        state=drift.state_of(document),
        shown=document.get("shown", {}),
        foreign="wrong_tenant" in document.get("indicators", ()),
    )


def drift_since_request(approval: Approval) -> drift.Drift | None:
    """The drift of the newest reading since approval was requested; None if there is nothing to compare.

    Only strong readings count: a replica may lag behind.
    """
    if approval.baseline_pointer is None:
        return None
    now = newest_reading(approval.tenant_id, approval.action_id)
    if now is None or now.pointer == approval.baseline_pointer or not now.state.strong:
        return None
    then = baseline_of(approval)
    if then is None:
        return None
    return drift.compare(then.state, now.state, volatile=_approval_contract(approval).preparation.volatile)


def request_reading(*, approval: Approval, by: ledger.Actor, at: datetime) -> bool:
    """Request a reading because a reviewer opened the approval; return True if one was requested."""
    if approval.state != "REQUESTED" or not can_show_target(approval):
        return False
    asked = readings_read.readings(approval.tenant_id, approval.action_id)
    if asked and (asked[-1][0] == "reading_wanted" or at - asked[-1][1] < SEEN_FOR):
        return False
    head = ledger.lock_subject(tenant_id=approval.tenant_id, subject_id=approval.action_id, kind="action")
    if head.state != "VALIDATED":
        return False
    reserve_key(head, at=at)
    detail = {"for": "drift", "approval_id": str(approval.id)}
    ledger.append(head, ledger.NewEvent(kind="reading_wanted", detail=detail), actor=by, at=at)
    return True


def can_show_target(approval: Approval, entry: Entry | None = None) -> bool:
    """Return whether the contract's check can read the target for display.

    Its lookup must name the target, or an effect that must be absent afterwards.
    """
    verification = _approval_contract(approval).verification
    if verification is None:
        return False
    effects = verification.lookup.get("effects", {})
    lookups = effects.values() if isinstance(effects, Mapping) else ()
    is_readable = "target" in verification.lookup or any(
        isinstance(each, Mapping) and each.get("expect") == "absent" for each in lookups
    )
    return is_readable or needs_reading(approval, entry)


def is_unread(approval: Approval, target: TargetReading, entry: Entry | None = None) -> bool:
    """Return whether the target could be read and has not been, so that approving takes an acknowledgement.

    Pass the action's present `entry` where it was just read.
    """
    return not target.is_read and can_show_target(approval, entry)


def needs_reading(approval: Approval, entry: Entry | None = None) -> bool:
    """Return whether an approval depends on the state of its target."""
    if approval.baseline_pointer is not None:
        return True
    return drift.wants_baseline(_approval_contract(approval), _expected_predicates(approval, entry))


def _expected_predicates(approval: Approval, entry: Entry | None) -> list[str]:
    if entry is None:
        action = actions.action(approval.tenant_id, approval.action_id)
        entry = events.entry(approval.tenant_id, action.id, action.seq) if action else None
    return list(entry["intended_outcome"]["expected_predicates"]) if entry else []


def _approval_contract(approval: Approval) -> Contract:
    return disclosed_contract(approval.tenant_id, approval.contract_digest)


def recheck(*, tenant_id: UUID, subject_id: UUID, at: datetime) -> None:
    """Recheck one approval, or schedule the recheck of all open approvals of a tenant, after a change of policy or
    people.

    1. A changed policy voids every open approval that was requested under another one. Its `on_change` then decides
       whether it is requested again (revalidate) or ended with its action (void) (B17, R-AP-09).
    2. After a change of people (a member, a group, a key, a delegation) the votes of each open approval are counted
       again. A granted one that no longer has enough votes is requested again or ended; a waiting one keeps the votes
       that still count.
    3. An approval with too few eligible people left is not refused: it is recorded as `no_eligible_approver` and shown
       as such until somebody may decide it again.

    Rechecks are deadline rows written in the transaction of the change, so a crash loses none. Safety does not depend
    on them: votes, claims and starts check for themselves.
    """
    Deadline.objects.filter(tenant_id=tenant_id, subject_id=subject_id, what=LOOK).delete()
    approval = approvals.approval(tenant_id, subject_id)
    if approval is None:
        rows = (
            Deadline(tenant_id=tenant_id, subject_id=each, what=LOOK, due_at=at)
            for each in approvals.open_approvals(tenant_id)
        )
        Deadline.objects.bulk_create(
            rows,
            update_conflicts=True,
            unique_fields=["tenant_id", "subject_id", "what"],
            update_fields=["due_at"],
            batch_size=1000,
        )
    elif approval.state in LIVE and not recheck_policy(approval, at=at):
        recheck_votes(approval, at=at)


def recheck_policy(approval: Approval, *, at: datetime) -> bool:
    """Request an open approval again if another policy is in force now; return whether it was (rule 1 of `recheck`)."""
    if approval.policy_digest == catalogue_queries.digest_in_force(approval.tenant_id, "approval"):
        return False
    _request_again(approval, "The policy changed.", at=at)
    return True


def _request_again(approval: Approval, why: str, *, at: datetime) -> None:
    head = ledger.lock_subject(tenant_id=approval.tenant_id, subject_id=approval.action_id, kind="action")
    action = actions.action(approval.tenant_id, approval.action_id)
    # The action may have started meanwhile, or have another approval.
    if head.state == "VALIDATED" and action is not None and action.approval_id == approval.id:
        request_again(head=head, action=action, why=why, at=at)


def recheck_votes(approval: Approval, *, at: datetime) -> None:
    """Count the votes of an open approval again with the current roster (rules 2 and 3)."""
    head = lock_approval(approval.tenant_id, approval.id)
    if head.state == "REQUESTED":
        note_stranded(head, approval, at=at)
    elif head.state == "APPROVED":
        refusal = decision.votes_refusal(approval, at=at)
        if refusal is not None:
            _request_again(approval, refusal.detail, at=at)


def note_stranded(head: ledger.SubjectHead, approval: Approval, *, at: datetime) -> None:
    """Record when no reviewer is eligible, and when one is again; once per change (rule 3)."""
    seen = eligibility.voting_status(approval, at=at)
    if seen.stranded == (approval.stranded_at is not None):
        return
    kind = "no_eligible_approver" if seen.stranded else "eligible_approver_found"
    detail = {
        "missing": seen.tally.missing,
        "may_vote": len(seen.may_vote),
        "away": sum(place.away for place in seen.may_vote),
        "barred": len(seen.barred),
    }
    ledger.append(head, ledger.NewEvent(kind=kind, detail=detail), actor=ledger.SYSTEM, at=at)
    approval.stranded_at = at if seen.stranded else None
    Approval.objects.filter(tenant_id=approval.tenant_id, id=approval.id).update(stranded_at=approval.stranded_at)
