"""The counters: what all processes share for seconds and no record holds, in Redis or Valkey.

They protect the installation from a runaway loop and show who has a page open; they prove nothing. Where they do not
answer, a request goes on without them, and `/statusz` says so.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

import redis
from django.conf import settings

from console.brokers.addresses import read_address

T = TypeVar("T")
log = logging.getLogger(__name__)
PATIENCE_S = 0.2
LEFT_ALONE_S = 5.0
_away_until = 0.0


class CountersAway(Exception):
    """The counters do not answer, or did not a moment ago."""


def ask(question: Callable[[redis.Redis], T]) -> T:
    """Ask the counters, with little patience. For a while after they did not answer they are not asked again, because
    each request would wait.
    """
    global _away_until
    if time.monotonic() < _away_until:
        raise CountersAway
    try:
        return question(client())
    except redis.RedisError:
        _away_until = time.monotonic() + LEFT_ALONE_S
        log.warning("the counters do not answer; keys are not limited, and nobody is seen on a page")
        raise CountersAway from None


def client(patience_s: float | None = None) -> redis.Redis:
    """A client that waits for the counters as long as a request may, or longer."""
    return _client(settings.REDIS_URL, PATIENCE_S if patience_s is None else patience_s)


@lru_cache(maxsize=4)
def _client(url: str, patience_s: float) -> redis.Redis:
    return read_address("REDIS_URL", url).redis_client(patience_s=patience_s)
