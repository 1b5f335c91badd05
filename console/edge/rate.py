"""Rate limit per key: a fixed window of one second, counted in the broker.

The limit protects the installation from a runaway loop, not the record from anyone: where the broker does not answer,
nothing is limited.
"""

from __future__ import annotations

import logging
import time
from datetime import datetime
from functools import lru_cache
from uuid import UUID

import redis
from django.conf import settings

from ledger.record.rules.refusals import RateExceeded

log = logging.getLogger(__name__)

# Counting and forgetting are one step, so that no counter can stay behind.
_COUNT = "local n = redis.call('INCR', KEYS[1]) if n == 1 then redis.call('EXPIRE', KEYS[1], 2) end return n"
_PATIENCE_S = 0.2
_LEFT_ALONE_S = 5.0
_away_until = 0.0


def count_request(key_id: UUID, *, at: datetime) -> None:
    """Count one request of a key; refuse it when its second is used up."""
    limit: int = settings.COUNTERFOIL_RATE_PER_S
    if limit and _count_requests(f"counterfoil:rate:{key_id}:{int(at.timestamp())}") > limit:
        raise RateExceeded


def _count_requests(name: str) -> int:
    global _away_until
    # A broker that is away is not asked again at once: each request would wait for it.
    if time.monotonic() < _away_until:
        return 0
    try:
        return int(_broker(settings.REDIS_URL).eval(_COUNT, 1, name))
    except redis.RedisError:
        _away_until = time.monotonic() + _LEFT_ALONE_S
        log.warning("the broker does not count requests; keys are not limited")
        return 0


@lru_cache(maxsize=1)
def _broker(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, socket_timeout=_PATIENCE_S, socket_connect_timeout=_PATIENCE_S)
