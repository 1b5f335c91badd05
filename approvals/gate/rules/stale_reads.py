"""Stale reads: the reads that a call is based on must still hold (R-TC-16, STALE_STATE_READ).

A call names `based_on: [{resource, version, read_at}]`. A resource is a target as contracts render it (`order/17`), or
one of the agent's own actions (`action/<id>`): the state of the task. A read is stale when

1. it was made in the future: nobody can have read that yet (a minute is forgiven to clocks that differ);
2. it is older than the freshness limit of the tool that is called (`based_on.max_age_s` of its contract);
3. the record knows a change of that resource since: an action that may have changed it was at work after `read_at` or
   still is, or a later reading contradicted what was settled about it;
4. the record has read the resource since and found another version than the one named;
5. for an action: it has gone on since `read_at`, or is in another state than the one named as `version`.

6. A tool whose contract says `based_on.required` wants a read of its own target among them.

Versions are opaque, so they are compared and never ordered. Of resources that the record knows nothing about only the
age can be judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from approvals.gate.rules.malformed import Malformed, safe_name
from ledger.catalogue.rules.contract import Contract
from ledger.catalogue.rules.targets import normal_form

CODE = "STALE_STATE_READ"
MAX_READS = 50
MAX_TEXT = 512
SKEW = timedelta(minutes=1)
SHAPE = "`based_on` is a list of at most 50 reads, each with `resource`, `read_at` (RFC 3339) and, if known, `version`."
ACTION = "action/"


@dataclass(frozen=True)
class NamedRead:
    """One read that a call rests on."""

    resource: str
    read_at: datetime
    version: str | None = None


@dataclass(frozen=True)
class ResourceChange:
    """A change of a resource on record: until when it may have happened (None: still running), and by whom.

    `version` is what a reading found there, `seen_at` when; `state` is the state of a resource that is an action.
    """

    what: str = ""
    until: datetime | None = None
    version: str = ""
    seen_at: datetime | None = None
    state: str = ""


def parse_reads(raw: object) -> tuple[NamedRead, ...] | None:
    """Return the reads of `based_on`, or None if it is malformed."""
    if raw is None:
        return ()
    if not isinstance(raw, list) or len(raw) > MAX_READS:
        return None
    found = [_parse_read(each) for each in raw]
    return None if None in found else tuple(each for each in found if each is not None)


def _parse_read(raw: Any) -> NamedRead | None:
    if not isinstance(raw, Mapping):
        return None
    resource, version, moment = raw.get("resource"), raw.get("version"), _parse_time(raw.get("read_at"))
    named = str(version) if isinstance(version, int) and not isinstance(version, bool) else version
    if not isinstance(resource, str) or not 0 < len(resource) <= MAX_TEXT or moment is None:
        return None
    if not isinstance(named, str | None) or len(named or "") > MAX_TEXT:
        return None
    return NamedRead(normal_form(resource), moment, named)


def _parse_time(raw: Any) -> datetime | None:
    try:
        moment = datetime.fromisoformat(raw) if isinstance(raw, str) and len(raw) <= 40 else None
    except ValueError:
        return None
    return moment if moment is not None and moment.utcoffset() is not None else None


def find_stale_read(
    reads: tuple[NamedRead, ...],
    contract: Contract,
    target: str,
    changes: Mapping[str, tuple[ResourceChange, ...]],
    *,
    at: datetime,
) -> Malformed | None:
    """The refusal of a stale read, or None; `changes` are the known changes, by resource."""
    errors = [
        {"path": f"/based_on/{place}", "code": CODE, "detail": detail}
        for place, each in enumerate(reads)
        if (detail := _fault(each, contract, changes.get(each.resource, ()), at=at))
    ]
    if contract.based_on.required and all(each.resource != target for each in reads):
        detail = f"This tool wants to know which read of `{safe_name(target)}` the call is based on."
        errors.append({"path": "/based_on", "code": CODE, "detail": detail})
    if not errors:
        return None
    return Malformed(CODE, errors[0]["detail"], "Read it again, and decide anew on what you find.", None, tuple(errors))


def _fault(one: NamedRead, contract: Contract, changes: tuple[ResourceChange, ...], *, at: datetime) -> str:
    name, limit = safe_name(one.resource), contract.based_on.max_age_s
    if one.read_at > at + SKEW:
        return f"`{name}` cannot have been read at a time that has not come."
    if limit is not None and at - one.read_at > timedelta(seconds=limit):
        return f"The read of `{name}` is older than the {limit} s that this tool allows."
    return next((told for each in changes if (told := _why_overtaken(one, name, each))), "")


def _why_overtaken(one: NamedRead, name: str, change: ResourceChange) -> str:
    if change.state:
        moved = change.until is not None and one.read_at < change.until
        named = one.version is not None and one.version != change.state
        return f"`{name}` has gone on since: it is {change.state}." if moved or named else ""
    if change.what and (change.until is None or one.read_at < change.until):
        return f"`{name}` may have changed since: {change.what}."
    later = change.seen_at is not None and one.read_at < change.seen_at
    if later and one.version is not None and change.version and one.version != change.version:
        return f"`{name}` has been read since, and has another version."
    return ""
