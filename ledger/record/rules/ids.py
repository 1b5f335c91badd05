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


def next_uuid7(last: UUID | None, at: datetime, randomness: bytes) -> UUID:
    """The UUIDv7 of `at`, after `last` where that is of the same millisecond (RFC 9562 section 6.2, method 2).

    So what one request makes sorts in the order in which it was made. The step is random, for nobody to guess.
    """
    fresh = uuid7(at, randomness)
    if last is None or last.int >> 80 != fresh.int >> 80:
        return fresh
    tail = _tail(last) + 1 + int.from_bytes(randomness[:6], "big")
    return _with_tail(fresh, tail) if tail < 1 << 74 else fresh


def _tail(made: UUID) -> int:
    """The 74 bits that are neither time, version nor variant."""
    return (made.int >> 64 & 0xFFF) << 62 | made.int & (1 << 62) - 1


def _with_tail(made: UUID, tail: int) -> UUID:
    return UUID(int=made.int >> 76 << 76 | tail >> 62 << 64 | 0b10 << 62 | tail & (1 << 62) - 1)


def lower_bound(at: datetime) -> UUID:
    """The smallest id of the millisecond of `at`: the edge for a search by time."""
    return UUID(int=_milliseconds(at) << 80)


def _milliseconds(at: datetime) -> int:
    # In whole numbers: a float of this size misses some milliseconds by one.
    return (at - _EPOCH) // _MILLISECOND
