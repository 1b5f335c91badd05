"""Calendars: find an event in its calendar over CalDAV (R-CP-04).

    effects.<name>   calendar (expression: the collection's path below the system's address), uid (expression)
                     and/or match {property: expression}, and optionally expect "present" or "absent",
                     timezone, owner, access_class, attendees (expressions; attendees with commas),
                     exclusive (true: nobody else's event at that time), fields [property],
                     tenant_property, target_property

1. Nothing is changed: PROPFIND and REPORT are all that is sent. A query finds parts of values, so what it
   finds is compared again.
2. A server lets a UID stand once in a calendar; a second event for the same action has another UID. `match`
   (a marker that the tool writes, or the title) finds it as well.
3. Not found is "absent" only if the calendar is there and the answer is complete.
4. Freshness is the calendar's tag and the event's ETag. The server of record is believed (STRONG) unless the
   settings say otherwise.
5. Times stand as they are written, with their zone, and as instants where the zone is a known one. Of a
   series, the event itself is read, not its exceptions.

Spoken with httpx and a small parser of its own: the CalDAV client library brings an XML engine, a second HTTP
client and a recurrence engine, of which nothing is needed to read one event.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape
from zoneinfo import ZoneInfo

from reviews.checks import fetching, lookups
from reviews.checks.fetching import Site, SiteResponse
from reviews.checks.interface import CheckFailed, ReadEffect, Reading, SystemAccess
from reviews.checks.limits import bounded_read
from reviews.readback.rules import shapes

MAX_EVENTS = 100

_TEXTS = ("uid", "timezone", "owner", "access_class", "attendees")
_PROPERTY = shapes.name_schema(r"[A-Z][A-Z0-9-]{0,62}", "a property's name (in capitals)")
_STRINGS = ("uid", "etag", "calendar", "organizer", "timezone", "start", "end", "starts_at", "ends_at", "recurrence",
            "conference", "status", "access_class", "owner", "summary", "location", "last_modified")  # fmt: skip
_LISTS = ("attendees", "reminders")
_DAV, _CAL, _SERVER = "{DAV:}", "{urn:ietf:params:xml:ns:caldav}", "{http://calendarserver.org/ns/}"
_OPEN = 'xmlns:D="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav" xmlns:S="http://calendarserver.org/ns/"'
_ABOUT = f"<D:propfind {_OPEN}><D:prop><S:getctag/><D:sync-token/><D:owner/><D:resourcetype/></D:prop></D:propfind>"
_DURATION = re.compile(r"([+-]?)P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?")
_CODE = re.compile(r"\b\d\.\d+")
_UNSENT = frozenset({"1.0", "1.1"})

Bindings = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Property:
    """One line of an event: its parameters and its value."""

    parameters: Mapping[str, str]
    value: str


@dataclass
class Event:
    """One event of a calendar, as the server holds it."""

    href: str = ""
    etag: str = ""
    properties: dict[str, list[Property]] = field(default_factory=dict)
    alarms: list[dict[str, list[Property]]] = field(default_factory=list)

    def first(self, name: str) -> Property | None:
        return next(iter(self.properties.get(name, ())), None)

    def text(self, name: str) -> str:
        found = self.first(name)
        return "" if found is None else found.value


@dataclass(frozen=True)
class CalendarInfo:
    """A calendar's own properties."""

    tag: str
    owner: str


