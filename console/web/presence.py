"""Presence: who has a page open now, kept briefly in the broker and never recorded.

A page that is open says so every few seconds. Where the broker does not answer, nobody is seen, and nothing waits.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

import redis
from django.conf import settings

log = logging.getLogger(__name__)

SEEN_S = 30
EVERY_S = 10
_PATIENCE_S = 0.2
_LEFT_ALONE_S = 5.0
_away_until = 0.0


def record_presence(tenant_id: UUID, thing_id: UUID, actor: UUID, *, at: datetime) -> None:
    """Record that a person has this page open now."""
    name, now = _name(tenant_id, thing_id), at.timestamp()
    with _broker_commands([]) as pipe:
        pipe.zadd(name, {str(actor): now})
        pipe.zremrangebyscore(name, "-inf", now - SEEN_S)
        pipe.expire(name, SEEN_S)


def present_viewers(tenant_id: UUID, things: Sequence[UUID], *, at: datetime) -> dict[UUID, list[UUID]]:
    """Return the people who have had these pages open in the last half minute, by page, latest last."""
    found: list[list[bytes]] = []
    with _broker_commands(found) as pipe:
        for thing_id in things:
            pipe.zrangebyscore(_name(tenant_id, thing_id), at.timestamp() - SEEN_S, "+inf")
    return {
        thing_id: [UUID(actor.decode()) for actor in actors]
        for thing_id, actors in zip(things, found, strict=False)
        if actors
    }


def _name(tenant_id: UUID, thing_id: UUID) -> str:
    return f"counterfoil:looking:{tenant_id}:{thing_id}"


@contextmanager
def _broker_commands(answers: list[Any]) -> Iterator[Any]:
    """Commands to the broker, sent at the end; an unreachable one is skipped for a while, so that no page
    waits for it.
    """
    global _away_until
    pipe = _broker(settings.REDIS_URL).pipeline(transaction=False)
    try:
        yield pipe
        if time.monotonic() >= _away_until:
            answers += pipe.execute()
    except redis.RedisError:
        _away_until = time.monotonic() + _LEFT_ALONE_S
        log.warning("the broker does not keep who is looking at what")
    finally:
        pipe.reset()


@lru_cache(maxsize=1)
def _broker(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, socket_timeout=_PATIENCE_S, socket_connect_timeout=_PATIENCE_S)
