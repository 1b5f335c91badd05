"""Ids: UUIDv7 (RFC 9562 section 5.7), made from a time and random bytes that the caller passes in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def uuid7(at: datetime, randomness: bytes) -> UUID:
    """The UUIDv7 of the millisecond of `at` with ten random bytes; ids of later milliseconds sort later."""
    value = int.from_bytes(_milliseconds(at).to_bytes(6, "big") + randomness[:10], "big")
    value = value & ~(0xF000 << 64) | (0x7000 << 64)
    value = value & ~(0xC000 << 48) | (0x8000 << 48)
    return UUID(int=value)


def lower_bound(at: datetime) -> UUID:
    """The smallest id of the millisecond of `at`: the edge for a search by time."""
    return UUID(int=_milliseconds(at) << 80)


def _milliseconds(at: datetime) -> int:
    # In whole numbers: a float of this size misses some milliseconds by one.
    return (at - _EPOCH) // _MILLISECOND
