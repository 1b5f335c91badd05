"""Home: items waiting for this person, unknown outcomes, and the state of the console itself."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from approvals.agents import queries as agents_queries
from approvals.gate import queries as gate_queries
from approvals.requests.queries import approvals as approvals_queries
from console.calls import context as calls_context
from console.claims.lists import count_recent_claims
from console.edge.http import TenantRequest, in_tenant
from console.home.first_tool import first_tool_guide
from console.home.headline import HomeFacts, describe_home, describe_standing
from console.home.inbox import MOST, SETTLED, AwaitedDecision, group_like_items, inbox_items
from console.home.split_view import split_view_of
from console.metrics import queries as metrics
from console.metrics.context import last_day
from console.notifications import queries as notices
from console.systems import context as systems_context
from console.web import labels
from console.web.labels import action_title
from ledger.actions.queries import actions as actions_queries
from reviews import queries as after
from reviews.readback.rules.circuit import CircuitState
from reviews.reporting.queries import money_differences
from reviews.reporting.rules.at_stake import describe_stake

if TYPE_CHECKING:
    from ledger.models import Action

UNKNOWN = ("UNKNOWN", "VERIFICATION_TIMEOUT")
HELD = ("REVIEW_REQUIRED",)
VERIFYING = ("PENDING", "COMMITTED")
MOST_ROWS = 12
SOON = timedelta(hours=1)


@in_tenant()
def page(request: TenantRequest) -> HttpResponse:
    items = inbox_items(request.tenant, request.caller, at=request.as_of)
    figures, systems, warnings = _figures(request), _systems(request), _warnings(request)
    context = {
        "here": "home",
        "guide": first_tool_guide(request),
        "standing": describe_home(
            _standing(request, figures, systems, warnings),
            mine=Counter(each.kind for each in items),
            is_cut_off=len(items) >= MOST,
            stake=_stake(request.tenant.id, items),
        ),
        "figures": [each for each in figures if each["count"]],
        "claims": count_recent_claims(request),
        "day": last_day(request.tenant, at=request.as_of),
        "waiting": group_like_items(items, request.tenant.slug),
        "troubled": _troubled_rows(request),
        "systems": systems,
        "refused": _refused_rows(request),
        "settled": _settled_rows(request),
        "may_lift": bool({"operator", "administrator"} & request.caller.roles),
        **warnings,
    }
    return render(request, "home/_page.html" if request.htmx else "home/page.html", context)


@in_tenant()
def list_beside(request: TenantRequest) -> HttpResponse:
    """Return only the list of a split view, for a page that shows it already."""
    if not request.htmx or split_view_of(request) is None:
        return redirect("home", request.tenant.slug)
    return render(request, "_beside.html")


def _count_undelivered(request: TenantRequest) -> int:
    """The number of undelivered messages, for people who can act on it."""
    if "administrator" not in request.caller.roles:
        return 0
    return notices.delivery_status(request.tenant.id, at=request.as_of)["undelivered"]


def present_standing(request: TenantRequest) -> str:
    """The present problems, for a page that begins with what is wrong now."""
    return describe_standing(_standing(request, _figures(request), _systems(request), _warnings(request)))


def _standing(
    request: TenantRequest,
    figures: list[dict[str, Any]],
    systems: list[dict[str, Any]],
    warnings: dict[str, Any],
) -> HomeFacts:
    counted = {each["word"]: each["count"] for each in figures}
    return HomeFacts(
        requests=counted["Waiting for approval"],
        cases=counted["Open cases"],
        incidents=counted["Open incidents"],
        unknown=counted["Unknown"],
        alerts=counted["Alerts"],
        failing=[each["name"] for each in systems if each["away"]],
        stranded=len(warnings["stranded"]),
        flagged=len(warnings["flagged"]),
        undelivered=warnings["undelivered"],
    )


def _warnings(request: TenantRequest) -> dict[str, Any]:
    return {
        "undelivered": _count_undelivered(request),
        "stranded": approvals_queries.stranded_approvals(request.tenant.id, limit=MOST_ROWS),
        "flagged": [
            {"agent": each, "flags": calls_context.flag_rows(each)}
            for each in agents_queries.flagged_agents(request.tenant.id, limit=MOST_ROWS)
        ],
    }


def _stake(tenant: UUID, items: list[AwaitedDecision]) -> str:
    """The money at stake in the reader's cases; empty if the list may be incomplete."""
    cases = {each.action.id: each.payload for each in items if each.kind == "case" and each.action is not None}
    if not cases or len(items) >= MOST:
        return ""
    known = money_differences(tenant, list(cases))
    return describe_stake((payload, known.get(action_id)) for action_id, payload in cases.items())


