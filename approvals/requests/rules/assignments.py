"""Claims and assignments of approvals. A claim is a courtesy, not a lock: others may still vote after a notice.

1. A claim expires by itself after a while; its holder may renew it.
2. Somebody else's claim can be taken over: the record says from whom.
3. An assignment names one person who may decide. The suggestion is the least loaded person, and among equals the one
   who has waited longest for work (the order in which they were given).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from ledger.record.rules.refusals import Refused

LIFE = timedelta(minutes=30)


class NotOpen(Refused):
    """This is no longer open."""

    code = "NOT_OPEN"


class NotClaimed(Refused):
    """Only the assignee can release it."""

    code = "NOT_CLAIMED"


class AssigneeNotEligible(Refused):
    """Only an eligible reviewer can be assigned."""

    code = "NOT_ELIGIBLE"
    status = 422


@dataclass(frozen=True, slots=True)
class Claim:
    """The holder of an approval, and the end of the claim."""

    by: UUID
    until: datetime


def active_claim(by: UUID | None, until: datetime | None, *, at: datetime) -> Claim | None:
    """The claim that holds now, or None (rule 1)."""
    return Claim(by, until) if by is not None and until is not None and until > at else None


def claim_of_another(claim: Claim | None, *, me: UUID) -> Claim | None:
    """Another person's claim, to be shown as a warning before a vote (rule 2)."""
    return claim if claim is not None and claim.by != me else None


def least_loaded(eligible: Sequence[UUID], load: Mapping[UUID, int]) -> UUID | None:
    """The suggested assignee (rule 3)."""
    return min(eligible, key=lambda one: load.get(one, 0), default=None)
