"""Presence: who has a page open now, kept briefly in the counters and never recorded.

A page that is open says so every few seconds. Where the counters do not answer, who else looks is not known, pages say
so, and nothing waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from uuid import UUID

import redis

from console.brokers import counters

SEEN_S = 30
EVERY_S = 10


def record_presence(tenant_id: UUID, thing_id: UUID, actor: UUID, *, at: datetime) -> None:
    """Record that a person has this page open now."""
    name, now = _name(tenant_id, thing_id), at.timestamp()

    def record(client: redis.Redis) -> None:
        with client.pipeline(transaction=False) as pipe:
            pipe.zadd(name, {str(actor): now})
            pipe.zremrangebyscore(name, "-inf", now - SEEN_S)
            pipe.expire(name, SEEN_S)
            pipe.execute()

    with suppress(counters.CountersAway):
        counters.ask(record)


def present_viewers(tenant_id: UUID, things: Sequence[UUID], *, at: datetime) -> dict[UUID, list[UUID]] | None:
    """Return the people who have had these pages open in the last half minute, by page, latest last; None if that is
    not known.
    """

    def viewers(client: redis.Redis) -> list[list[bytes]]:
        with client.pipeline(transaction=False) as pipe:
            for thing_id in things:
                pipe.zrangebyscore(_name(tenant_id, thing_id), at.timestamp() - SEEN_S, "+inf")
            found: list[list[bytes]] = pipe.execute()
            return found

    try:
        found = counters.ask(viewers)
    except counters.CountersAway:
        return None
    return {
        thing_id: [UUID(actor.decode()) for actor in actors]
        for thing_id, actors in zip(things, found, strict=True)
        if actors
    }


def _name(tenant_id: UUID, thing_id: UUID) -> str:
    return f"counterfoil:looking:{tenant_id}:{thing_id}"
