"""Tickets: read a record with its last change over Roundup's REST interface (R-CP-06).

    effects.<name>   id (expression) or match {text property: expression}, and optionally
                     kind (the class, "issue"), set {property: expression} (what the action should have changed),
                     assignee, comment (expressions), fields [property], expect "absent",
                     assignee_field, locked_field, tenant_field, target_field

The system's settings: url (the tracker's), kinds (the classes that may be read); the credential: user and
password of an account that may only view.

1. An update is there if every property of `set` has its value. If some have and some have not it was applied in
   part (`missing_field_update`); if none has it is absent, and if the record moved on since the reading before
   execution (its ETag differs) somebody else was faster: `stale_state`.
2. A created record is found by what the tool writes into it (`match`), also twice. A search finds parts of
   words, so what it finds is compared again; a list is walked to its end, or it proves nothing.
3. The interface shows of a record's history the last entry: who, and when. A record that has the wanted values
   but no entry since the execution is `missing_change_history_entry`.
4. A retired record answers by its id and is in no list: it counts as gone.
5. Linked things (status, assignee) are shown by name. Freshness is the ETag and the time of the last entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from reviews.checks import fetching, lookups
from reviews.checks.fetching import Site, SiteResponse
from reviews.checks.interface import CheckFailed, ReadEffect, Reading, SystemAccess
from reviews.checks.limits import bounded_read
from reviews.readback.rules import shapes

PAGE = 50
MAX_PAGES = 20
MAX_COMMENTS = 20
SLACK = timedelta(seconds=60)
"""How far the clocks of the tracker and of the console may be apart."""

_COLUMNS = ("assignee_field", "locked_field", "tenant_field", "target_field")
_NAME = shapes.name_schema(r"[a-z][a-z0-9_]{0,62}", "a property's name")
_STRINGS = ("object_id", "etag", "actor", "creator", "created_at", "changed_at", "assignee", "comment")

Bindings = Mapping[str, Mapping[str, Any]]


@dataclass
class FoundRecords:
    """The records of one effect, each with its properties by name."""

    records: list[dict[str, Any]] = field(default_factory=list)
    whole: bool = True
    comments: list[str] = field(default_factory=list)
    answers: list[SiteResponse] = field(default_factory=list)


class TicketCheck(lookups.LookupCheck):
    """The check of pattern `crm_ticketing`."""

    pattern = "crm_ticketing"
    settings = {**fetching.SITE, "kinds": shapes.readable("Classes of items")}
    part = shapes.object_schema(
        {},
        {
            **dict.fromkeys(("id", "assignee", "comment"), shapes.EXPRESSION),
            **dict.fromkeys(("match", "set"), shapes.map_schema(_NAME)),
            **dict.fromkeys(("kind", *_COLUMNS), _NAME),
            "fields": shapes.fields_schema(_NAME),
            "expect": shapes.EXPECT,
        },
        shapes.either("id", "match"),
    )
    needs = {
        "tenant_or_account": ("tenant_field",),
        "field_changes": ("set", "fields"),
        "assignee": ("assignee",),
        "status": ("status",),
        "comments": ("comment", "comments"),
        "actor_id": ("actor", "creator"),
        "workflow_id": ("workflow", "workflow_id"),
    }

    def fields_of(self, part: Mapping[str, Any]) -> dict[str, Any]:
        """The declared properties, and what the tracker says about every record."""
        declared: dict[str, Any] = {name: {} for name in [*part.get("fields", ()), *part.get("set", ())]}
        return {**declared, **{name: {"type": "string"} for name in _STRINGS}, "comments": {"type": "integer"}}

    @bounded_read
    def read(
        self,
        *,
        system: SystemAccess,
        verification: Mapping[str, Any],
        bindings: Bindings,
        at: datetime,
        timeout_s: float,
    ) -> Reading:
        """The records as the tracker has them now."""
        parts = {name: _fill_part(part, bindings) for name, part in lookups.lookup_effects(verification).items()}
        _check_kinds(system, parts)
        address = system.credential.get("url") or system.settings.get("url")
        headers = {"X-Requested-With": "readback", "Accept": "application/json"}
        with fetching.open_site(system, address, until=fetching.deadline_after(timeout_s), headers=headers) as site:
            found = {name: _look_up(site, part) for name, part in parts.items()}
        effects = tuple(_effect(name, parts[name], one) for name, one in found.items())
        executed_at = _executed_at(bindings, found, at=at)
        indicators = {
            key
            for effect in effects
            for key in _indicators(parts[effect.name], found[effect.name], effect, bindings, executed_at)
        }
        return Reading(
            source=system.name,
            consistency=fetching.effective_consistency(
                system, *(answer for one in found.values() for answer in one.answers), at=at
            ),
            freshness="; ".join(_mark(one) for one in found.values())[:200],
            observed_at=at,
            pointer="; ".join(_describe(part) for part in lookups.lookup_effects(verification).values()),
            effects=effects,
            indicators=tuple(sorted(indicators)),
            raw={name: {"records": one.records, "comments": len(one.comments)} for name, one in found.items()},
        )


# One reading


def _fill_part(part: Mapping[str, Any], bindings: Bindings) -> dict[str, Any]:
    """The part with its expressions replaced by their values."""
    found = {"kind": "issue", "assignee_field": "assignedto", **part}
    for name in ("id", "assignee", "comment"):
        if name in part:
            found[name] = str(lookups.fill_template(part[name], bindings))
    for name in ("match", "set"):
        found[name] = {one: str(lookups.fill_template(text, bindings)) for one, text in part.get(name, {}).items()}
    if "" in found["match"].values() or not found.get("id", "1").isdecimal():
        raise CheckFailed("The lookup's value names no record.", retryable=False)
    return found


def _check_kinds(system: SystemAccess, parts: Mapping[str, Mapping[str, Any]]) -> None:
    allowed = system.settings.get("kinds")
    for part in parts.values():
        if allowed is not None and part["kind"] not in allowed:
            raise CheckFailed(f"{part['kind']} is not among the kinds that may be read.", retryable=False)


def _look_up(site: Site, part: Mapping[str, Any]) -> FoundRecords:
    found = FoundRecords()
    numbers = _record_numbers(site, part, found)
    for number in numbers:
        record = _record(site, part, number, found)
        if record is not None and all(_text(record.get(name)) == value for name, value in part["match"].items()):
            found.records.append(record)
    if "comment" in part and found.records:
        found.comments = _comments(site, found)
    return found


def _record_numbers(site: Site, part: Mapping[str, Any], records: FoundRecords) -> list[str]:
    """Return the numbers of the candidate records, without retired ones."""
    asked = {"id": part["id"]} if "id" in part else {f"{name}:": value for name, value in part["match"].items()}
    numbers: list[str] = []
    for page in range(1, MAX_PAGES + 1):
        params = {**asked, "@page_size": str(PAGE), "@page_index": str(page)}
        said = _data(site, f"/rest/data/{part['kind']}", params, records)
        if said is None:
            raise CheckFailed(f"The tracker has no kind `{part['kind']}`.", retryable=False)
        if not isinstance(said.get("collection"), list):
            raise CheckFailed("The tracker did not answer with a list.", retryable=True)
        listed = [str(one.get("id")) for one in said["collection"]]
        numbers += [one for one in listed if one == part.get("id", one)]
        if len(listed) < PAGE:
            return numbers
    records.whole = False
    return numbers


def _record(site: Site, part: Mapping[str, Any], number: str, records: FoundRecords) -> dict[str, Any] | None:
    path = f"/rest/data/{part['kind']}/{fetching.path_segment(number)}"
    said = _data(site, path, {"@protected": "true", "@verbose": "2"}, records)
    if said is None:
        return None
    given = said.get("attributes")
    if not isinstance(given, dict):
        raise CheckFailed("The tracker did not answer with a record.", retryable=True)
    properties = {name: _property_value(value) for name, value in given.items()}
    # A comment has no name of its own, and is asked for by its number.
    numbers = [str(one.get("id")) for one in given.get("messages") or () if isinstance(one, Mapping)]
    return {**properties, "messages": numbers, "id": number, "etag": str(said.get("@etag", ""))}


def _comments(site: Site, records: FoundRecords) -> list[str]:
    """The texts of a record's newest comments."""
    numbers = [str(one) for one in records.records[0].get("messages") or ()]
    texts = []
    for number in numbers[-MAX_COMMENTS:]:
        said = _data(
            site, f"/rest/data/msg/{fetching.path_segment(number)}", {"@verbose": "3", "@fields": "content"}, records
        )
        texts += [str(said.get("attributes", {}).get("content", ""))] if said else []
    return texts


