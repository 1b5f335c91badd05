"""Audit: search the record by person, event, object and time; and the access log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID, uuid5

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import NoReverseMatch, reverse
from django.utils.html import escape, format_html_join
from django.utils.safestring import SafeString, mark_safe

from approvals.requests.queries import approvals as approvals_queries
from console.accounts import queries as directory
from console.accounts.queries import actor_names
from console.edge.auth import NotAllowed
from console.edge.http import TenantRequest, in_tenant
from console.edge.proofs import proof_panel
from console.notifications.facts import titles_of
from console.search import queries as searching
from console.templatetags.console import moment, plainly, standing
from console.web import labels
from console.web.forms import AuditFilter, SightingFilter
from console.web.labels import format_json
from console.web.list_page import Column, FilterNotValid, ListPage, list_context
from console.web.spreadsheets import MOST_EXPORTED
from ledger.actions.queries import search
from ledger.record.operations import SYSTEM_ACTOR
from ledger.record.queries import events
from ledger.record.rules.event_kinds import EVENT_KINDS
from ledger.record.rules.lifecycle import State
from ledger.verification.queries import storage
from reviews import queries as after

PAGE = 50
MAY = ("compliance", "administrator")
# What these say is about people and keys, and nobody's business who only works with actions.
ABOUT_PEOPLE = frozenset({"member", "credential"})
TABS = {
    "audit": "Events",
    "sightings": "Access log",
    "exports": "Exports",
    "holds": "Holds and erasure",
}
# Subjects that have a page of their own, and what it is called.
PAGES = {
    "action": "action",
    "approval": "approval",
    "case": "case",
    "session": "session",
    "incident": "incident",
    "claim": "claim",
    "batch": "batch",
    "evidence": "evidence",
    "narrative": "action-narrative",
    "recording": "recording",
    "release": "release",
}

AUDIT_LIST = ListPage(
    "audit",
    tuple(AuditFilter.base_fields),
    "event",
    (
        Column("event", "Event", lambda row: labels.event_label(row["event"].kind)),
        Column(
            "object",
            "Object",
            lambda row: row["title"] or row["event"].subject_id,
            more={
                "Object kind": lambda row: labels.SUBJECTS.get(row["event"].subject_kind, row["event"].subject_kind),
                "Object id": lambda row: row["event"].subject_id,
            },
        ),
        Column("by", "By", lambda row: row["by"]),
        Column(
            "state",
            "New state",
            lambda row: row["event"].state,
            "roomy",
            more={"Earlier state": lambda row: row["event"].from_state},
        ),
        Column("index", "Log index"),
        Column("when", "When", lambda row: row["event"].at, "num", ("oldest", "")),
        Column("kind", "Kind (code)", lambda row: row["event"].kind, is_usual=False),
        Column("seq", "Number", lambda row: row["event"].seq, "num", is_usual=False),
        Column("id", "Id", lambda row: row["event"].id, is_usual=False),
    ),
    frozenset(MAY),
)
SIGHTINGS_LIST = ListPage(
    "sightings",
    tuple(SightingFilter.base_fields),
    columns=(
        Column("who", "Who", lambda row: row["who"]),
        Column(
            "object",
            "Object",
            lambda row: f"{labels.SEEN.get(row['seen'].kind, row['seen'].kind)} {row['title']}".strip(),
            more={"Object id": lambda row: row["seen"].thing_id},
        ),
        Column("when", "When", lambda row: row["seen"].at, "num"),
        Column("id", "Id", lambda row: row["seen"].id, is_usual=False),
    ),
    roles=frozenset(MAY),
)

_SHOWN_AS = {"narrative": ("action", "case")}
"""The kinds of pages that show a subject of another kind, with the kinds of those subjects."""
_ABOUT_A_VERSION = frozenset({"policy_activated", "policy_promoted", "policy_restored", "policy_canary_started"})


@in_tenant(*MAY)
def search_events(request: TenantRequest) -> HttpResponse:
    called = actor_names(request.tenant.id)
    filters = AuditFilter(
        request.GET, people=_people(request, called), kinds=sorted(EVENT_KINDS, key=labels.event_label)
    )
    wanted = _search_query(request, filters)
    found = search.search_events(request.tenant.id, wanted, before=_cursor(request), limit=PAGE + 1) if wanted else []
    last = search.next_cursor(wanted, found[PAGE - 1]) if wanted and len(found) > PAGE else ""
    order = "oldest first" if _upwards(request) else "newest first"
    context = {
        "here": "audit",
        "tabs": audit_tabs(request, "audit"),
        "filters": filters,
        "kept": {"sort": request.GET["sort"]} if _upwards(request) else {},
        "rows": _events(request, found[:PAGE], called, shown=AUDIT_LIST.shown_columns(request.GET)),
        "order": f"by action, the {order}" if wanted and wanted.by_action else order,
        **list_context(request, AUDIT_LIST, sort="oldest" if _upwards(request) else ""),
        "older": _address(request, last) if last else "",
        "newest": _address(request, "") if _cursor(request) else "",
        "empty": "No matching event" if filters.changed_data else "No events yet",
    }
    return render(request, "audit/_list.html" if request.htmx else "audit/list.html", context)


def exported_events(request: TenantRequest) -> list[dict[str, Any]]:
    """The first events that the list shows."""
    called = actor_names(request.tenant.id)
    filters = AuditFilter(request.GET, people=_people(request, called), kinds=sorted(EVENT_KINDS))
    if not filters.is_valid():
        raise FilterNotValid
    wanted = _search_query(request, filters)
    found = search.search_events(request.tenant.id, wanted, limit=MOST_EXPORTED) if wanted else []
    titles = titles_of(request.tenant.id, [(each.subject_kind, each.subject_id) for each in found])
    return [
        {
            "event": each,
            "title": titles.get(each.subject_id, ""),
            "by": called.get(each.actor_id, each.actor_kind),
        }
        for each in found
    ]


@in_tenant(*MAY)
def suggest_objects(request: TenantRequest) -> HttpResponse:
    """Suggest objects for the text in the filter."""
    typed = request.GET.get("action", request.GET.get("thing", ""))[:200]
    found = searching.search(request.tenant.id, typed, with_people=False)
    offered = [(target, "Target") for target in found.targets]
    offered += [(str(each.id), labels.SUBJECTS.get(each.kind, each.kind)) for each in found.subjects]
    offered += [(str(each.id), labels.action_title(each.operation_kind, each.target)) for each in found.actions]
    options = format_html_join("", '<option value="{}">{}</option>', offered)
    return HttpResponse(options)


def exported_sightings(request: TenantRequest) -> list[dict[str, Any]]:
    """The newest page views that the filters leave."""
    called = actor_names(request.tenant.id)
    filters = SightingFilter(request.GET, people=_people(request, called))
    if not filters.is_valid():
        raise FilterNotValid
    found = _filtered_sightings(request, filters, limit=MOST_EXPORTED)
    titles = _sighting_titles(request, found)
    return [
        {"seen": each, "who": called.get(each.actor_id, "somebody"), "title": titles.get(each.id, "")} for each in found
    ]


@in_tenant(*MAY)
def sightings(request: TenantRequest) -> HttpResponse:
    called = actor_names(request.tenant.id)
    filters = SightingFilter(request.GET, people=_people(request, called))
    found = _filtered_sightings(request, filters)
    context = {
        "here": "audit",
        "tabs": audit_tabs(request, "sightings"),
        "filters": filters,
        "rows": _sightings(request, found[:PAGE], called),
        "answer": _readers_sentence(request, found[:PAGE]) if not filters.changed_data and not _cursor(request) else "",
        **list_context(request, SIGHTINGS_LIST),
        "older": _address(request, str(found[PAGE - 1].id)) if len(found) > PAGE else "",
        "newest": _address(request, "") if _cursor(request) else "",
        "empty": "No matching access" if filters.changed_data else "No access yet",
    }
    return render(request, "audit/_sightings.html" if request.htmx else "audit/sightings.html", context)


def _readers_sentence(request: TenantRequest, newest: Sequence[Any]) -> str:
    """The number of people who opened a page about something in the last 24 hours, as far as the first page tells."""
    since = request.as_of - timedelta(days=1)
    recent = [each for each in newest if each.at >= since]
    people = len({each.actor_id for each in recent})
    least = "At least " if len(recent) == PAGE else ""
    said = f"{least}{people} {'person' if people == 1 else 'people'}" if people else "Nobody"
    return f"{said} opened a page about something in the last 24 hours."


@in_tenant()
def event(request: TenantRequest, subject_id: UUID, seq: int) -> HttpResponse:
    """One event, as hashed, wherever it belongs."""
    found = events.event_with_detail(request.tenant.id, subject_id, seq)
    if found is None:
        raise Http404
    row, snapshot, detail = found
    if row.subject_kind in ABOUT_PEOPLE and not request.caller.roles & frozenset(MAY):
        raise NotAllowed("Events about people and keys are for compliance and administrators.")
    context = {
        "here": "audit" if request.caller.roles & frozenset(MAY) else "actions",
        "event": row,
        "word": labels.event_label(row.kind),
        "meaning": EVENT_KINDS[row.kind].meaning if row.kind in EVENT_KINDS else "",
        "subject": labels.SUBJECTS.get(row.subject_kind, labels.sentence_case(row.subject_kind)),
        "subject_href": _policy_page(request, row.kind, detail) or _page(request, row.subject_kind, row.subject_id),
        "actor": actor_names(request.tenant.id).get(row.actor_id, row.actor_kind),
        "proof": (proof := proof_panel(request.tenant.slug, request.tenant.id, row)),
        "place": proof["place"] if proof else None,
        "entry_hash": bytes(row.entry_hash).hex(),
        "prev_hash": bytes(row.prev).hex() if row.prev else "",
        "envelope": bytes(row.envelope).decode(),
        "entry": format_json(snapshot) if snapshot else "",
        "detail": format_json(detail) if detail else "",
    }
    return render(request, "audit/_event.html" if request.htmx else "audit/event.html", context)


def _policy_page(request: TenantRequest, kind: str, detail: dict[str, Any] | None) -> str:
    """The page of the version of a policy that an event put in force, or on canary."""
    if kind not in _ABOUT_A_VERSION or not detail:
        return ""
    return reverse("policy", args=[request.tenant.slug, detail["kind"], detail["version"]])


def audit_tabs(request: TenantRequest, current: str) -> list[dict[str, Any]]:
    """The tabs of the Audit pages."""
    return [
        {"word": word, "href": reverse(name, args=[request.tenant.slug]), "current": name == current}
        for name, word in TABS.items()
    ]


def _people(request: TenantRequest, names: dict[UUID, str]) -> list[tuple[str, str]]:
    """The possible actors by name: people first, then keys, then the console itself."""
    people = {each.actor_id: names[each.actor_id] for each in directory.members(request.tenant.id)}
    keys = {each.actor_id: f"{each.name} (key)" for each in directory.api_keys(request.tenant.id)}
    named = [*sorted(people.items(), key=lambda one: one[1]), *sorted(keys.items(), key=lambda one: one[1])]
    return [(str(actor), name) for actor, name in (*named, (SYSTEM_ACTOR, "Counterfoil"))]


def _search_query(request: TenantRequest, filters: AuditFilter) -> search.SearchQuery | None:
    """The query of the filters; None if they are contradictory."""
    if not filters.is_valid():
        return None
    chosen, span = filters.cleaned_data, filters.span()
    subjects = _subjects(request.tenant.id, chosen["action"], filters.subject())
    if chosen["action"] and not subjects:
        return None
    person = UUID(chosen["who"]) if chosen["who"] else None
    return search.SearchQuery(
        actor=person,
        actor_kind="person" if person and _is_person(request, person) else "",
        kind=chosen["kind"],
        subject_kind=chosen["about"],
        subjects=subjects,
        agent=chosen["agent"],
        target=chosen["target"],
        since=span.get("since"),
        until=span.get("until"),
        upwards=_upwards(request),
    )


def _upwards(request: TenantRequest) -> bool:
    return request.GET.get("sort") == "oldest"


def _subjects(tenant_id: UUID, typed: str, named: UUID | None) -> tuple[UUID, ...]:
    """The subjects meant by the text in the filter: one by its id, or the few that a search finds,
    each with its own.
    """
    if named is not None:
        return _related_subjects(tenant_id, named)
    found = searching.search(tenant_id, typed, with_people=False) if typed else searching.SearchResult()
    ids = dict.fromkeys([each.id for each in found.subjects] + [each.id for each in found.actions])
    return tuple(dict.fromkeys(each for one in ids for each in _related_subjects(tenant_id, one)))


def _is_person(request: TenantRequest, actor: UUID) -> bool:
    return any(each.actor_id == actor for each in directory.members(request.tenant.id))


def _related_subjects(tenant_id: UUID, subject: UUID) -> tuple[UUID, ...]:
    """Return a subject and its related ones: an action with its approvals and cases."""
    approvals = [each.id for each in approvals_queries.approvals_of(tenant_id, subject)]
    cases = [each.id for each in after.cases_of(tenant_id, subject)]
    return (subject, *approvals, *cases)


def _cursor(request: TenantRequest) -> str:
    """The position in the address: an id, with a number if events of one action are listed; else none."""
    asked = str(request.GET.get("before", ""))
    named, _, number = asked.partition(".")
    known = storage.is_uuid(named) and (not number or (number.isascii() and number.isdecimal() and len(number) < 10))
    return asked if known else ""


def _address(request: TenantRequest, last: str) -> str:
    kept = {name: value for name, value in request.GET.items() if value and name != "before"}
    return f"{request.path}?{urlencode({**kept, 'before': last} if last else kept)}"


def _filtered_sightings(request: TenantRequest, filters: SightingFilter, *, limit: int = PAGE + 1) -> list[Any]:
    if not filters.is_valid():
        return []
    chosen = filters.cleaned_data
    things = _subjects(request.tenant.id, chosen["thing"], filters.subject())
    if chosen["thing"] and not things:
        return []
    return directory.sightings(
        request.tenant.id,
        actor=UUID(chosen["who"]) if chosen["who"] else None,
        things=things,
        kind=chosen["kind"],
        before=UUID(_cursor(request).partition(".")[0]) if _cursor(request) else None,
        limit=limit,
        **filters.span(),
    )


def _page(request: TenantRequest, kind: str, subject: UUID) -> str:
    """Return the page of a subject, if it has one."""
    try:
        return reverse(PAGES[kind], args=[request.tenant.slug, subject])
    except (KeyError, NoReverseMatch):
        return ""


# Rows are written in Python, as on the Actions page: the template engine costs more than the query.


def _events(
    request: TenantRequest, found: list[search.FoundEvent], called: dict[UUID, str], *, shown: Sequence[Column]
) -> SafeString:
    places = search.log_positions(request.tenant.id, [(each.subject_id, each.seq) for each in found])
    titles = titles_of(request.tenant.id, [(each.subject_kind, each.subject_id) for each in found])
    # Only of a success the entry tells which one it was.
    settled = [
        (each.subject_id, each.seq) for each in found if each.state == State.RECONCILED_SUCCESS != each.from_state
    ]
    entries = events.entries_at(request.tenant.id, settled) if settled else {}
    names, seen = [each.name for each in shown], {"as_of": request.as_of}
    rows = []
    for each in found:
        cells = _cells(
            request,
            each,
            actor=called.get(each.actor_id, each.actor_kind),
            place=places.get((each.subject_id, each.seq)),
            title=titles.get(each.subject_id, ""),
            state=_state_change(each, entries.get((each.subject_id, each.seq))),
            when=moment(seen, each.at),
        )
        rows.append(f'<tr data-item data-part="{each.id}">{"".join(cells[name] for name in names)}</tr>')
    return mark_safe("".join(rows))


def _cells(
    request: TenantRequest,
    event: search.FoundEvent,
    *,
    actor: str,
    place: Any,
    title: str,
    state: str,
    when: SafeString,
) -> dict[str, str]:
    href = reverse("event", args=[request.tenant.slug, event.subject_id, event.seq])
    page = _page(request, event.subject_kind, event.subject_id)
    subject = labels.SUBJECTS.get(event.subject_kind, labels.sentence_case(event.subject_kind))
    name = f"{subject} {plainly(title)}" if title else f'{subject} <span class="id">{event.subject_id}</span>'
    about = f'<a class="over" href="{page}">{name}</a>' if page else name
    word = escape(labels.event_label(event.kind))
    return {
        "event": f'<td class="nowrap"><a class="open" href="{href}" data-inspect>{word}</a></td>',
        "object": f'<td class="clip">{about}</td>',
        "by": f'<td class="nowrap"><a href="?who={event.actor_id}">{plainly(actor)}</a></td>',
        "state": f'<td class="nowrap muted roomy">{state}</td>',
        "index": f'<td class="nowrap mono">{standing(place)}</td>',
        "when": f'<td class="num fit">{when}</td>',
        "kind": f'<td class="nowrap mono">{escape(event.kind)}</td>',
        "seq": f'<td class="num">{event.seq}</td>',
        "id": f'<td class="nowrap mono">{event.id}</td>',
    }


def _state_change(event: search.FoundEvent, entry: dict[str, Any] | None) -> str:
    if event.state == event.from_state:
        return ""
    reached = labels.step_label(event.subject_kind, event.kind, event.state, entry=entry)
    return "" if reached == labels.event_label(event.kind) else escape(reached)


def _sightings(request: TenantRequest, found: list[Any], names: dict[UUID, str]) -> SafeString:
    shown, titles = {"as_of": request.as_of}, _sighting_titles(request, found)
    return mark_safe(
        "".join(_sighting(request, each, names, titles.get(each.id, ""), when=moment(shown, each.at)) for each in found)
    )


def _sighting_titles(request: TenantRequest, found: list[Any]) -> dict[UUID, str]:
    """The name of what each page was about, by row: of the thing itself, else of the action that it belongs to."""
    things = [(kind, each.thing_id) for each in found for kind in _SHOWN_AS.get(each.kind, (each.kind,))]
    things += [("action", each.about_id) for each in found if each.about_id is not None]
    titles = titles_of(request.tenant.id, things)
    shown = {each.id: titles.get(each.thing_id) or titles.get(each.about_id) for each in found}
    return {row: title for row, title in shown.items() if title}


def _sighting(request: TenantRequest, row: Any, names: dict[UUID, str], title: str, *, when: SafeString) -> str:
    href = _page(request, row.kind, row.thing_id)
    word = labels.SEEN.get(row.kind, row.kind)
    is_list = row.thing_id == uuid5(request.tenant.id, row.kind)
    name = plainly(title) if title else "" if is_list else f'<span class="id">{row.thing_id}</span>'
    thing = f"{word} {name}".strip()
    opened = f'<a class="open" href="{href}">{thing}</a>' if href else thing
    return (
        f'<tr data-item data-part="{row.id}">'
        f'<td class="nowrap">{plainly(names.get(row.actor_id, "somebody"))}</td>'
        f'<td class="clip">{opened}</td>'
        f'<td class="num fit">{when}</td></tr>'
    )
