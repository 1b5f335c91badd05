"""Signing in and out, and which tenant to enter."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from allauth.account.views import LoginView, reauthenticate
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import LogoutView
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from console.accounts import operations as accounts_operations
from console.accounts import queries as accounts_queries
from console.accounts.members import operations as members
from console.accounts.members import queries as people
from console.accounts.sign_in import single_sign_on
from console.accounts.sign_in.sessions import told_end
from console.edge.http import TenantRequest, is_own_address
from console.people.forms import NewPasswordForm
from console.web.forms import PreferencesForm
from ledger.record.queries import events


class SignInView(LoginView):
    """allauth's page, with the ways in that this console has."""

    template_name = "sign_in/form.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        shown = {"providers": single_sign_on.configured_providers(), "ended": told_end(self.request)}
        return super().get_context_data(**kwargs) | shown


sign_in: Any = SignInView.as_view()
again: Any = reauthenticate


@login_not_required
@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    """End the session, and have the browser empty its cache.

    Its storage stays: there it keeps the heads of the log that it has seen, against which it checks later ones.
    """
    response = LogoutView.as_view()(request)
    response["Clear-Site-Data"] = '"cache"'
    return response


@login_not_required
@require_POST
def start_provider_sign_in(request: HttpRequest, provider_id: str) -> HttpResponse:
    """On to a provider of the settings."""
    if provider_id not in {each["provider_id"] for each in single_sign_on.configured_providers()}:
        raise Http404("Unknown sign-in provider.")
    return single_sign_on.redirect_to_provider(request, provider_id)


@login_not_required
@require_GET
def finish_provider_sign_in(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Back from it."""
    if provider_id not in {each["provider_id"] for each in single_sign_on.configured_providers()}:
        raise Http404("Unknown sign-in provider.")
    return single_sign_on.provider_callback(request, provider_id)


@login_not_required
def sign_in_cancelled(request: HttpRequest) -> HttpResponse:
    return render(request, "sign_in/refused.html", {"why": "Sign-in was cancelled at your provider."})


@login_not_required
def account_closed(request: HttpRequest) -> HttpResponse:
    return render(request, "sign_in/refused.html", {"why": "This account is closed."}, status=403)


@require_GET
def reauthenticate_with_provider(request: TenantRequest) -> HttpResponse:
    """Reauthenticate people without a factor here: their provider is asked once more."""
    context = {"providers": single_sign_on.configured_providers(), "next": request.GET.get("next", "")}
    return render(request, "sign_in/outside.html", context)


def choose_tenant(request: TenantRequest) -> HttpResponse:
    """Redirect to the only tenant, or show a choice if there are several or an open invitation."""
    places = [events.tenant_by_id(place.tenant_id) for place in accounts_queries.memberships(request.user)]
    waiting = [(row, events.tenant_by_id(row.tenant_id)) for row in people.pending_invitations(request.user)]
    if len(places) == 1 and not waiting:
        return redirect("home", places[0].slug)
    return render(request, "sign_in/tenants.html", {"tenants": places, "waiting": waiting})


@login_not_required
@never_cache
@require_http_methods(["GET", "POST"])
def invitation(request: HttpRequest, token: str) -> HttpResponse:
    """Accept an invitation: a new person chooses a password, an existing one signs in."""
    at = timezone.now()
    row = people.invited_member(token, at=at)
    if row is None:
        why = "This invitation was used, withdrawn or has expired. Ask your administrator for a new one."
        return render(request, "sign_in/refused.html", {"why": why}, status=410)
    if not people.is_unused_account(row.user):
        return redirect("door")
    form = NewPasswordForm(request.POST or None, user=row.user)
    if request.method == "POST" and form.is_valid():
        members.accept_invitation(token=token, password=form.cleaned_data["password"], at=at)
        messages.success(request, "Your password is set. Sign in with it.")
        return redirect("account_login")
    context = {"form": form, "email": row.user.get_username(), "tenant": events.tenant_by_id(row.tenant_id)}
    return render(request, "sign_in/invitation.html", context, status=422 if form.errors else 200)


@require_POST
def accept_invitation(request: TenantRequest, member_id: UUID) -> HttpResponse:
    """Accept an invitation, signed in with the own account."""
    row = next((each for each in people.pending_invitations(request.user) if each.id == member_id), None)
    if row is None:
        raise Http404("Invitation not found.")
    members.join_tenant(tenant_id=row.tenant_id, member_id=row.id, user=request.user, at=timezone.now())
    return redirect("door")


@require_POST
def save_preferences(request: TenantRequest) -> HttpResponse:
    """Keep how a person wants the pages, and go back to where they were."""
    form = PreferencesForm(request.POST)
    if form.is_valid():
        accounts_operations.set_preferences(user=request.user, **form.chosen())
    before = request.headers.get("Referer", "")
    return HttpResponseRedirect(before) if is_own_address(request, before) else redirect("door")
