"""Rate limit per key: a fixed window of one second, counted in the broker.

The limit protects the installation from a runaway loop, not the record from anyone: where the broker does not answer,
nothing is limited.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

import redis
from django.conf import settings

from console.accounts.known_keys import GENERATION, broker
from ledger.record.rules.refusals import RateExceeded

log = logging.getLogger(__name__)

# Counting and forgetting are one step, so that no counter can stay behind.
_COUNT = (
    "local n = redis.call('INCR', KEYS[1]) if n == 1 then redis.call('EXPIRE', KEYS[1], 2) end"
    " return {n, redis.call('GET', KEYS[2])}"
)
_LEFT_ALONE_S = 5.0
_away_until = 0.0


def count_request(key_id: UUID, *, at: datetime) -> str | None:
    """Count one request of a key; refuse it when its second is used up. Return the generation of keys, or None if the
    broker does not answer.
    """
    limit: int = settings.COUNTERFOIL_RATE_PER_S
    if not limit:
        return read_generation()
    count, generation = _ask(
        lambda broker: broker.eval(_COUNT, 2, f"counterfoil:rate:{key_id}:{int(at.timestamp())}", GENERATION)
    ) or (0, None)
    if count > limit:
        raise RateExceeded
    return _text(generation) if count else None


def read_generation() -> str | None:
    """The generation of keys (console/accounts/known_keys.py), or None if the broker does not answer."""
    found = _ask(lambda broker: [broker.get(GENERATION)])
    return _text(found[0]) if found else None


def _text(generation: bytes | None) -> str:
    return (generation or b"").decode()


def _ask(question: Callable[[redis.Redis], Any]) -> Any:
    global _away_until
    # A broker that is away is not asked again at once: each request would wait for it.
    if time.monotonic() < _away_until:
        return None
    try:
        return question(broker(settings.REDIS_URL))
    except redis.RedisError:
        _away_until = time.monotonic() + _LEFT_ALONE_S
        log.warning("the broker does not count requests; keys are not limited")
        return None