class CalendarCheck(lookups.LookupCheck):
    """The check of pattern `calendar`."""

    pattern = "calendar"
    settings = {**fetching.SITE, "calendars": shapes.readable("Calendars")}
    part = shapes.object_schema(
        {"calendar": shapes.EXPRESSION},
        {
            **dict.fromkeys(_TEXTS, shapes.EXPRESSION),
            "match": shapes.map_schema(_PROPERTY),
            "fields": shapes.fields_schema(_PROPERTY),
            "expect": shapes.EXPECT,
            "exclusive": shapes.TRUTH,
            **dict.fromkeys(("tenant_property", "target_property"), _PROPERTY),
        },
        shapes.rule("must have uid or match.", anyOf=[{"required": ["uid"]}, {"required": ["match"]}]),
    )
    needs = {
        "organizer": ("organizer",),
        "timezone": ("timezone",),
        "start_end_time": ("start", "end", "starts_at", "ends_at"),
        "attendees": ("attendees",),
        "recurrence": ("recurrence",),
        "conferencing_link": ("conference",),
        "reminders": ("reminders",),
        "event_status": ("status",),
    }

    def fields_of(self, part: Mapping[str, Any]) -> dict[str, Any]:
        """An event's properties; declared others are text under their lower-case names."""
        declared = {_key(name): {"type": "string"} for name in part.get("fields", ())}
        text = {name: {"type": "string"} for name in _STRINGS}
        lists = {name: {"type": "array"} for name in _LISTS}
        return {**declared, **text, **lists, "answers": {"type": "object"}, "sequence": {"type": "integer"}}

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
        """The events as the server holds them now."""
        parts = lookups.lookup_effects(verification)
        filled = {name: _fill_part(part, bindings) for name, part in parts.items()}
        _check_calendars(system, filled)
        with _site(system, timeout_s) as site:
            looks = {name: _Look(site, part) for name, part in filled.items()}
            answers = [answer for look in looks.values() for answer in look.answers]
        return Reading(
            source=system.name,
            consistency=fetching.effective_consistency(system, *answers, at=at),
            freshness="; ".join(dict.fromkeys(look.mark for look in looks.values()))[:200],
            observed_at=at,
            pointer="; ".join(_describe(part) for part in parts.values()),
            effects=tuple(look.effect(name) for name, look in looks.items()),
            indicators=tuple(sorted({key for look in looks.values() for key in look.indicators()})),
            raw={name: look.shown() for name, look in looks.items()},
        )


def _key(name: str) -> str:
    return name.lower().replace("-", "_")


# One reading


def _fill_part(part: Mapping[str, Any], bindings: Bindings) -> dict[str, Any]:
    """The part with its expressions replaced by their values."""
    found = dict(part)
    for name in ("calendar", *_TEXTS):
        if name in part:
            found[name] = str(lookups.fill_template(part[name], bindings))
    found["calendar"] = found["calendar"].strip("/") + "/"
    found["match"] = {name: str(lookups.fill_template(text, bindings)) for name, text in part.get("match", {}).items()}
    if "uid" in found:
        found["match_uid"] = {"UID": found["uid"]}
    for value in (*found["match"].values(), found.get("uid", "x")):
        if not value.strip() or any(ord(letter) < 32 for letter in value):
            raise CheckFailed("The lookup's value cannot stand in an event.", retryable=False)
    return found


def _check_calendars(system: SystemAccess, filled: Mapping[str, Mapping[str, Any]]) -> None:
    allowed = system.settings.get("calendars")
    for part in filled.values():
        if allowed is not None and part["calendar"].strip("/") not in {str(one).strip("/") for one in allowed}:
            raise CheckFailed(f"{part['calendar']} is not among the calendars that may be read.", retryable=False)


def _describe(part: Mapping[str, Any]) -> str:
    texts = {**({"UID": part["uid"]} if "uid" in part else {}), **part.get("match", {})}
    return f"calendar {part['calendar']} where {' or '.join(f'{name} = {text}' for name, text in texts.items())}"


