"""Signing in and out, and which tenant to enter."""

from __future__ import annotations

from typing import Any

from allauth.account.views import LoginView, reauthenticate
from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_GET, require_POST

from console import operations, queries
from console.forms import Preferences
from console.http import Request
from console.sign_in import single_sign_on
from ledger.queries import record


class SignIn(LoginView):
    """allauth's page, with the ways in that this console has."""

    template_name = "sign_in/form.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(**kwargs) | {"providers": single_sign_on.known()}


sign_in: Any = SignIn.as_view()
again: Any = reauthenticate


@login_not_required
@require_POST
def to_provider(request: HttpRequest, provider_id: str) -> HttpResponse:
    """On to a provider of the settings."""
    if provider_id not in {each["provider_id"] for each in single_sign_on.known()}:
        raise Http404("There is no such provider.")
    return single_sign_on.to_provider(request, provider_id)


@login_not_required
@require_GET
def from_provider(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Back from it."""
    if provider_id not in {each["provider_id"] for each in single_sign_on.known()}:
        raise Http404("There is no such provider.")
    return single_sign_on.from_provider(request, provider_id)


@login_not_required
def cancelled(request: HttpRequest) -> HttpResponse:
    return render(request, "sign_in/refused.html", {"why": "You stopped at your provider. Nothing has happened."})


@login_not_required
def closed(request: HttpRequest) -> HttpResponse:
    return render(request, "sign_in/refused.html", {"why": "This account is closed."}, status=403)


@require_GET
def again_outside(request: Request) -> HttpResponse:
    """For people who have nothing here to show who they are: their provider is asked once more."""
    context = {"providers": single_sign_on.known(), "next": request.GET.get("next", "")}
    return render(request, "sign_in/outside.html", context)


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
