"""Policies: the versions in force, their history, authors and changes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from console.accounts.queries import actor_names
from console.accounts.step_up import is_recently_authenticated
from console.edge.http import TenantRequest, in_tenant
from console.policies.policy_changes import compare_documents
from console.policies.policy_sentences import KIND_NAMES, KIND_QUESTIONS, finding_sentences, policy_topics
from console.releases import release_steps
from console.releases.forms import ReleaseWordForm, apply_word
from console.web import policy_simulation
from console.web.labels import format_json
from ledger.catalogue import queries as catalogue
from ledger.record.queries import events
from ledger.record.rules.canonical import parse
from ledger.record.rules.refusals import Refused
from ledger.verification.queries import storage

if TYPE_CHECKING:
    from ledger.models import PolicyVersion

PAGE = 50
MONTH = timedelta(days=30)
MOST_SHOWN = 200
MAY_RELEASE = ("administrator", "operator")
_CAME_IN_FORCE = frozenset({"policy_activated", "policy_promoted", "policy_restored"})
FOLDED_FROM = 15
"""A topic with as many sentences is folded up."""


@in_tenant()
def list_policies(request: TenantRequest) -> HttpResponse:
    active = catalogue.active_policies(request.tenant.id)
    rows = [active[kind] for kind in KIND_NAMES if kind in active]
    shown = [each | _version_content(each["row"]) for each in _with_history(request, rows)]
    context = {
        "here": "policies",
        "policies": shown,
        "folded_from": FOLDED_FROM,
        "may_release": _may_release(request),
    }
    return render(request, "policies/_list.html" if request.htmx else "policies/list.html", context)


@in_tenant()
def policy(request: TenantRequest, policy_kind: str, policy_version: str) -> HttpResponse:
    return _policy(request, _get_or_404(request, policy_kind, policy_version))


@in_tenant(*MAY_RELEASE)
@require_POST
def roll_back(request: TenantRequest, policy_kind: str, policy_version: str) -> HttpResponse:
    """An earlier version in force again, in one step and by one person."""
    row, form = _get_or_404(request, policy_kind, policy_version), ReleaseWordForm(request.POST)
    operation = partial(release_steps.roll_back, kind=policy_kind, version=policy_version)
    restored, status = apply_word(request, form, operation)
    if restored is None:
        return _policy(request, row, word=form, status=status)
    messages.success(request, f"Rolled back. Version {policy_version} is in force.")
    return redirect("policy", request.tenant.slug, policy_kind, policy_version)


def _may_release(request: TenantRequest) -> bool:
    return bool(frozenset(MAY_RELEASE) & request.caller.roles)


def _get_or_404(request: TenantRequest, kind: str, version: str) -> PolicyVersion:
    row = catalogue.policy_version(request.tenant.id, kind, version) if kind in KIND_NAMES else None
    if row is None:
        raise Http404
    return row


def _policy(
    request: TenantRequest, row: PolicyVersion, *, word: ReleaseWordForm | None = None, status: int = 200
) -> HttpResponse:
    policy_kind = row.kind
    may_come_back = word is not None or (_may_release(request) and release_steps.can_come_back(row))
    found = catalogue.policy_versions(request.tenant.id, policy_kind, before=_cursor(request), limit=PAGE + 1)
    context = {
        "here": "policies",
        "policy": _with_history(request, [row])[0] | _version_content(row),
        "document": format_json(parse(bytes(row.document))),
        "versions": _with_history(request, found[:PAGE]),
        "older": f"{request.path}?before={found[PAGE - 1].id}#versions" if len(found) > PAGE else "",
        "compared": _differences(request, row),
        "folded_from": FOLDED_FROM,
        "word": (word or ReleaseWordForm()) if may_come_back else None,
        "is_fresh": is_recently_authenticated(request),
    }
    name = "policies/_detail.html" if request.htmx else "policies/detail.html"
    return render(request, name, context, status=status)


@in_tenant()
def show_touched_actions(request: TenantRequest, policy_kind: str, policy_version: str) -> HttpResponse:
    """Show the actions of the last month that the version would have affected, had it been in force."""
    row = _get_or_404(request, policy_kind, policy_version)
    slug, until = request.tenant.slug, request.as_of
    context = {
        "here": "policies",
        "name": KIND_NAMES[policy_kind],
        "row": row,
        "href": reverse("policy", args=[slug, policy_kind, policy_version]),
    }
    try:
        simulation = policy_simulation.simulate_policy(
            request.tenant.id, policy_kind, parse(bytes(row.document)), since=until - MONTH, until=until
        )
    except Refused as refusal:
        return render(request, "policies/touched.html", context | {"refused": refusal.detail.rstrip(".")})
    context |= {
        "simulation": simulation,
        "touched": [
            {"shown": each, "href": reverse("action", args=[slug, each.action_id])}
            for each in simulation.touched[:MOST_SHOWN]
        ],
        "hidden": max(len(simulation.touched) - MOST_SHOWN, 0),
    }
    return render(request, "policies/touched.html", context)


def _with_history(request: TenantRequest, rows: Sequence[PolicyVersion]) -> list[dict[str, Any]]:
    """Return versions with the person who put each in force, the time, and the version that superseded it."""
    histories = events.histories(request.tenant.id, [row.id for row in rows])
    names = actor_names(request.tenant.id)
    return [_with_events(request, row, histories[row.id], names) for row in rows]


def _with_events(
    request: TenantRequest, row: PolicyVersion, history: list[Any], names: dict[UUID, str]
) -> dict[str, Any]:
    told = {event.kind: (event, detail) for event, _, detail in history}
    activated = next(((each, said) for each, _, said in reversed(history) if each.kind in _CAME_IN_FORCE), None)
    superseded = None if row.active else told.get("policy_superseded")
    slug = request.tenant.slug
    return {
        "row": row,
        "name": KIND_NAMES[row.kind],
        "question": KIND_QUESTIONS[row.kind],
        "href": reverse("policy", args=[slug, row.kind, row.version]),
        "set_by": names.get(activated[0].actor_id, activated[0].actor_kind) if activated else "",
        "reason": (activated[1] or {}).get("reason", "") if activated else "",
        "set_at": activated[0].at if activated else None,
        "release": reverse("release", args=[slug, row.release_id]) if row.release_id else "",
        "event": reverse("event", args=[slug, row.id, activated[0].seq]) if activated else "",
        "superseded_at": superseded[0].at if superseded else None,
        "superseded_by": superseded[1]["by"] if superseded else "",
        "superseded_href": reverse("policy", args=[slug, row.kind, superseded[1]["by"]]) if superseded else "",
    }


def _version_content(row: PolicyVersion) -> dict[str, Any]:
    """The content of a version and its findings; or the reason why this program refuses it, which it once did not."""
    document = bytes(row.document)
    try:
        return {"topics": policy_topics(row.kind, document), "findings": finding_sentences(row.kind, document)}
    except Refused as refusal:
        faults = [f"{each['path']}: {each['detail']}" for each in refusal.errors]
        return {"topics": (), "findings": (), "refused": "; ".join([refusal.detail.rstrip("."), *faults])}


def _differences(request: TenantRequest, row: PolicyVersion) -> dict[str, Any] | None:
    """The differences from another version: the one in the address, else the previous one; None for the first."""
    since = request.GET.get("since", "")
    other = catalogue.policy_version(request.tenant.id, row.kind, since) if since else None
    other = other or next(iter(catalogue.policy_versions(request.tenant.id, row.kind, before=row.id, limit=1)), None)
    if other is None:
        return None
    return {
        "version": other.version,
        "href": reverse("policy", args=[request.tenant.slug, other.kind, other.version]),
        **compare_documents(row.kind, bytes(other.document), bytes(row.document)),
    }


def _cursor(request: TenantRequest) -> UUID | None:
    asked = request.GET.get("before", "")
    return UUID(asked) if storage.is_uuid(asked) else None
