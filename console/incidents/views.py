"""Incidents: problems beyond one case, their containment, and how they ended."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from console.cases.containment import freeze_choices, freezes_asked_for, freezes_placed_message
from console.edge.http import TenantRequest, in_tenant
from console.incidents import verbs
from console.incidents.context import incident_context, postmortem_facts
from console.incidents.lists import INCIDENTS, TABS
from console.verbs.form import BodyForm
from console.verbs.verb import Ids, page_of
from console.web import labels
from console.web.forms import CloseIncidentForm, FreezeForm, LinkSubjectForm, NewIncidentForm
from ledger.actions.queries import actions
from ledger.catalogue.rules.targets import target_text
from reviews import queries
from reviews.cases.rules.runbooks import TAGS
from reviews.incidents import operations as incidents_operations
from reviews.incidents.rules import postmortem
from reviews.incidents.rules.incidents import IncidentKind, Severity

PAGE = 50


@in_tenant()
def list_incidents(request: TenantRequest) -> HttpResponse:
    tab = request.GET.get("tab", "")
    found, frame = INCIDENTS.read_page(request, PAGE)
    context = {
        "here": "incidents",
        "tabs": incident_tabs(request, tab),
        "incidents": INCIDENTS.rows_of(request, found),
        "tags": _tags(reverse("incidents", args=[request.tenant.slug]), tab, request.GET.get("tag", "")),
        "order": "newest first" if tab else "Most severe first, then oldest",
        **frame,
        "may_open": "operator" in request.caller.roles,
        "empty": TABS[tab][1],
    }
    return render(request, "incidents/_list.html" if request.htmx else "incidents/list.html", context)


def _tags(here: str, tab: str, chosen: str) -> list[dict[str, Any]]:
    """The parts of the taxonomy as links that keep the tab (R-CG-20)."""
    kept = {"tab": tab} if tab else {}
    links = [("", "All"), *((tag, tag.replace("_", " ").capitalize()) for tag in TAGS)]
    return [
        {"href": f"{here}?{urlencode(kept | ({'tag': tag} if tag else {}))}", "word": word, "current": tag == chosen}
        for tag, word in links
    ]


def incident_tabs(request: TenantRequest, current: str) -> list[dict[str, Any]]:
    """The tabs of incidents, freezes and runbooks."""
    slug = request.tenant.slug
    here = reverse("incidents", args=[slug])
    places = [(name, word, f"{here}?tab={name}" if name else here) for name, (word, _) in TABS.items()]
    places += [(name, name.capitalize(), reverse(name, args=[slug])) for name in ("freezes", "runbooks")]
    return [{"href": href, "word": word, "current": name == current} for name, word, href in places]


@in_tenant("operator")
@require_http_methods(["GET", "POST"])
def new_incident(request: TenantRequest) -> HttpResponse:
    form = NewIncidentForm(request.POST or None, initial=_about(request))
    if request.method != "POST" or not form.is_valid():
        context = {
            "here": "incidents",
            "form": form,
            "incidents_href": reverse("incidents", args=[request.tenant.slug]),
        }
        return render(request, "incidents/new.html", context, status=422 if form.is_bound else 200)
    chosen = form.cleaned_data
    row = incidents_operations.open_for_cause(
        tenant_id=request.tenant.id,
        title=chosen["title"],
        kind=IncidentKind(chosen["kind"]),
        severity=Severity(chosen["severity"]),
        runbook=chosen["runbook"],
        note=chosen["reason"],
        by=request.caller.actor,
        at=request.as_of,
    )
    for kind in ("case", "action"):
        if chosen[kind]:
            _link(request, row.id, kind, chosen[kind])
    messages.success(request, "Incident opened. Contain it first, then find the cause.")
    return redirect("incident", request.tenant.slug, row.id)


def _about(request: TenantRequest) -> dict[str, Any]:
    """Return the initial values of the form, from the case or the action that the person came from."""
    case_id, action_id = _parse_uuid(request.GET.get("case", "")), _parse_uuid(request.GET.get("action", ""))
    case = queries.case(request.tenant.id, case_id) if case_id else None
    if case is not None:
        return {"case": case.id, "title": f"{labels.case_label(case)}: {case.tool} on {target_text(case.target)}"}
    action = actions.action(request.tenant.id, action_id) if action_id else None
    return {"action": action.id, "title": f"{action.tool} on {target_text(action.target)}"} if action else {}


@in_tenant()
def incident(request: TenantRequest, incident_id: UUID) -> HttpResponse:
    return _page(request, incident_id=incident_id)


@in_tenant("operator")
@require_POST
def link_subject(request: TenantRequest, incident_id: UUID) -> HttpResponse:
    form = LinkSubjectForm(request.POST)
    subject = form.subject() if form.is_valid() else None
    if subject is None:
        messages.error(request, "Not linked: enter the id or address of a case or an action.")
        return _page(request, incident_id=incident_id, status=422)
    kind = "case" if queries.case(request.tenant.id, subject) else "action"
    _link(request, incident_id, kind, subject)
    messages.success(request, f"The {kind} linked to this incident.")
    return redirect("incident", request.tenant.slug, incident_id)


def _link(request: TenantRequest, incident_id: UUID, kind: str, subject: UUID) -> None:
    named = {"cases": [subject]} if kind == "case" else {"actions": [subject]}
    incidents_operations.link_subjects(
        tenant_id=request.tenant.id, incident_id=incident_id, by=request.caller.actor, at=request.as_of, **named
    )


@in_tenant("operator", "administrator")
@require_POST
def contain(request: TenantRequest, incident_id: UUID) -> HttpResponse:
    form = FreezeForm(request.POST, auto_id="stop-%s")
    wanted = freezes_asked_for(request.tenant.id, form) if form.is_valid() else []
    if form.errors:
        return _page(request, incident_id=incident_id, stop=form, status=422)
    for each in wanted:
        incidents_operations.freeze_scope(
            tenant_id=request.tenant.id, incident_id=incident_id, by=request.caller.actor, at=request.as_of, **each
        )
    messages.success(request, freezes_placed_message(form, wanted))
    return redirect("incident", request.tenant.slug, incident_id)


@in_tenant("operator")
@require_POST
def close(request: TenantRequest, incident_id: UUID) -> HttpResponse:
    form = CloseIncidentForm(request.POST)
    if not form.is_valid():
        return _page(request, incident_id=incident_id, closing=form, status=422)
    incidents_operations.close(
        tenant_id=request.tenant.id,
        incident_id=incident_id,
        note=form.cleaned_data["note"],
        freezes=form.freezes(),
        by=request.caller.actor,
        at=request.as_of,
    )
    messages.success(request, "Closed.")
    return redirect("incident", request.tenant.slug, incident_id)


@in_tenant()
def show_postmortem(request: TenantRequest, incident_id: UUID) -> HttpResponse:
    """The post-mortem as a page, from ledger facts only."""
    row = _get_or_404(request, incident_id)
    context = {
        "here": "incidents",
        "facts": postmortem_facts(request.tenant, row, as_of=request.as_of),
        "back": reverse("incident", args=[request.tenant.slug, row.id]),
        "export": reverse("incident-export", args=[request.tenant.slug, row.id]),
        "may_export": bool(_EXPORTERS & request.caller.roles),
    }
    return render(request, "incidents/review.html", context)


_EXPORTERS = frozenset({"operator", "compliance", "administrator"})
_FORMATS = {"md": "text/markdown; charset=utf-8", "html": "text/html; charset=utf-8"}


@in_tenant(*sorted(_EXPORTERS))
@require_POST
def export_postmortem(request: TenantRequest, incident_id: UUID) -> HttpResponse:
    """Return the post-mortem as a file, and record the export."""
    row = _get_or_404(request, incident_id)
    form = request.POST.get("format", "md")
    if form not in _FORMATS:
        raise Http404
    told = postmortem_facts(request.tenant, row, as_of=request.as_of)
    content = postmortem.render_markdown(told)
    if form == "html":
        content = render(request, "incidents/export.html", {"facts": told}).content.decode()
    incidents_operations.record_export(
        tenant_id=request.tenant.id, incident_id=row.id, form=form, by=request.caller.actor, at=request.as_of
    )
    answer = HttpResponse(content, content_type=_FORMATS[form])
    answer["Content-Disposition"] = f'attachment; filename="incident-{row.id}.{form}"'
    return answer


def _page(
    request: TenantRequest,
    /,
    *,
    incident_id: UUID,
    closing: CloseIncidentForm | None = None,
    stop: FreezeForm | None = None,
    forms: Mapping[str, BodyForm] = MappingProxyType({}),
    status: int = 200,
) -> HttpResponse:
    incident = incident_context(request.tenant, _get_or_404(request, incident_id), caller=request.caller)
    stop = stop or FreezeForm(auto_id="stop-%s")
    stop.offered = freeze_choices(request.tenant.id) if incident["may_freeze"] else {}
    context = {
        "here": "incidents",
        "incidents_href": reverse("incidents", args=[request.tenant.slug]),
        "incident": incident,
        "closing": closing or CloseIncidentForm(),
        "comment_form": forms.get("comment") or verbs.COMMENT.form(),
        "stop": stop,
    }
    name = "incidents/_detail.html" if request.htmx else "incidents/detail.html"
    return render(request, name, context, status=status)


def _home(request: TenantRequest, ids: Ids, result: Any) -> str:
    return reverse("incident", args=[request.tenant.slug, ids["incident_id"]])


comment = page_of(verbs.COMMENT, home=_home, render=_page)
reopen = page_of(verbs.REOPEN, home=_home, render=_page)


def _get_or_404(request: TenantRequest, incident_id: UUID) -> Any:
    row = queries.incident(request.tenant.id, incident_id)
    if row is None:
        raise Http404
    return row


def _parse_uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
