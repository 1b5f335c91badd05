"""Keys of machines that this process has just read: good for a second, and no longer once any key is revoked.

The counters hold a generation, which a revocation replaces after its commit. A request learns it with the count of its
key (console/edge/rate.py), and a key read under another generation is read again, so a revocation that was answered
holds in every process. If the counters do not answer, keys are read for each request. If the process that revokes dies
before it tells them, or the server that it told is lost before its replica has the new generation, others may take the
key for the rest of a second.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import redis

from console.brokers import counters

if TYPE_CHECKING:
    from console.models import ApiKey

log = logging.getLogger(__name__)
GENERATION: Final = "counterfoil:keys"
GOOD_FOR_S: Final = 1.0
MOST: Final = 10_000


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
        counters.client().set(GENERATION, uuid4().hex)
    except redis.RedisError:
        log.warning("the counters were not told that a key is revoked; it may be good for another second elsewhere")
