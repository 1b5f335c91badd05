"""Votes on many approvals at once: of one kind and low risk, each with its own statement over its own hash.

A batch that is refused as a whole (`rules.batches`) leaves nothing. Otherwise every item is an ordinary vote in its own
savepoint: one that fails does not affect the others, and each has its own result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from django.db import transaction

from approvals.models import Approval, Vote
from approvals.requests.queries import approvals, deadlines
from approvals.voting.operations import votes
from approvals.voting.operations.refusal_records import write_refusal_records
from approvals.voting.rules import batches, binding
from ledger.actions.queries import actions as actions_queries
from ledger.record.rules.refusals import AlreadyDecided, NotFound, NothingSelected, Refused, TooManySelected

if TYPE_CHECKING:
    from ledger.models import Action

VOTED, DECIDED, REFUSED = "VOTED", "DECIDED", "REFUSED"


@dataclass(frozen=True, slots=True)
class DisplayedItem:
    """One item as displayed on the voter's page; an item without digests was not displayed (B39)."""

    approval_id: UUID
    seen: binding.DisplayedDigests


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemResult:
    """The result for one item: voted on, already decided by others, or refused with a reason."""

    approval_id: UUID
    result: str
    statement_hash: str = ""
    code: str = ""
    detail: str = ""


def vote_batch(
    *,
    tenant_id: UUID,
    shown: Sequence[DisplayedItem],
    verdict: binding.VoteChoice,
    voter: binding.Voter,
    reason: str,
    at: datetime,
) -> list[ItemResult]:
    """Vote on every displayed item in order; items that are already decided are skipped and reported."""
    if voter.evidence_class == "A":
        raise batches.NotForBatches("A passkey signs one statement at a time; vote on the item's own page.")
    if verdict not in (binding.VoteChoice.APPROVE, binding.VoteChoice.REJECT):
        raise batches.NotForBatches("Changes are asked for one by one, on the item's own page.")
    found = _find_approvals(tenant_id, shown)
    # What was decided meanwhile no longer matters to the batch; what is left must be one.
    waiting = [one for one in found.values() if one.state == "REQUESTED"]
    actions = actions_queries.actions_by_id(tenant_id, [one.action_id for one in waiting])
    if waiting:
        batches.check_batch([batch_item(one, actions[one.action_id]) for one in waiting])
    return [_vote_on_item(found[each.approval_id], each, verdict, voter, reason, at=at) for each in shown]


def batch_item(approval: Approval, action: Action) -> batches.BatchItem:
    """The fields of an approval and its action that batch rules use."""
    pace = deadlines.schedule_of(approval)
    return batches.BatchItem(
        id=approval.id,
        tool=action.tool,
        contract_digest=approval.contract_digest,
        policy_digest=approval.policy_digest,
        side_effect_class=action.side_effect_class,
        reversibility=action.reversibility,
        risk=approval.risk,
        step_up=approval.step_up,
        allowed=pace.batchable,
        most=pace.batch_most,
    )


def _find_approvals(tenant_id: UUID, shown: Sequence[DisplayedItem]) -> dict[UUID, Approval]:
    if not shown:
        raise NothingSelected("Select the items to decide.")
    if len(shown) > batches.MOST:
        raise TooManySelected(f"A batch holds {batches.MOST} at most.")
    found = {each.approval_id: approvals.approval(tenant_id, each.approval_id) for each in shown}
    known = {approval_id: one for approval_id, one in found.items() if one is not None}
    if len(known) != len(shown):
        raise NotFound("Approval")
    return known


def _vote_on_item(
    approval: Approval,
    shown: DisplayedItem,
    verdict: binding.VoteChoice,
    voter: binding.Voter,
    reason: str,
    *,
    at: datetime,
) -> ItemResult:
    outcome = partial(ItemResult, approval_id=approval.id)
    if approval.state != "REQUESTED":
        return outcome(result=DECIDED, detail="It was decided already.")
    try:
        with transaction.atomic():
            row: Vote = votes.cast_vote(
                tenant_id=approval.tenant_id,
                approval_id=approval.id,
                verdict=verdict,
                voter=voter,
                seen=shown.seen,
                reason=reason,
                at=at,
            )
    except AlreadyDecided as refusal:
        return outcome(result=DECIDED, code=refusal.code, detail=refusal.detail)
    except Refused as refusal:
        # Here and not at the edge: the batch goes on, and what is on record of this item commits with the others.
        write_refusal_records(approval.tenant_id, refusal.records)
        return outcome(result=REFUSED, code=refusal.code, detail=refusal.detail)
    return outcome(result=VOTED, statement_hash=row.statement_hash)
