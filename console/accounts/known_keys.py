"""Keys of machines that this process has just read: good for a second, and no longer once any key is revoked.

The broker holds a generation, which a revocation replaces after its commit. A request learns it with the count of its
key (console/edge/rate.py), and a key read under another generation is read again, so a revocation that was answered
holds in every process. If the broker does not answer, keys are read for each request. If the process that revokes dies
between its commit and the broker, others may take the key for the rest of a second.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import redis
from django.conf import settings

if TYPE_CHECKING:
    from console.models import ApiKey

log = logging.getLogger(__name__)
GENERATION: Final = "counterfoil:keys"
GOOD_FOR_S: Final = 1.0
MOST: Final = 10_000
PATIENCE_S = 0.2


@dataclass(frozen=True, slots=True)
class KnownKey:
    """A key, the generation before it was read, and the monotonic time until which it is good."""

    key: ApiKey
    generation: str
    until: float


_known: dict[str, KnownKey] = {}


def recall_key(key_hash: str) -> KnownKey | None:
    """The key with this hash if it was read in the last second."""
    known = _known.get(key_hash)
    return known if known is not None and time.monotonic() < known.until else None


def remember_key(key_hash: str, key: ApiKey, generation: str) -> None:
    """Keep a key for a second; `generation` must have been read before it."""
    if len(_known) >= MOST:
        _known.clear()
    _known[key_hash] = KnownKey(key, generation, time.monotonic() + GOOD_FOR_S)


def forget_keys() -> None:
    """Make every process read every key again."""
    _known.clear()
    try:
        broker(settings.REDIS_URL).set(GENERATION, uuid4().hex)
    except redis.RedisError:
        log.warning("the broker was not told that a key is revoked; it may be good for another second elsewhere")


@lru_cache(maxsize=1)
def broker(url: str) -> redis.Redis:
    """The broker, as a request asks it: with little patience."""
    return redis.Redis.from_url(url, socket_timeout=PATIENCE_S, socket_connect_timeout=PATIENCE_S)