class _Look:
    """One effect as its calendar shows it."""

    def __init__(self, site: Site, part: Mapping[str, Any]) -> None:
        self.part = part
        self.site = site
        self.answers = [_fetch_calendar(site, part["calendar"])]
        self.about = _about(self.answers[0])
        found: dict[str, Event] = {}
        self.complete = True
        for match in (part.get("match_uid"), part["match"]):
            if match:
                events, complete = self._query_events(_by_properties(match))
                found |= {event.href: event for event in events if _fits(event, match)}
                self.complete = self.complete and complete
        self.events = list(found.values())
        self.others = self._others() if part.get("exclusive") else []

    def _others(self) -> list[Event]:
        """Return other events at the same time."""
        start, end = _instants(self.events[0]) if self.events else (None, None)
        if start is None or end is None:
            return []
        query = f'<C:time-range start="{start:%Y%m%dT%H%M%SZ}" end="{end:%Y%m%dT%H%M%SZ}"/>'
        events, _ = self._query_events(query)
        own = {event.href for event in self.events}
        return [one for one in events if one.href not in own and _takes_time(one)]

    def _query_events(self, query: str) -> tuple[list[Event], bool]:
        answer = _post_query(self.site, self.part["calendar"], query)
        self.answers.append(answer)
        return _events(answer)

    @property
    def mark(self) -> str:
        etags = " ".join(event.etag for event in self.events[:3]) or "none"
        return f"ctag {self.about.tag[:80]}, etag {etags}"

    def effect(self, name: str) -> ReadEffect:
        if self.part.get("expect") == "absent":
            gone = not self.events and self.complete
            return ReadEffect(name=name, present=gone if self.complete or self.events else None, count=int(gone))
        if not self.events:
            return ReadEffect(name=name, present=False if self.complete else None)
        event = self.events[0]
        declared = {_key(one): event.text(one) for one in self.part.get("fields", ()) if event.first(one)}
        return ReadEffect(
            name=name,
            present=True,
            count=len(self.events),
            fields={
                **declared,
                **event_fields(event),
                "calendar": self.part["calendar"].strip("/"),
                "owner": self.about.owner,
            },
            pending=any(code in _UNSENT for code in _invitations(event)),
            scope=self._scope(),
        )

    def _scope(self) -> dict[str, tuple[Any, ...]]:
        kinds = {
            kind: self.part[f"{kind}_property"] for kind in ("tenant", "target") if f"{kind}_property" in self.part
        }
        return {
            kind: tuple(dict.fromkeys(one.text(name) or None for one in self.events)) for kind, name in kinds.items()
        }

    def indicators(self) -> Iterator[str]:
        if self.part.get("expect") == "absent":
            return
        if not self.events:
            if self.complete:
                yield "missing_event"
            return
        if len(self.events) > 1:
            yield "duplicate_event"
        if self.others:
            yield "conflicting_booking_policy"
        for event in self.events:
            yield from self._event_indicators(event_fields(event), event)

    def _event_indicators(self, found: Mapping[str, Any], event: Event) -> Iterator[str]:
        part = self.part
        if part.get("timezone", found["timezone"]) != found["timezone"]:
            yield "wrong_timezone"
        if part.get("access_class", found["access_class"]) != found["access_class"]:
            yield "permission_mismatch"
        if "owner" in part and part["owner"].strip("/") != self.about.owner.strip("/"):
            yield "permission_mismatch"
        wanted = {one.strip().lower() for one in part.get("attendees", "").split(",") if one.strip()}
        failed = any(code.startswith(("3.", "5.")) for code in _invitations(event))
        if failed or wanted - set(found["attendees"]):
            yield "attendee_invite_failure"

    def shown(self) -> dict[str, Any]:
        return {
            "events": [{"href": one.href, **event_fields(one)} for one in self.events],
            "others": [one.href for one in self.others],
            "complete": self.complete,
        }


# The protocol


def _site(system: SystemAccess, timeout_s: float) -> Site:
    return fetching.open_site(
        system,
        system.credential.get("url") or system.settings.get("url"),
        until=fetching.deadline_after(timeout_s),
        headers={"Content-Type": "application/xml; charset=utf-8"},
    )


def _path(calendar: str) -> str:
    return "/" + "".join(f"{fetching.path_segment(name)}/" for name in calendar.strip("/").split("/"))


def _fetch_calendar(site: Site, calendar: str) -> SiteResponse:
    answer = site.ask("PROPFIND", _path(calendar), headers={"Depth": "0"}, content=_ABOUT.encode())
    if answer.status in {404, 410}:
        # A calendar that is gone, or not shown to us, is no evidence about its events.
        raise CheckFailed("There is no such calendar.", retryable=True)
    return answer


def _about(answer: SiteResponse) -> CalendarInfo:
    found = _tree(answer)
    if found.find(f".//{_CAL}calendar") is None:
        raise CheckFailed("What stands at that path is no calendar.", retryable=False)
    tag = found.findtext(f".//{_SERVER}getctag") or found.findtext(f".//{_DAV}sync-token") or "unknown"
    owner = unquote(urlsplit(found.findtext(f".//{_DAV}owner/{_DAV}href") or "").path)
    return CalendarInfo(tag.strip('"'), owner)


