"""The results on the search page and in the palette, each with its page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from django.urls import resolve, reverse

from console.actions.action_record import payloads_of
from console.audit.views import ABOUT_PEOPLE, MAY, PAGES
from console.edge.http import TenantRequest
from console.glossary.codes import code_groups
from console.metrics.rules.catalogue import METRICS
from console.search.queries import MOST, SHORTEST_PART, FoundName, FoundSubject, SearchResult
from console.templatetags.console import target_page
from console.web import labels
from console.web.labels import action_title

if TYPE_CHECKING:
    from approvals.models import Session
    from ledger.models import Action

# The pages that a name leads to, as the rail and the pages themselves call them.
NAMED: Final = (
    ("home", "Home", "inbox waiting"),
    ("approvals", "Approvals", "queue"),
    ("cases", "Cases", "unknown review"),
    ("incidents", "Incidents", ""),
    ("incident-new", "Report an incident", "open new"),
    ("actions", "Actions", "log"),
    ("agents", "Agents", ""),
    ("calls", "Calls", "gate refused"),
    ("hallucinations", "Hallucinations", "phantom"),
    ("recordings", "Recordings", "transcripts"),
    ("contracts", "Contracts", "tools"),
    ("policies", "Policies", "rules"),
    ("releases", "Releases", "canary"),
    ("standing-approvals", "Standing approvals", ""),
    ("emergencies", "Break-glass", "emergency"),
    ("quality", "Approval quality", "reviewers"),
    ("systems", "Systems", "readback"),
    ("freezes", "Freezes", "stop"),
    ("metrics", "Metrics", "figures alerts"),
    ("ledger", "Ledger", "log checkpoint proof seal integrity"),
    ("audit", "Audit", "events"),
    ("sightings", "Access log", "audit page views"),
    ("exports", "Exports", "audit bundle"),
    ("holds", "Holds and erasure", "audit retention"),
    ("people", "People", "members keys roles"),
    ("notices", "Notifications", "messages"),
    ("notice-channels", "Notification channels", "mail slack webhook"),
    ("runbooks", "Runbooks", ""),
    ("glossary", "Glossary", "words terms"),
    ("help", "Help", "docs"),
    ("me", "My account", "profile absence delegation"),
)
_KINDS: Final = {
    "tool": ("Tool", "Tools"),
    "agent": ("Agent", "Agents"),
    "system": ("System", "Systems"),
    "person": ("Person", "People"),
    "run": ("Run", "Runs"),
    "policy": ("Policy", "Policies"),
}


@dataclass(frozen=True, slots=True)
class SearchItem:
    """One search result: its kind, its name, further facts, and its page."""

    kind: str
    name: str
    href: str
    more: str = ""
    action: Action | None = None


@dataclass(frozen=True, slots=True)
class SearchGroup:
    """Results of one kind."""

    word: str
    items: list[SearchItem]


def pages_named(request: TenantRequest, typed: str) -> list[SearchItem]:
    """The pages whose name or subject begins with the typed text and that this person may open; all for an
    empty text.
    """
    asked = typed.casefold().split()
    slug, roles = request.tenant.slug, request.caller.roles
    found = []
    for name, word, also in NAMED:
        words = f"{word} {also}".casefold().split()
        if not all(any(each.startswith(part) for each in words) for part in asked):
            continue
        href = reverse(name, args=[slug])
        admitted: frozenset[str] = getattr(resolve(href).func, "admitted_roles", frozenset())
        if not admitted or admitted & roles:
            found.append(SearchItem("Page", word, href))
    return found


def codes_named(request: TenantRequest, typed: str) -> list[SearchItem]:
    """The codes of the glossary and the figures that begin with the typed text, or have it in their words."""
    asked, slug = typed.strip().casefold(), request.tenant.slug
    if len(asked) < SHORTEST_PART:
        return []
    glossary, figures = reverse("glossary", args=[slug]), reverse("metrics", args=[slug])
    known = [
        *((each.code, each.words, f"{glossary}#{each.anchor}") for group in code_groups() for each in group.codes),
        *((each.id, each.words, f"{figures}#{each.id.lower()}") for each in METRICS),
    ]
    found = [
        SearchItem("Code", code, href, words)
        for code, words, href in known
        if code.casefold().startswith(asked) or (len(asked) > SHORTEST_PART and asked in words.casefold())
    ]
    return found[:MOST]


def groups_of(request: TenantRequest, found: SearchResult, typed: str = "") -> list[SearchGroup]:
    """The results in groups, most exact first, without empty groups."""
    slug = request.tenant.slug
    payloads = payloads_of(request.tenant.id, found.actions)
    groups = [
        SearchGroup("By id", [_subject(request, each) for each in found.subjects if _is_open(request, each)]),
        *(
            SearchGroup(word, [_name(slug, each) for each in found.names if each.kind == kind])
            for kind, (_, word) in _KINDS.items()
        ),
        SearchGroup("Codes", codes_named(request, typed)),
        SearchGroup("Sessions", [_session(slug, each) for each in found.sessions]),
        SearchGroup("Targets", [SearchItem("Target", each, target_page(slug, each)) for each in found.targets]),
        SearchGroup("Actions", [_action(slug, each, payloads.get(each.id, {})) for each in found.actions]),
    ]
    return [group for group in groups if group.items]


def _is_open(request: TenantRequest, found: FoundSubject) -> bool:
    return found.kind not in ABOUT_PEOPLE or bool(request.caller.roles & frozenset(MAY))


def _subject(request: TenantRequest, found: FoundSubject) -> SearchItem:
    slug = request.tenant.slug
    word = labels.SUBJECTS.get(found.kind, labels.sentence_case(found.kind))
    own_page = reverse(PAGES[found.kind], args=[slug, found.id]) if found.kind in PAGES else ""
    return SearchItem(word, str(found.id), own_page or reverse("event", args=[slug, found.id, found.seq]))


def _name(slug: str, found: FoundName) -> SearchItem:
    pages = {
        "tool": ("contract", (found.name, found.more)),
        "agent": ("agent", (found.name,)),
        "run": ("run", (found.name,)),
        "person": ("member", (found.id,)),
        "policy": ("policy", (found.more, found.name)),
        "system": ("systems", ()),
    }
    page, place = pages[found.kind]
    more = labels.sentence_case(found.more) if found.kind in ("policy", "system") else found.more
    return SearchItem(_KINDS[found.kind][0], found.name, reverse(page, args=[slug, *place]), more)


def _session(slug: str, session: Session) -> SearchItem:
    return SearchItem("Session", session.goal, reverse("session", args=[slug, session.id]), session.agent_id)


def _action(slug: str, action: Action, payload: dict[str, object]) -> SearchItem:
    title = action_title(action.operation_kind, action.target, payload)
    return SearchItem("Action", title, reverse("action", args=[slug, action.id]), action.agent, action)
