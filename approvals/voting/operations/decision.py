"""Applies votes: grants the approval, rejects it and fails its action, or leaves it waiting for more votes.

The terms are those of the request; whose votes count is looked up again (`approvals.voting.operations.eligibility`).
Votes are applied one at a time under the approval's lock, so of two that would decide differently the first wins (B21).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Model

from approvals.models import Approval, Deadline, Vote
from approvals.requests.operations.requests import approval_block, fail_unexecuted_action, release_deadline
from approvals.standing import queries
from approvals.standing.rules import standing
from approvals.voting.operations import break_glass, eligibility
from approvals.voting.operations.eligibility import EligibilityContext, VotingStatus
from approvals.voting.rules import binding, quorum
from approvals.voting.rules.quorum import VoteTally
from ledger.db import defer, execute, insert_call
from ledger.record import operations as ledger
from ledger.record.rules.envelope import instant
from ledger.record.rules.refusals import Refused

_DECIDED_STATES = {"approved": "APPROVED", "rejected": "REJECTED"}
_REJECTION_KINDS = {"REJECTED": "rejected", "CHANGES_REQUESTED": "changes_requested"}


class VotesFallen(Refused):
    """A vote that this relies on no longer counts; a new approval is needed."""

    code = "VOTES_FALLEN"


class StandingApprovalStopped(VotesFallen):
    """The standing approval that covered this was paused or ended; approval is needed."""

    code = "STANDING_APPROVAL_STOPPED"


def apply_vote(
    heads: tuple[ledger.SubjectHead, ledger.SubjectHead],
    approval: Approval,
    row: Vote,
    *,
    stored: Sequence[Model],
    evidence: tuple[ledger.SealedEvidence, ...],
    detail: Mapping[str, Any],
    context: EligibilityContext,
    at: datetime,
) -> None:
    """Record a vote with its statement and proof, and carry out its result.

    `heads` are those of the action and the approval, both locked; `context` already contains the vote. `stored` are the
    rows of the vote and its evidence, which are inserted together with what it decides.
    """
    action_head, head = heads
    if row.verdict == binding.VoteChoice.BREAK_GLASS:
        defer(insert_call(*stored))
        break_glass.use_break_glass(head, approval, row, evidence=evidence, detail=detail, at=at)
        return
    seen = eligibility.voting_status(approval, context=context, at=at)
    tally = seen.tally
    actor = ledger.Actor("person", row.voter)
    voted = ledger.draft_event(
        head,
        ledger.NewEvent(
            kind=_event_kind(tally),
            to=_DECIDED_STATES.get(tally.state),
            detail=_vote_detail(row, seen, at=at) | dict(detail),
            evidence=evidence,
        ),
        actor=actor,
        at=at,
    )
    if tally.state == "approved":
        granted = _draft_grant(action_head, approval, row, seen, actor, at=at)
        # With COMMIT. The lock was held when the votes before it were read, so this one is the voter's first.
        defer(_close_call(approval, "APPROVED", *stored, at=at), ledger.events_call(voted, granted))
        return
    defer(insert_call(*stored))
    ledger.write_events(voted)
    head = voted.head
    if tally.state == "rejected":
        _reject_approval(approval, row, tally, actor, at=at)
    else:
        _record_met_thresholds(head, row, seen, at=at)


def votes_refusal(approval: Approval, *, at: datetime, context: EligibilityContext | None = None) -> VotesFallen | None:
    """The refusal of a granted approval whose votes, or whose standing approval, no longer count, or None (B18).

    Pass `context` where it was just read.
    """
    if approval.standing_id is not None:
        standing_approval = queries.standing_approval(approval.tenant_id, approval.standing_id)
        if standing_approval is None or not standing.authorises_start(
            standing_approval.state,
            standing_approval.ended_because,
            starts_before=standing_approval.ends_at if standing_approval.is_time_boxed else None,
            at=at,
        ):
            return StandingApprovalStopped()
    votes_count = not approval.emergency and approval.standing_id is None
    if votes_count and eligibility.voting_status(approval, at=at, context=context).tally.state != "approved":
        return VotesFallen()
    return None


def _event_kind(tally: VoteTally) -> str:
    return {"approved": "approved", "rejected": _REJECTION_KINDS.get(tally.code, "rejected")}.get(
        tally.state, "vote_cast"
    )


def _vote_detail(row: Vote, status: VotingStatus, *, at: datetime) -> dict[str, Any]:
    tally = status.tally
    detail: dict[str, Any] = {"verdict": row.verdict, "groups": list(row.groups)}
    if row.delegated_by is not None:
        detail["delegated_by"] = str(row.delegated_by)
    if tally.state == "open":
        return detail | {"missing": tally.missing}
    detail["deciding"] = [each.voter for each in tally.deciding]
    if tally.state == "approved":
        detail["release_by"] = instant(release_deadline(status.terms, decided_at=at))
    return detail


def _draft_grant(
    action_head: ledger.SubjectHead,
    approval: Approval,
    row: Vote,
    status: VotingStatus,
    actor: ledger.Actor,
    *,
    at: datetime,
) -> ledger.EventDraft:
    approval.release_by = release_deadline(status.terms, decided_at=at)
    deciding = [UUID(each.voter) for each in status.tally.deciding]
    return ledger.draft_event(
        action_head,
        ledger.NewEvent(
            kind="approval_granted",
            changes={"approval": approval_block(approval, approvers=deciding)},
            detail={
                "approval_id": str(approval.id),
                "statement_hash": row.statement_hash,
                "statements": [each.statement_hash for each in status.votes if each.voter in deciding],
                "release_by": instant(approval.release_by),
            },
        ),
        actor=actor,
        at=at,
    )


def _reject_approval(approval: Approval, row: Vote, tally: VoteTally, actor: ledger.Actor, *, at: datetime) -> None:
    execute(*_close_call(approval, "REJECTED", at=at))
    Deadline.objects.filter(tenant_id=approval.tenant_id, subject_id=approval.id, what="approval").delete()
    fail_unexecuted_action(approval, code=tally.code, reason=row.reason, actor=actor, at=at)


_CLOSE_APPROVAL = """WITH due AS (
    UPDATE approvals_due SET due_at = {}
    WHERE tenant_id = {} AND subject_id = {} AND what = 'approval' AND {} = 'APPROVED')
UPDATE approvals_approval SET state = {}, decided_at = {}, release_by = {}, stranded_at = NULL
WHERE tenant_id = {} AND id = {}
"""


def _close_call(approval: Approval, state: str, *stored: Model, at: datetime) -> tuple[Any, ...]:
    """The call that stores the decision with these rows; a granted approval is due again when its release deadline
    passes.
    """
    due = (approval.release_by, approval.tenant_id, approval.id, state)
    closed = (state, at, approval.release_by, approval.tenant_id, approval.id)
    return insert_call(*stored, then=(_CLOSE_APPROVAL, *due, *closed))


def _record_met_thresholds(head: ledger.SubjectHead, row: Vote, status: VotingStatus, *, at: datetime) -> None:
    """Record the thresholds that this vote has met."""
    before = quorum.tally_votes(
        status.terms, [eligibility.ballot_of(vote) for vote in status.votes if vote.id != row.id]
    )
    met = [group for group in before.missing if group not in status.tally.missing]
    if met:
        event = ledger.NewEvent(kind="threshold_met", detail={"groups": met, "missing": status.tally.missing})
        ledger.append(head, event, actor=ledger.SYSTEM, at=at)
