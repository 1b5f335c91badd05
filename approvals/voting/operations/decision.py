"""What votes lead to: the approval is granted, or ends with its action unrun, or waits for more of them.

The terms are those of the request; whose votes count is looked up again (`approvals.voting.operations.eligibility`).
Votes come
one after another under the approval's lock, so that of two that would decide it differently the first one does (B21).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from approvals.models import Approval, Deadline, Vote
from approvals.policy.rules import allowed_hours
from approvals.requests.operations.requests import approval_block, fail_unexecuted_action, release_deadline
from approvals.standing import queries
from approvals.standing.rules import standing
from approvals.voting.operations import break_glass, eligibility
from approvals.voting.operations.eligibility import EligibilityContext, VotingStatus
from approvals.voting.rules import binding, quorum
from approvals.voting.rules.quorum import VoteTally
from ledger.catalogue import queries as catalogue_queries
from ledger.db import execute
from ledger.record import operations as ledger
from ledger.record.rules.envelope import instant
from ledger.record.rules.refusals import Refused

_STATES = {"approved": "APPROVED", "rejected": "REJECTED"}
_KINDS = {"REJECTED": "rejected", "CHANGES_REQUESTED": "changes_requested"}


class VotesFallen(Refused):
    """A vote that this rests on no longer counts; people must be asked again."""

    code = "VOTES_FALLEN"


class StandingApprovalStopped(VotesFallen):
    """The standing approval under which it passed was paused or ended; people must be asked."""

    code = "STANDING_APPROVAL_STOPPED"


class OutsideHours(Refused):
    """It is approved, but the policy releases it at other hours only."""

    code = "OUTSIDE_HOURS"


def apply_vote(
    heads: tuple[ledger.SubjectHead, ledger.SubjectHead],
    approval: Approval,
    row: Vote,
    *,
    evidence: tuple[ledger.SealedEvidence, ...],
    detail: Mapping[str, Any],
    on: EligibilityContext,
    at: datetime,
) -> None:
    """Put a vote on record, with its statement and what proves it, and do what it leads to.

    `heads` are those of the action and the approval, both locked; `on` has the vote among those that were cast.
    """
    action_head, head = heads
    if row.verdict == binding.VoteChoice.BREAK_GLASS:
        break_glass.use_break_glass(head, approval, row, evidence=evidence, detail=detail, at=at)
        return
    seen = eligibility.voting_status(approval, on=on, at=at)
    tally = seen.tally
    actor = ledger.Actor("person", row.voter)
    voted = ledger.draft_event(
        head,
        ledger.NewEvent(
            kind=_kind(tally),
            to=_STATES.get(tally.state),
            detail=_told(row, seen, at=at) | dict(detail),
            evidence=evidence,
        ),
        actor=actor,
        at=at,
    )
    if tally.state == "approved":
        # Both events in one message.
        ledger.write_events(voted, _granted(action_head, approval, row, seen, actor, at=at))
        return
    ledger.write_events(voted)
    head = voted.head
    if tally.state == "rejected":
        _refuse(approval, row, tally, actor, at=at)
    else:
        _note_met(head, row, seen, at=at)


def revalidation_refusal(
    approval: Approval, *, at: datetime, on: EligibilityContext | None = None, in_force: str | None = None
) -> Refused | None:
    """Why an approval that was granted authorises nothing now, or None where it still does (B17, B18).

    Asked at the claim and again in the redeeming transaction: the policy in force is the one that was asked under, the
    votes of people who may still decide are still enough, and its hours have begun. What its standing
    rests `on` and the digest of the policy that is `in_force` are given where they were just read.
    """
    if (in_force or catalogue_queries.digest_in_force(approval.tenant_id, "approval")) != approval.policy_digest:
        return binding.PolicyChanged()
    terms = quorum.read_terms(approval.terms)
    if approval.standing_id is not None:
        resting = queries.standing_approval(approval.tenant_id, approval.standing_id)
        if resting is None or not standing.still_carries(resting.state, resting.ended_because):
            return StandingApprovalStopped()
    votes_count = not approval.emergency and approval.standing_id is None
    if votes_count and eligibility.voting_status(approval, at=at, on=on).tally.state != "approved":
        return VotesFallen()
    return None if allowed_hours.are_open(terms.hours, at=at) else OutsideHours()


def _kind(tally: VoteTally) -> str:
    return {"approved": "approved", "rejected": _KINDS.get(tally.code, "rejected")}.get(tally.state, "vote_cast")


def _told(row: Vote, seen: VotingStatus, *, at: datetime) -> dict[str, Any]:
    tally = seen.tally
    told: dict[str, Any] = {"verdict": row.verdict, "groups": list(row.groups)}
    if row.delegated_by is not None:
        told["delegated_by"] = str(row.delegated_by)
    if tally.state == "open":
        return told | {"missing": tally.missing}
    told["deciding"] = [each.voter for each in tally.deciding]
    if tally.state == "approved":
        told["release_by"] = instant(release_deadline(seen.terms, decided_at=at))
    return told


def _granted(
    action_head: ledger.SubjectHead,
    approval: Approval,
    row: Vote,
    seen: VotingStatus,
    actor: ledger.Actor,
    *,
    at: datetime,
) -> ledger.EventDraft:
    approval.release_by = release_deadline(seen.terms, decided_at=at)
    _close(approval, "APPROVED", at=at)
    deciding = [UUID(each.voter) for each in seen.tally.deciding]
    return ledger.draft_event(
        action_head,
        ledger.NewEvent(
            kind="approval_granted",
            changes={"approval": approval_block(approval, approvers=deciding)},
            detail={
                "approval_id": str(approval.id),
                "statement_hash": row.statement_hash,
                "statements": [each.statement_hash for each in seen.votes if each.voter in deciding],
                "release_by": instant(approval.release_by),
            },
        ),
        actor=actor,
        at=at,
    )


def _refuse(approval: Approval, row: Vote, tally: VoteTally, actor: ledger.Actor, *, at: datetime) -> None:
    _close(approval, "REJECTED", at=at)
    Deadline.objects.filter(subject_id=approval.id, what="approval").delete()
    fail_unexecuted_action(approval, code=tally.code, reason=row.reason, actor=actor, at=at)


_CLOSE = """
WITH due AS (UPDATE approvals_due SET due_at = $5 WHERE subject_id = $2 AND what = 'approval' AND $3 = 'APPROVED')
UPDATE approvals_approval SET state = $3, decided_at = $4, release_by = $5, stranded_at = NULL
WHERE tenant_id = $1 AND id = $2
"""


def _close(approval: Approval, state: str, *, at: datetime) -> None:
    """What is decided is looked at again when its release is over."""
    execute(_CLOSE, approval.tenant_id, approval.id, state, at, approval.release_by)


def _note_met(head: ledger.SubjectHead, row: Vote, seen: VotingStatus, *, at: datetime) -> None:
    """Say of each threshold that this vote was the last one it wanted."""
    before = quorum.tally_votes(seen.terms, [eligibility.ballot_of(vote) for vote in seen.votes if vote.id != row.id])
    owed = before.missing
    met = [group for group in owed if group not in seen.tally.missing]
    if met:
        happening = ledger.NewEvent(kind="threshold_met", detail={"groups": met, "missing": seen.tally.missing})
        ledger.append(head, happening, actor=ledger.SYSTEM, at=at)
