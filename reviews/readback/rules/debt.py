"""Verification debt: what a system still owes, and when that stops releasing to it (R-VD-16, R-FB-10).

Only irreversible actions are stopped: whatever they do could be neither told nor taken back. The verification policy
says when (`stop_release`); the switch of a person comes before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from ledger.catalogue.rules.policies import ReleaseStop


@dataclass(frozen=True, kw_only=True)
class VerificationDebt:
    """What waits for its verdict by one system, counted up to 10,000, and since when the longest does."""

    waiting: int
    due: int
    oldest_at: datetime | None


NO_DEBT = VerificationDebt(waiting=0, due=0, oldest_at=None)


class StopReason(StrEnum):
    """Why nothing irreversible is released to a system."""

    BY_PERSON = "BY_PERSON"
    CIRCUIT_OPEN = "CIRCUIT_OPEN"
    TOO_MANY_WAIT = "TOO_MANY_WAIT"
    WAITED_TOO_LONG = "WAITED_TOO_LONG"


def release_stop(
    policy: ReleaseStop, *, is_open: bool, stopped: bool, debt: VerificationDebt, at: datetime
) -> StopReason | None:
    """The first reason not to release irreversible actions to a system; None where they are released."""
    if stopped:
        return StopReason.BY_PERSON
    if policy.open_circuit and is_open:
        return StopReason.CIRCUIT_OPEN
    if policy.waiting is not None and debt.waiting >= policy.waiting:
        return StopReason.TOO_MANY_WAIT
    waited = (at - debt.oldest_at).total_seconds() if debt.oldest_at is not None else 0.0
    if policy.oldest_s is not None and waited >= policy.oldest_s:
        return StopReason.WAITED_TOO_LONG
    return None
