"""The rules for export requests, and for the events that a filter discloses (R-LE-21, R-UI-14).

1. `from` and `to` are indexes of the log or times; the defaults are the beginning and now. An index `to` is not part of
   the range.
2. A filter names members of `FILTERS`, each with a text. Events that it does not choose are withheld: their leaf hashes
   stay, so that the range stays complete (P7).
3. Events of the log itself, of the passkeys that sign votes, and of erasures are never withheld: without them nobody
   could verify the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from ledger.record.rules.refusals import Refused

FORMATS = ("jsonl", "csv", "parquet")
OF_ACTIONS = ("action", "state", "tool", "agent", "session", "run", "side_effect_class", "discrepancy", "target", "q")
OF_EVENTS = ("kind", "subject_kind", "subject", "actor")
FILTERS = (*OF_ACTIONS, *OF_EVENTS)
NEVER_WITHHELD = frozenset({"log", "erasure", "retention", "approver_key"})
_IDS = ("action", "session", "subject", "actor")


class BadExport(Refused):
    """The export request is not valid."""

    code = "BAD_EXPORT"
    status = 422


@dataclass(frozen=True, slots=True)
class LeafEvent:
    """An event in the log, as far as it is known without decrypting it."""

    index: int
    subject_id: UUID
    seq: int
    subject_kind: str
    kind: str
    actor_id: UUID | None


def validate_request(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request as it is recorded, with every member filled in; refuse an invalid one (rules 1 and 2)."""
    request: dict[str, Any] = {"from": None, "to": None, "since": None, "log": None}
    request |= {"filters": {}, "format": "jsonl", "payloads": True}
    request |= {name: value for name, value in wanted.items() if value is not None}
    start, end = request["from"], request["to"]
    if type(start) is int and type(end) is int and start >= end:
        raise BadExport("The range is empty: from must be below to.")
    for bound in (start, end):
        _check_bound(bound)
    if request["format"] not in FORMATS:
        raise BadExport(f"The format is one of: {', '.join(FORMATS)}.")
    for name, value in dict(request["filters"]).items():
        _check_filter(name, value)
    return request


def discloses(filters: Mapping[str, str], event: LeafEvent, chosen: Collection[UUID]) -> bool:
    """Return whether a filter discloses an event; `chosen` are the subjects that its members about actions select."""
    if event.subject_kind in NEVER_WITHHELD:
        return True
    said = {"kind": event.kind, "subject_kind": event.subject_kind}
    said |= {"subject": str(event.subject_id), "actor": str(event.actor_id)}
    if any(said[name] != filters[name] for name in OF_EVENTS if name in filters):
        return False
    return event.subject_id in chosen or not any(name in filters for name in OF_ACTIONS)


def bound_time(bound: object) -> datetime | None:
    """The time that a bound names, if it is one."""
    return datetime.fromisoformat(bound) if isinstance(bound, str) else None


def _check_bound(bound: Any) -> None:
    if bound is None or (type(bound) is int and bound >= 0):
        return
    try:
        is_aware = type(bound) is str and datetime.fromisoformat(bound).tzinfo is not None
    except ValueError:
        is_aware = False
    if not is_aware:
        raise BadExport("from and to are indexes of the log, or times with their zone.")


def _check_filter(name: str, value: Any) -> None:
    if name not in FILTERS:
        raise BadExport(f"There is no filter {name[:40]}; there are: {', '.join(FILTERS)}.")
    if type(value) is not str or not 0 < len(value) <= 512:
        raise BadExport(f"The filter {name} must be a text.")
    if name in _IDS:
        try:
            same = str(UUID(value)) == value
        except ValueError:
            same = False
        if not same:
            raise BadExport(f"The filter {name} must be an id.")
