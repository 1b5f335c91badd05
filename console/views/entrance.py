"""Signing in and out, and which tenant to enter."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.views import LoginView
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from console import operations, queries
from console.forms import Preferences, SignIn
from console.http import Request
from ledger.queries import record

sign_in: Any = LoginView.as_view(
    template_name="sign_in/form.html", authentication_form=SignIn, redirect_authenticated_user=True
)


def door(request: Request) -> HttpResponse:
    """Straight into the only tenant; a choice where there are several."""
    places = [record.tenant_by_id(place.tenant_id) for place in queries.memberships(request.user)]
    if len(places) == 1:
        return redirect("home", places[0].slug)
    return render(request, "sign_in/tenants.html", {"tenants": places})


@require_POST
def preferences(request: Request) -> HttpResponse:
    """Keep how a person wants the pages, and go back to where they were."""
    form = Preferences(request.POST)
    if form.is_valid():
        operations.set_preferences(user=request.user, **form.chosen())
    before = request.headers.get("Referer", "")
    ours = url_has_allowed_host_and_scheme(before, allowed_hosts={request.get_host()})
    return redirect(before if ours else "door")
