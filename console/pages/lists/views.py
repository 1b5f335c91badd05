"""Views of a list under a name: whose filters, columns and order somebody keeps, and shares."""

from __future__ import annotations

from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from console.accounts import operations as accounts_operations
from console.api.auth import NotAllowed
from console.pages.actions.views import ACTIONS_LIST
from console.pages.approvals.views.queue import APPROVALS_LIST
from console.pages.audit.views import AUDIT_LIST
from console.pages.cases.views.cases import CASES_LIST
from console.pages.lists.list_page import ListPage
from console.web.http import TenantRequest, in_tenant, redirect_back

LISTS = {page.name: page for page in (ACTIONS_LIST, APPROVALS_LIST, AUDIT_LIST, CASES_LIST)}


class SaveViewForm(forms.Form):
    """A name for the filters of a list."""

    name = forms.CharField(max_length=60, error_messages={"required": "Give the view a name."})
    query = forms.CharField(required=False, max_length=1000)
    shared = forms.BooleanField(required=False)


@in_tenant()
@require_POST
def save_view(request: TenantRequest, list_name: str) -> HttpResponse:
    page, here = _page(request, list_name), reverse(list_name, args=[request.tenant.slug])
    form = SaveViewForm(request.POST)
    if not form.is_valid():
        messages.error(request, "Not saved: give the view a name of at most 60 characters.")
        return redirect(here)
    query = page.view_query(QueryDict(form.cleaned_data["query"]))
    accounts_operations.save_view(
        tenant_id=request.tenant.id,
        by=request.caller.actor,
        page=page.name,
        name=form.cleaned_data["name"],
        query=query,
        shared=form.cleaned_data["shared"],
        at=request.as_of,
    )
    messages.success(request, f"Saved as {form.cleaned_data['name']}.")
    return redirect(f"{here}?{query}" if query else here)


@in_tenant()
@require_POST
def remove_view(request: TenantRequest, list_name: str, view_id: UUID) -> HttpResponse:
    page = _page(request, list_name)
    accounts_operations.delete_view(
        tenant_id=request.tenant.id, by=request.caller.actor, view_id=view_id, at=request.as_of
    )
    return redirect_back(request, reverse(page.name, args=[request.tenant.slug]))


def _page(request: TenantRequest, name: str) -> ListPage:
    """The list of this name, for whoever may see it."""
    page = LISTS.get(name)
    if page is None:
        raise Http404
    if page.roles and not request.caller.roles & page.roles:
        raise NotAllowed("This list is not for your role.")
    return page
