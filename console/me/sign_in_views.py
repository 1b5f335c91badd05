"""A person's own sign-in settings: password, authenticator app, recovery codes, passkeys and sessions. Of no tenant."""

from __future__ import annotations

from typing import Any

from allauth.account.views import PasswordChangeView
from allauth.mfa.models import Authenticator
from allauth.mfa.webauthn.internal import auth
from allauth.mfa.webauthn.views import AddWebAuthnView
from allauth.usersessions.internal.flows.sessions import end_other_sessions
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse_lazy
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST

from console.accounts import queries as accounts_queries
from console.accounts.sign_in import queries as factors
from console.accounts.sign_in import single_sign_on
from console.edge.http import TenantRequest
from ledger.record.queries import events


@require_GET
def page(request: TenantRequest) -> HttpResponse:
    """All sign-in methods, and the active sessions."""
    held = factors.second_factors(request.user)
    own = {each.type: each for each in held}
    context = {
        "as_of": timezone.now(),
        "passkeys": [each for each in held if each.type == Authenticator.Type.WEBAUTHN],
        "app": own.get(Authenticator.Type.TOTP),
        "codes": own.get(Authenticator.Type.RECOVERY_CODES),
        "sessions": factors.sessions(request.user),
        "providers": _connected_accounts(request),
        "places": [events.tenant_by_id(each.tenant_id) for each in accounts_queries.memberships(request.user)],
    }
    return render(request, "account/page.html", context)


def _connected_accounts(request: TenantRequest) -> list[dict[str, Any]]:
    names = {each["provider_id"]: each["name"] for each in single_sign_on.configured_providers()}
    return [
        {
            "name": names.get(each.provider, each.provider),
            "email": each.extra_data.get("id_token", {}).get("email", ""),
            "last_login": each.last_login,
        }
        for each in factors.connected_providers(request.user)
    ]


def redirect_after_removal(request: TenantRequest) -> HttpResponse:
    """Redirect to the page that allauth names after a passkey was removed."""
    return redirect("mfa_index")


class AddPasskeyView(AddWebAuthnView):
    """allauth's page; every passkey is made to sign in alone, with the person verified by it."""

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super(AddWebAuthnView, self).get_context_data(**kwargs)
        return context | {"options": auth.begin_registration(self.request.user, passwordless=True)}


add_passkey: Any = AddPasskeyView.as_view()


class ChangePasswordView(PasswordChangeView):
    """Change the password, knowing the old one."""

    success_url = reverse_lazy("mfa_index")

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        if not request.user.has_usable_password():
            return redirect("mfa_index")
        return super().dispatch(request, *args, **kwargs)

    def get_default_success_url(self) -> str:
        return str(self.success_url)


password: Any = ChangePasswordView.as_view()


@require_POST
def end_sessions(request: TenantRequest) -> HttpResponse:
    """Sign out everywhere but here."""
    end_other_sessions(request, request.user)
    return redirect("mfa_index")