def _figures(request: TenantRequest) -> list[dict[str, Any]]:
    tenant, slug = request.tenant.id, request.tenant.slug
    actions, approvals = reverse("actions", args=[slug]), reverse("approvals", args=[slug])
    asked = approvals_queries.waiting_times(tenant)
    soon = [each for each in asked if each[1] <= request.as_of + SOON]
    unknown, held, verifying = actions_queries.count_standings(tenant, HELD, VERIFYING)
    counted = (
        ("approvals", "Waiting for approval", approvals, _oldest(asked)),
        ("clock", "Due within an hour", f"{approvals}?sort=deadline", _oldest(soon)),
        ("cases", "Open cases", reverse("cases", args=[slug]), after.count_waiting_cases(tenant, at=request.as_of)),
        ("incidents", "Open incidents", reverse("incidents", args=[slug]), _incidents(tenant)),
        ("state-unknown", "Unknown", f"{actions}?outcome={actions_queries.NOT_KNOWN}", unknown),
        ("state-held", "Needs review", f"{actions}?outcome=NEEDS_REVIEW", held),
        ("bell", "Alerts", f"{reverse('metrics', args=[slug])}#alerts", _alerts(tenant)),
        ("state-verifying", "Verifying", f"{actions}?outcome=VERIFYING", verifying),
    )
    return [
        {"icon": icon, "word": word, "href": href, "count": count, "oldest_at": oldest}
        for icon, word, href, (count, oldest) in counted
    ]


def _oldest(asked: list[tuple[datetime, datetime]]) -> tuple[int, datetime | None]:
    """The number of these approvals, and the time since which the oldest waits."""
    return len(asked), min((since for since, _ in asked), default=None)


def _incidents(tenant: UUID) -> tuple[int, Any]:
    """The number of open incidents, and the time since which the oldest is open."""
    found = after.open_incidents(tenant)
    return len(found), min((each.opened_at for each in found), default=None)


def _alerts(tenant: UUID) -> tuple[int, Any]:
    """The number of open metric alerts, and the time since which the oldest is open."""
    found = metrics.open_alerts(tenant).values()
    return len(found), min((each.raised_at for each in found), default=None)


def _troubled_rows(request: TenantRequest) -> list[dict[str, Any]]:
    found = actions_queries.actions(request.tenant.id, states=[*UNKNOWN, *HELD], limit=MOST_ROWS)
    return [_row(request, each) for each in sorted(found, key=lambda each: each.changed_at)]


def _settled_rows(request: TenantRequest) -> list[dict[str, Any]]:
    return [_row(request, each) for each in actions_queries.actions(request.tenant.id, states=list(SETTLED), limit=6)]


def _row(request: TenantRequest, action: Action) -> dict[str, Any]:
    found = labels.finding_label(action)
    return {
        "action": action,
        "href": reverse("action", args=[request.tenant.slug, action.id]),
        "title": _title(action),
        "sub": f"{action.agent}, {action.tool}" + (f": {found.lower()}" if found else ""),
        "since": action.changed_at,
    }


def _systems(request: TenantRequest) -> list[dict[str, Any]]:
    """Return the verification debt of each authoritative system, and the time of its last answer."""
    href = reverse("systems", args=[request.tenant.slug])
    return [
        {
            "name": each.name,
            "href": f"{href}#system-{each.id}",
            "waiting": each.debt.waiting,
            "oldest_at": each.debt.oldest_at,
            "answered_at": each.health.last_success_at,
            "away": each.standing is not CircuitState.CLOSED,
            "stopped": each.stop is not None,
        }
        for each in systems_context.all_systems(request.tenant.id, at=request.as_of)
    ]


def _refused_rows(request: TenantRequest) -> list[dict[str, Any]]:
    since = request.as_of - timedelta(days=1)
    return [
        {
            "reason": call.reason,
            "agent": call.agent_id,
            "tool": call.tool,
            "href": reverse("session", args=[request.tenant.slug, call.session_id]),
            "at": call.at,
        }
        for call in gate_queries.refused_calls(request.tenant.id, since=since, limit=6)
    ]


def _title(action: Action) -> str:
    return action_title(action.operation_kind, action.target)
