"""When to look again, and until when an absent effect may still arrive (R-VD-11, R-VD-13, Late effects)."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta

from ledger.catalogue.rules.contract import Polling

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
    """When to read again after `attempts` readings: growing intervals, spread by the seed, never past `until`.

    A spent budget stretches the intervals, and an open circuit lets nothing be read before its probe; the last
    reading, at `until`, stays.

    The spread comes from a hash, so that the same run is scheduled alike when it is replayed (R-RC-14)
    while actions that began together drift apart.
    """
    grown = polling.first_after_s * polling.backoff ** min(attempts, 64)
    wait = timedelta(seconds=min(max(grown, 0.0), polling.max_interval_s) * _factor(seed, attempts))
    due = at + max(wait * stretch, _SHORTEST)
    if not_before is not None:
        due = max(due, not_before)
    return min(due, until) if until > at else due


def _factor(seed: str, attempts: int) -> float:
    octets = hashlib.sha256(f"{seed}/{attempts}".encode()).digest()
    return 1 + _SPREAD * (int.from_bytes(octets[:4], "big") / 2**32 - 0.5)
