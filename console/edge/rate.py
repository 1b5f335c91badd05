"""Rate limit per key: a fixed window of one second, counted by all processes together.

The limit protects the installation from a runaway loop, not the record from anyone: where the counters do not answer,
nothing is limited, and `/statusz` says so.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings

from console.accounts.known_keys import GENERATION
from console.brokers import counters
from ledger.record.rules.refusals import RateExceeded

# Counting and forgetting are one step, so that no counter can stay behind.
_COUNT = (
    "local n = redis.call('INCR', KEYS[1]) if n == 1 then redis.call('EXPIRE', KEYS[1], 2) end"
    " return {n, redis.call('GET', KEYS[2])}"
)


def count_request(key_id: UUID, *, at: datetime) -> str | None:
    """Count one request of a key; refuse it when its second is used up. Return the generation of keys, or None if the
    counters do not answer.
    """
    limit: int = settings.COUNTERFOIL_RATE_PER_S
    if not limit:
        return read_generation()
    name = f"counterfoil:rate:{key_id}:{int(at.timestamp())}"
    try:
        count, generation = counters.ask(lambda client: client.eval(_COUNT, 2, name, GENERATION))
    except counters.CountersAway:
        return None
    if count > limit:
        raise RateExceeded
    return _text(generation)


def read_generation() -> str | None:
    """The generation of keys (console/accounts/known_keys.py), or None if the counters do not answer."""
    try:
        generation: Any = counters.ask(lambda client: client.get(GENERATION))
        return _text(generation)
    except counters.CountersAway:
        return None


def _text(generation: bytes | None) -> str:
    return (generation or b"").decode()
