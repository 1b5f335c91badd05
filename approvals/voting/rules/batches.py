"""Batch votes: which approvals may be voted on together, namely those of one kind and low risk.

1. An item may be voted on in a batch when the policy that it was asked under allows it for its class, it is of low
   risk, it can be undone, its class is not critical, and the policy asks for no signature by passkey: that is one
   assertion for one statement.
2. All items of a batch are of one kind: the same tool, the same contract and the same policy.
3. A batch has so many items as the policy allows, and never more than `MOST`.
4. An item is in the batch only with the digests of what was shown of it (B39). Each gets a vote and a statement of its
   own, over its own hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from ledger.record.rules.refusals import NothingSelected, Refused, TooManySelected

MOST = 50
_NEVER_CLASSES = frozenset({"CRITICAL_MUTATION"})


class NotOfOneKind(Refused):
    """A batch holds approvals of one kind: the same tool, contract and policy."""

    code = "BATCH_MIXED"
    status = 422


class NotForBatches(Refused):
    """This must be decided on its own page."""

    code = "NOT_BATCHABLE"
    status = 422


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchItem:
    """One approval as far as the rules of batches need it."""

    id: UUID
    tool: str
    contract_digest: str
    policy_digest: str
    side_effect_class: str
    reversibility: str
    risk: str
    step_up: str
    allowed: bool
    most: int

    @property
    def kind(self) -> tuple[str, str, str]:
        """The properties that all items of a batch share (rule 2)."""
        return (self.tool, self.contract_digest, self.policy_digest)


def exclusion_reason(item: BatchItem) -> str:
    """The reason why an item cannot be in a batch, in one sentence; empty if it can (rule 1)."""
    reasons = (
        (item.side_effect_class in _NEVER_CLASSES, "It is a critical mutation."),
        (item.reversibility == "IRREVERSIBLE", "It cannot be undone."),
        (item.risk != "LOW", "Its risk is not low."),
        (item.step_up == "A", "It must be signed with a passkey, one by one."),
        (not item.allowed, "The policy does not allow it for this class."),
    )
    return next((said for holds, said in reasons if holds), "")


def check_batch(items: Sequence[BatchItem]) -> None:
    """Refuse items that may not form a batch (rules 1 to 3)."""
    if not items:
        raise NothingSelected("Select the items to decide.")
    if len({item.kind for item in items}) > 1:
        raise NotOfOneKind
    for item in items:
        if said := exclusion_reason(item):
            raise NotForBatches(f"{said} It must be decided on its own page.")
    most = min(MOST, min(item.most for item in items))
    if len(items) > most:
        raise TooManySelected(f"A batch of these holds {most} at most.")
