"""The frame of every page of a tenant: the rail with its counters, the header, the freezes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, NamedTuple

from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import SimpleLazyObject

from approvals.requests.queries import approvals
from console.accounts.sign_in.queries import lacks_second_factor
from console.approvals import eligibility
from console.calls.context import gate_intake
from console.edge.form_pages import find_page
from console.edge.frame_facts import MOST, FrameFacts, frame_facts, kept_frame_facts
from console.home.split_view import split_view_of
from console.ledger.log_status import describe_log
from console.web import labels
from console.web.confirmations import confirmations_for

_PLACES: Final = (
    ("home", "h", "Home"),
    ("approvals", "a", "Approvals"),
    ("cases", "c", "Cases"),
    ("incidents", "i", "Incidents"),
    ("actions", "x", "Actions"),
    ("agents", "g", "Agents"),
    ("contracts", "t", "Contracts"),
    ("policies", "o", "Policies"),
    ("systems", "s", "Systems"),
    ("metrics", "e", "Metrics"),
    ("ledger", "l", "Ledger"),
    ("audit", "u", "Audit"),
    ("people", "p", "People"),
)
_ONLY_FOR: Final = {
    "audit": frozenset({"compliance", "administrator"}),
    "people": frozenset({"administrator", "reviewer", "compliance"}),
}


class RailPlace(NamedTuple):
    """A page in the navigation, and its count; its icon and address have its name."""

    name: str
    key: str
    word: str
    href: str
    waiting: str


EVERYTHING: Final = frozenset({"tenant", "all"})


def page_layout(request: HttpRequest) -> dict[str, Any]:
    """Return the context of every page in a tenant, evaluated only where it is used."""
    if not hasattr(request, "caller"):
        return {}
    return {
        "as_of": request.as_of,  # type: ignore[attr-defined]
        **_address(request),
        "frame": SimpleLazyObject(lambda: _frame(request)),
        "split": SimpleLazyObject(lambda: split_view_of(request)),  # type: ignore[arg-type]
        "intake": SimpleLazyObject(lambda: gate_intake(request.tenant.id, at=request.as_of)),  # type: ignore[attr-defined]
    }


def _address(request: HttpRequest) -> dict[str, str]:
    """The address for reading this page again, without and with its filters; None for a refused form."""
    if request.method in ("GET", "HEAD"):
        return {"page_path": request.path, "page_address": request.get_full_path()}
    page = find_page(request.path)
    return {"page_path": page, "page_address": page}


def _frame(request: Any) -> dict[str, Any]:
    tenant, slug = request.tenant, request.tenant.slug
    facts = kept_frame_facts(tenant.id, request.caller.actor.id, lambda: _facts(request))
    counts = {"home": facts.inbox, "approvals": facts.approvals, "cases": facts.cases, "incidents": facts.incidents}
    return {
        "tenant": tenant,
        "tenants": [{"name": each.name, "href": reverse("home", args=[each.slug])} for each in request.tenants],
        "stream": f"/api/v1/stream?tenant={slug}",
        "search": reverse("search", args=[slug]),
        "searched": request.GET.get("q", ""),
        "places": tuple(
            RailPlace(name, key, word, reverse(name, args=[slug]), _format_count(counts.get(name, 0)))
            for name, key, word in _PLACES
            if name not in _ONLY_FOR or _ONLY_FOR[name] & request.caller.roles
        ),
        "seal": describe_log(facts.log, at=request.as_of),
        "alarms": [labels.alarm_label(kind) for kind in facts.alarms],
        "ledger": reverse("ledger", args=[slug]),
        "glass": facts.unreviewed,
        "break_glass": reverse("emergencies", args=[slug]),
        "me": reverse("me", args=[slug]),
        "unread": _format_count(facts.unread),
        "maintenance": facts.maintenance,
        "lacks_factor": lacks_second_factor(request.user, request.caller.roles),
        "freezes": facts.freezes,
        "stops": [freeze for freeze in facts.freezes if freeze.scope in EVERYTHING],
        "person": {
            "id": request.caller.actor.id,
            "name": request.caller.name,
            "roles": ", ".join(sorted(request.caller.roles)) or "no role",
        },
    }


def _facts(request: Any) -> FrameFacts:
    """Return the facts for the frame of a page. A count is shown only to people who can act on it."""
    tenant_id, me, roles = request.tenant.id, request.caller.actor.id, request.caller.roles
    found = frame_facts(tenant_id, me, at=request.as_of)
    if "reviewer" not in roles:
        found = replace(found, approvals=0)
    elif found.approvals:
        waiting = approvals.approvals(tenant_id, limit=MOST)
        bars = eligibility.ineligibility_reasons(tenant_id, waiting, me, roles, at=request.as_of)
        found = replace(found, approvals=sum(not why_not for why_not in bars.values()))
    if "operator" not in roles:
        found = replace(found, cases=0, own_cases=0, incidents=0)
    inbox = found.approvals + found.own_cases + found.incidents
    return replace(found, inbox=inbox + len(confirmations_for(request.caller, tenant_id)))


def _format_count(count: int) -> str:
    return "99+" if count > 99 else str(count or "")
