"""The narrative of an action or a case, as a page and as a PDF."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from console.actions.action_record import parse_arguments, payload_of
from console.edge.http import TenantRequest, in_tenant, record_page_view
from console.narratives import narrative
from console.narratives.pdf import narrative_pdf
from console.web.labels import action_title
from ledger.actions.queries import actions
from ledger.catalogue.rules.targets import target_text
from reviews import queries as after

if TYPE_CHECKING:
    from reviews.models import Case


@in_tenant()
def action(request: TenantRequest, action_id: UUID) -> HttpResponse:
    return _page(request, _of_action(request, action_id), "action", action_id)


@in_tenant()
def action_pdf(request: TenantRequest, action_id: UUID) -> HttpResponse:
    return _pdf_answer(request, _of_action(request, action_id), action_id)


@in_tenant()
def case(request: TenantRequest, case_id: UUID) -> HttpResponse:
    found = _case(request, case_id)
    if found.action_id:
        return redirect("action-narrative", request.tenant.slug, found.action_id)
    return _page(request, _of_case(request, found), "case", case_id)


@in_tenant()
def case_pdf(request: TenantRequest, case_id: UUID) -> HttpResponse:
    found = _case(request, case_id)
    if found.action_id:
        return redirect("action-narrative-pdf", request.tenant.slug, found.action_id)
    return _pdf_answer(request, _of_case(request, found), case_id)


def _of_action(request: TenantRequest, action_id: UUID) -> narrative.Narrative:
    found = actions.action(request.tenant.id, action_id)
    if found is None:
        raise Http404
    named = action_title(found.operation_kind, found.target, parse_arguments(payload_of(found)))
    return narrative.action_narrative(request.tenant, found, title=named)


def _of_case(request: TenantRequest, case: Case) -> narrative.Narrative:
    return narrative.case_narrative(request.tenant, case, title=f"Case about {target_text(case.target)}")


def _case(request: TenantRequest, case_id: UUID) -> Any:
    found = after.case(request.tenant.id, case_id)
    if found is None:
        raise Http404
    return found


def _page(request: TenantRequest, told: narrative.Narrative, kind: str, subject: UUID) -> HttpResponse:
    record_page_view(request, "narrative", subject)
    slug = request.tenant.slug
    context = {
        "here": f"{kind}s",
        "told": told,
        "back": {"word": kind.capitalize(), "href": reverse(kind, args=[slug, subject])},
        "bundle": f"{reverse('exports', args=[slug])}?action={subject}" if _may_export(request, kind) else "",
        "pdf": reverse(f"{kind}-narrative-pdf", args=[slug, subject]),
    }
    return render(request, "narrative/page.html", context)


def _may_export(request: TenantRequest, kind: str) -> bool:
    return kind == "action" and "compliance" in request.caller.roles


def _pdf_answer(request: TenantRequest, told: narrative.Narrative, subject: UUID) -> HttpResponse:
    record_page_view(request, "narrative", subject)
    answer = HttpResponse(narrative_pdf(told), content_type="application/pdf")
    answer["Content-Disposition"] = f'attachment; filename="narrative-{subject}.pdf"'
    return answer