def _by_properties(match: Mapping[str, str]) -> str:
    return "".join(
        f'<C:prop-filter name="{name}"><C:text-match collation="i;octet">{escape(value)}</C:text-match></C:prop-filter>'
        for name, value in match.items()
    )


def _post_query(site: Site, calendar: str, inner: str) -> SiteResponse:
    query = (
        f"<C:calendar-query {_OPEN}><D:prop><D:getetag/><C:calendar-data/></D:prop><C:filter>"
        f'<C:comp-filter name="VCALENDAR"><C:comp-filter name="VEVENT">{inner}</C:comp-filter></C:comp-filter>'
        "</C:filter></C:calendar-query>"
    )
    return site.ask("REPORT", _path(calendar), headers={"Depth": "1"}, content=query.encode())


def _events(answer: SiteResponse) -> tuple[list[Event], bool]:
    """Return the events that a query found, and whether the server returned all of them."""
    found, complete = [], True
    for response in _tree(answer).findall(f"{_DAV}response"):
        data = response.findtext(f".//{_CAL}calendar-data")
        if data is None:
            complete = False
            continue
        event = parse_event(data)
        event.href = unquote(urlsplit(response.findtext(f"{_DAV}href") or "").path)
        event.etag = response.findtext(f".//{_DAV}getetag") or "none"
        found.append(event)
    if len(found) > MAX_EVENTS:
        raise CheckFailed(f"More than {MAX_EVENTS} events fit.", retryable=False)
    return found, complete


def _tree(answer: SiteResponse) -> ElementTree.Element:
    if answer.status != 207:
        refused = answer.status in {400, 405}
        raise CheckFailed(f"The server answered with {answer.status} instead of a list.", retryable=not refused)
    try:
        text = answer.content.decode()
        if "<!DOCTYPE" in text or "<!ENTITY" in text:
            raise CheckFailed("The answer declares entities, which are not read.", retryable=False)
        found = ElementTree.fromstring(text)
    except (UnicodeDecodeError, ElementTree.ParseError):
        raise CheckFailed("The answer is not XML.", retryable=True) from None
    if found.tag != f"{_DAV}multistatus":
        raise CheckFailed("The answer is not a CalDAV server's.", retryable=True)
    return found


def _fits(event: Event, match: Mapping[str, str]) -> bool:
    return all(any(one.value == value for one in event.properties.get(name, ())) for name, value in match.items())


def _takes_time(event: Event) -> bool:
    return event.text("STATUS").upper() != "CANCELLED" and event.text("TRANSP").upper() != "TRANSPARENT"


# iCalendar, as far as one event needs it (RFC 5545)


def parse_event(data: str) -> Event:
    """The event of a calendar object: that of a series itself, not one of its exceptions."""
    events: list[Event] = []
    path: list[str] = []
    for name, found in _properties_of(data):
        if name == "BEGIN":
            path.append(found.value.upper())
            _begin_component(path, events)
        elif name == "END" and path:
            path.pop()
        elif path[-1:] == ["VEVENT"]:
            events[-1].properties.setdefault(name, []).append(found)
        elif path[-2:] == ["VEVENT", "VALARM"]:
            events[-1].alarms[-1].setdefault(name, []).append(found)
    if not events:
        raise CheckFailed("The server gave an object without an event.", retryable=False)
    return next((one for one in events if "RECURRENCE-ID" not in one.properties), events[0])


def _properties_of(data: str) -> Iterator[tuple[str, Property]]:
    """Return the lines of a calendar object, unfolded, with their values unescaped; skip malformed lines."""
    # 5 MB that most installations never use.
    from icalendar.parser import Contentlines

    for line in filter(None, Contentlines.from_ical(data)):  # type: ignore[no-untyped-call]
        try:
            name, parameters, value = line.parts()
        except ValueError:
            continue
        plain = {key: one if isinstance(one, str) else ",".join(one) for key, one in parameters.items()}
        yield name.upper(), Property(plain, value)


