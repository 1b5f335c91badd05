"""The number of independent sources of a run: two names of one source count once (R-RC-13).

The origin of a reading is what is known of its source. Two origins are compared in three ways; the first for which both
have the facts decides:

1. The source names itself: a PostgreSQL server by its system identifier, and its database. A replica has those of its
   primary, so it is the same source. Two databases of one server are two sources, and the report says that they share
   it.
2. The address: host and port as the network resolves them, and the part of the server (a database, a bucket, an
   account, a folder). The same address is one source, unless both name their parts and these differ.
3. The credential: the same one at two addresses is one account under two names.

An unknown source is not independent: one that cannot be located, or that is of a kind which names itself and did not. A
reading without an origin was stored before origins were, and is judged as it was then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from reviews.reconciliation.rules.reading import Reading

SELF_NAMING = frozenset({"databases", "vector"})
"""Patterns whose servers name themselves."""


@dataclass(frozen=True, kw_only=True)
class SourceIndependence:
    """The number of sources that are independent of each other, and the reason, in a sentence for people."""

    read: int
    independent: int
    reason: str


def source_independence(readings: Sequence[Reading]) -> SourceIndependence | None:
    """Return the independence of the sources of these readings; None if their origins were not stored."""
    if len(readings) < 2 or any(reading.origin is None for reading in readings):
        return None
    groups = [{number} for number in range(len(readings))]
    said, shared = [], []
    for one, other in combinations(range(len(readings)), 2):
        left, right = readings[one], readings[other]
        same, together = _same_source(left.origin or {}, right.origin or {}), _group(groups, one)
        names = f"{left.source} and {right.source}"
        if same:
            said.append(f"{names} count as one source: {same}")
            together |= _group(groups, other)
            groups = [each for each in groups if not each & together] + [together]
        elif _shares_server(left.origin or {}, right.origin or {}):
            shared.append(f"{names} are two databases of one server.")
    count = len(groups)
    word = "independent source" if count == 1 else "independent sources"
    total = f"{count} {word} of {len(readings)} that were read."
    return SourceIndependence(read=len(readings), independent=count, reason=" ".join([total, *said, *shared]))


def _group(groups: list[set[int]], number: int) -> set[int]:
    return set(next(each for each in groups if number in each))


def _same_source(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Return the reason why two origins are, or may be, one source, as the end of a sentence; empty if they are two."""
    if one.get("server") and other.get("server"):
        same = (one["server"], one.get("database")) == (other["server"], other.get("database"))
        return f"both are the same database of the server {one['server']}." if same else ""
    if one.get("pattern") == other.get("pattern") and one.get("pattern") in SELF_NAMING:
        return "at least one of them does not say which server it is."
    return address_fault(one, other)


def address_fault(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Return the same from addresses and credentials alone, which are known before anything is read."""
    here, there = one.get("addresses") or (), other.get("addresses") or ()
    if not here or not there:
        return "it is not known where one of them is."
    if any(_meets(left, right) for left in here for right in there):
        parts = one.get("part"), other.get("part")
        return "" if _differ(*parts) else "both are at the same address."
    if one.get("credential") and one["credential"] == other.get("credential"):
        return "both are asked with the same credential."
    return ""


def _differ(one: str | None, other: str | None) -> bool:
    """Return whether two parts of one server are distinct, with neither inside the other."""
    if not one or not other:
        return False
    return one != other and not one.startswith(f"{other}/") and not other.startswith(f"{one}/")


def _meets(one: str, other: str) -> bool:
    """Return whether two addresses, `host:port` or `host:*`, may be the same."""
    host, _, port = one.rpartition(":")
    other_host, _, other_port = other.rpartition(":")
    return host == other_host and (port == other_port or "*" in (port, other_port))


def _shares_server(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return bool(one.get("server")) and one.get("server") == other.get("server")