def _data(site: Site, path: str, params: Mapping[str, str], records: FoundRecords) -> dict[str, Any] | None:
    answer = site.get(path, params=params)
    records.answers.append(answer)
    if answer.status == 423:
        raise CheckFailed("The record is locked.", retryable=True, indicators=("record_lock",))
    said = answer.document()
    if answer.status == 404 and "error" in said:
        return None
    data = said.get("data")
    if answer.status != 200 or not isinstance(data, dict):
        # The tracker refuses in its own words; whatever else comes is not from the tracker.
        raise CheckFailed(f"The tracker answered {answer.status} to {path}.", retryable="error" not in said)
    return data


def _property_value(value: Any) -> Any:
    """Return a property by name: a linked thing as its key, several as a list of keys."""
    if isinstance(value, list):
        return [_property_value(one) for one in value]
    if isinstance(value, Mapping) and "link" in value:
        named = [one for name, one in value.items() if name not in {"id", "link"}]
        return str(named[0] if named else value.get("id"))
    return lookups.to_json_value(value)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(sorted(map(str, value)))
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _holds(part: Mapping[str, Any], records: FoundRecords) -> list[bool]:
    """Return for each wanted change whether the record shows it."""
    record = records.records[0]
    held = [_text(record.get(name)) == value for name, value in part["set"].items()]
    if "comment" in part:
        held.append(any(part["comment"] in text for text in records.comments))
    return held