def _begin_component(path: list[str], events: list[Event]) -> None:
    if path[-1] == "VEVENT":
        events.append(Event())
    elif path[-2:] == ["VEVENT", "VALARM"]:
        events[-1].alarms.append({})


def event_fields(event: Event) -> dict[str, Any]:
    """An event's properties as predicates may name them."""
    start, end = _instants(event)
    sequence = event.text("SEQUENCE")
    return {
        "uid": event.text("UID"),
        "etag": event.etag,
        "organizer": _address(event.text("ORGANIZER")),
        "timezone": _zone(event.first("DTSTART")),
        "start": _written_time(event.first("DTSTART")),
        "end": _written_time(event.first("DTEND")),
        "starts_at": f"{start:%Y-%m-%dT%H:%M:%SZ}" if start else "",
        "ends_at": f"{end:%Y-%m-%dT%H:%M:%SZ}" if end else "",
        "attendees": sorted({_address(one.value) for one in event.properties.get("ATTENDEE", ())}),
        "answers": {
            _address(one.value): one.parameters.get("PARTSTAT", "NEEDS-ACTION")
            for one in event.properties.get("ATTENDEE", ())
        },
        "recurrence": event.text("RRULE"),
        "conference": event.text("CONFERENCE") or event.text("X-GOOGLE-CONFERENCE") or event.text("URL"),
        "reminders": [one["TRIGGER"][0].value for one in event.alarms if "TRIGGER" in one],
        "status": event.text("STATUS").upper() or "CONFIRMED",
        "access_class": event.text("CLASS").upper() or "PUBLIC",
        "summary": event.text("SUMMARY"),
        "location": event.text("LOCATION"),
        "sequence": int(sequence) if sequence.isdecimal() else 0,
        "last_modified": event.text("LAST-MODIFIED"),
    }


def _address(value: str) -> str:
    return re.sub(r"^mailto:", "", value.strip(), flags=re.IGNORECASE).lower()


def _invitations(event: Event) -> list[str]:
    """Return the status codes of the server's own delivery of invitations (RFC 6638), if it gives any."""
    listed = [one.parameters.get("SCHEDULE-STATUS", "") for one in event.properties.get("ATTENDEE", ())]
    return [code for text in listed for code in _CODE.findall(text)]


def _zone(found: Property | None) -> str:
    if found is None:
        return ""
    if found.parameters.get("VALUE") == "DATE":
        return "date"
    return "UTC" if found.value.endswith("Z") else found.parameters.get("TZID", "floating")


def _written_time(found: Property | None) -> str:
    """Return the time as written, without its zone."""
    moment = None if found is None else _parse_time(found.value)
    return "" if moment is None else moment.isoformat()


def _parse_time(value: str) -> datetime | date | None:
    for form in ("%Y%m%dT%H%M%S", "%Y%m%d"):
        try:
            moment = datetime.strptime(value.removesuffix("Z"), form)  # noqa: DTZ007 its zone stands beside it
        except ValueError:
            continue
        return moment if "T" in form else moment.date()
    return None


def _instants(event: Event) -> tuple[datetime | None, datetime | None]:
    """Return start and end as instants, if the time zone allows it."""
    start, end = _utc_time(event.first("DTSTART")), _utc_time(event.first("DTEND"))
    if start is not None and end is None:
        lasts = _DURATION.fullmatch(event.text("DURATION"))
        whole_day = _zone(event.first("DTSTART")) == "date"
        end = start + (_lasting(lasts) if lasts else timedelta(days=int(whole_day)))
    return start, end


def _lasting(found: re.Match[str]) -> timedelta:
    weeks, days, hours, minutes, seconds = (int(found[number] or 0) for number in range(2, 7))
    return timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)


def _utc_time(found: Property | None) -> datetime | None:
    moment = None if found is None else _parse_time(found.value)
    if found is None or moment is None:
        return None
    if not isinstance(moment, datetime):
        return datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    zone = _zone(found)
    if zone == "floating":
        return None
    try:
        return moment.replace(tzinfo=UTC if zone == "UTC" else ZoneInfo(zone)).astimezone(UTC)
    except (ValueError, KeyError, OSError):
        return None
