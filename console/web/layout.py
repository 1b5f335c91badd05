"""What stands around every page of a tenant: the rail with its counters, the header, what is frozen."""

from __future__ import annotations

from typing import Any, Final

from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import SimpleLazyObject

from approvals.requests.queries import approvals
from approvals.voting.queries import approvers
from console.accounts import queries as accounts_queries
from console.notifications import queries as notices
from console.pages.approvals import eligibility
from console.pages.calls.context import gate_intake
from console.pages.ledger.log_status import log_status
from console.web import labels
from console.web.form_pages import find_page
from ledger.actions.queries import freezes as freezes_queries
from ledger.log.queries import log
from ledger.record.queries import events
from reviews import queries as after

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
EVERYTHING: Final = frozenset({"tenant", "all"})


def page_layout(request: HttpRequest) -> dict[str, Any]:
    """The context of every page in a tenant; fragments that do not use it cost nothing."""
    if not hasattr(request, "caller"):
        return {}
    return {
        "as_of": request.as_of,  # type: ignore[attr-defined]
        **_address(request),
        "frame": SimpleLazyObject(lambda: _frame(request)),
        "intake": SimpleLazyObject(lambda: gate_intake(request.tenant.id, at=request.as_of)),  # type: ignore[attr-defined]
    }


def _address(request: HttpRequest) -> dict[str, str]:
    """Where this page can be read again, without and with its filters; a refused form has no address of its own."""
    if request.method in ("GET", "HEAD"):
        return {"page_path": request.path, "page_address": request.get_full_path()}
    page = find_page(request.path)
    return {"page_path": page, "page_address": page}


def _frame(request: Any) -> dict[str, Any]:
    tenant, slug = request.tenant, request.tenant.slug
    counts = {
        "approvals": _approvals(request),
        "cases": after.count_waiting_cases(tenant.id, at=request.as_of, most=100)[0],
        "incidents": len(after.incidents(tenant.id, limit=100)),
    }
    freezes = freezes_queries.freezes_in_force(tenant.id)
    return {
        "tenant": tenant,
        "tenants": _tenants(request),
        "home": reverse("home", args=[slug]),
        "stream": f"/api/v1/stream?tenant={slug}",
        "search": reverse("actions", args=[slug]),
        "searched": request.GET.get("q", ""),
        "places": [
            {
                "name": name,
                "key": key,
                "icon": name,
                "word": word,
                "href": reverse(name, args=[slug]),
                "count": _capped(counts.get(name, 0)),
            }
            for name, key, word in _PLACES
            if name not in _ONLY_FOR or _ONLY_FOR[name] & request.caller.roles
        ],
        "seal": log_status(tenant.id, at=request.as_of),
        "alarms": [labels.alarm_label(each.kind) for each in log.alarms(tenant.id)],
        "ledger": reverse("ledger", args=[slug]),
        "glass": approvers.emergencies(tenant.id, limit=10),
        "emergencies": reverse("emergencies", args=[slug]),
        "me": reverse("me", args=[slug]),
        "unread": _capped(notices.count_unread(tenant.id, request.caller.actor.id)),
        "freezes": freezes,
        "stops": [freeze for freeze in freezes if freeze.scope in EVERYTHING],
        "person": {"name": request.caller.name, "roles": ", ".join(sorted(request.caller.roles)) or "no role"},
    }


def _approvals(request: Any) -> int:
    """How many approvals wait: of a reviewer those that they can decide, of anybody else all."""
    if "reviewer" not in request.caller.roles:
        return len(approvals.waiting_times(request.tenant.id, most=100))
    waiting = approvals.approvals(request.tenant.id, limit=100)
    me, roles = request.caller.actor.id, request.caller.roles
    bars = eligibility.ineligibility_reasons(request.tenant.id, waiting, me, roles, at=request.as_of)
    return sum(not why_not for why_not in bars.values())


def _tenants(request: Any) -> list[dict[str, str]]:
    places = [events.tenant_by_id(place.tenant_id) for place in accounts_queries.memberships(request.user)]
    return [{"name": each.name, "href": reverse("home", args=[each.slug])} for each in places]


def _capped(count: int) -> str:
    return "99+" if count > 99 else str(count or "")
