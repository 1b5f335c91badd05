"""The time of the next reading, and until when an absent effect may still arrive (R-VD-11, R-VD-13, Late effects)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from ledger.catalogue.rules.contract import Polling
from ledger.catalogue.rules.policies import ReleaseStop

_SHORTEST = timedelta(milliseconds=500)
_SPREAD = 0.2


def late_effect_horizon(
    *,
    lease_ends_at: datetime,
    answered_at: datetime | None,
    claimed_success: bool,
    timeout_s: int,
    settle_s: int,
) -> datetime:
    """The instant before which an absent effect may still arrive.

    Lease end, plus the time that a call already sent may take, plus what the target needs to settle. An
    answer ends the attempt. A tool that claims success is waiting for nothing: only settling remains,
    and absence then leads to a hold, never to FAILED.
    """
    settling = timedelta(seconds=settle_s)
    if answered_at is not None and claimed_success:
        return answered_at + settling
    ended_at = lease_ends_at if answered_at is None else min(lease_ends_at, answered_at)
    return ended_at + timedelta(seconds=timeout_s) + settling


def next_read_at(
    polling: Polling,
    *,
    attempts: int,
    at: datetime,
    until: datetime,
    seed: str,
    stretch: float = 1.0,
    not_before: datetime | None = None,
) -> datetime:
    """The next reading after `attempts` of them: growing intervals, spread by the seed, never past `until`."""
    grown = polling.first_after_s * polling.backoff ** min(attempts, 64)
    wait = timedelta(seconds=min(max(grown, 0.0), polling.max_interval_s) * _factor(seed, attempts))
    due = at + max(wait * stretch, _SHORTEST)
    if not_before is not None:
        due = max(due, not_before)
    return min(due, until) if until > at else due


def _factor(seed: str, attempts: int) -> float:
    octets = hashlib.sha256(f"{seed}/{attempts}".encode()).digest()
    return 1 + _SPREAD * (int.from_bytes(octets[:4], "big") / 2**32 - 0.5)


@dataclass(frozen=True, kw_only=True)
class VerificationDebt:
    """The actions of one system that wait for a verdict, counted up to 10,000, and the time since which the oldest
    waits.
    """

    waiting: int
    due: int
    oldest_at: datetime | None


NO_DEBT = VerificationDebt(waiting=0, due=0, oldest_at=None)


class StopReason(StrEnum):
    """The reason why nothing irreversible is released to a system (R-VD-16, R-FB-10)."""

    BY_PERSON = "BY_PERSON"
    CIRCUIT_OPEN = "CIRCUIT_OPEN"
    TOO_MANY_WAIT = "TOO_MANY_WAIT"
    WAITED_TOO_LONG = "WAITED_TOO_LONG"


def release_stop(
    policy: ReleaseStop, *, is_open: bool, stopped: bool, debt: VerificationDebt, at: datetime
) -> StopReason | None:
    """The first reason not to release irreversible actions to a system, or None.

    Only irreversible actions are stopped: their effects could be neither determined nor reversed. A person's switch
    comes before the policy's `stop_release`.
    """
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