def _effect(name: str, part: Mapping[str, Any], records: FoundRecords) -> ReadEffect:
    if part.get("expect") == "absent":
        gone = not records.records
        return ReadEffect(name=name, present=gone if records.whole or not gone else None, count=int(gone))
    if not records.records:
        return ReadEffect(name=name, present=False if records.whole else None)
    held = _holds(part, records)
    present = not held or any(held)
    if not present and not records.whole:
        return ReadEffect(name=name, present=None)
    kinds = {kind: part[f"{kind}_field"] for kind in ("tenant", "target") if f"{kind}_field" in part}
    return ReadEffect(
        name=name,
        present=present,
        count=len(records.records) if present else 0,
        fields=_fields(part, records),
        scope={
            kind: tuple(dict.fromkeys(_text(one.get(at)) or None for one in records.records))
            for kind, at in kinds.items()
        },
    )


def _fields(part: Mapping[str, Any], records: FoundRecords) -> dict[str, Any]:
    record = records.records[0]
    declared = {name: record.get(name) for name in [*part.get("fields", ()), *part["set"]]}
    return {
        **declared,
        "object_id": record["id"],
        "etag": record["etag"],
        "actor": _text(record.get("actor")),
        "creator": _text(record.get("creator")),
        "created_at": _text(_format_time(record.get("creation"))),
        "changed_at": _text(_format_time(record.get("activity"))),
        "assignee": _text(record.get(part["assignee_field"])),
        "comments": len(record.get("messages") or ()),
        "comment": records.comments[-1] if records.comments else "",
    }


def _format_time(value: Any) -> str | None:
    """Return a time of the tracker, which writes UTC without a zone."""
    moment = _parse_time(value)
    return None if moment is None else f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _parse_time(value: Any) -> datetime | None:
    try:
        return datetime.strptime(str(value), "%Y-%m-%d.%H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        return None


def _executed_at(bindings: Bindings, found: Mapping[str, FoundRecords], *, at: datetime) -> datetime | None:
    """The start of the execution by the tracker's clock, which wrote the history."""
    try:
        executed_at = datetime.fromisoformat(str(bindings.get("scope", {}).get("executed_at")))
    except ValueError:
        return None
    if executed_at.tzinfo is None:
        return None
    answers = [answer for one in found.values() for answer in one.answers]
    return executed_at - max(timedelta(0), fetching.clock_lag(answers, at=at))


def _indicators(
    part: Mapping[str, Any], records: FoundRecords, effect: ReadEffect, bindings: Bindings, executed_at: datetime | None
) -> Iterator[str]:
    if not records.records or part.get("expect") == "absent":
        return
    record = records.records[0]
    if len(records.records) > 1:
        yield "duplicate_ticket"
    if effect.present is None:
        return
    if not effect.present:
        yield from _hindrances(part, record, effect, bindings)
        return
    if not all(_holds(part, records)):
        yield "missing_field_update"
    if "assignee" in part and part["assignee"] != _text(record.get(part["assignee_field"])):
        yield "wrong_assignee"
    changed_at = _parse_time(record.get("activity"))
    if executed_at is not None and changed_at is not None and changed_at < executed_at - SLACK:
        yield "missing_change_history_entry"


def _hindrances(
    part: Mapping[str, Any], record: Mapping[str, Any], effect: ReadEffect, bindings: Bindings
) -> Iterator[str]:
    """Yield the indicators that explain why a change may not have been made."""
    if _text(record.get(part.get("locked_field", ""))) not in {"", "false", "0"}:
        yield "record_lock"
    before = bindings.get("pre", {}).get("effects", {}).get(effect.name, {}).get("etag")
    if before is not None and before != record["etag"]:
        yield "stale_state"


def _mark(records: FoundRecords) -> str:
    if not records.records:
        return "no record"
    return f"etag {records.records[0]['etag']} changed {_format_time(records.records[0].get('activity'))}"


def _describe(part: Mapping[str, Any]) -> str:
    where = {"id": part["id"]} if "id" in part else part["match"]
    return f"{part.get('kind', 'issue')} where {' and '.join(f'{name} = {text}' for name, text in where.items())}"
