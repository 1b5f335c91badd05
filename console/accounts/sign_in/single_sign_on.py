"""OpenID Connect through allauth, held to the whole of the specification.

allauth's own flow sends no nonce, leaves the signature of an ID token unchecked where it came over TLS, prefers what
the userinfo endpoint says, takes the text "false" for a verified e-mail, and lets a request add parameters to the
provider's address. Here the ID token alone counts: its signature by a key of the issuer, issuer, audience, expiry and
nonce (OpenID Connect Core 1.0, section 3.1.3.7), with PKCE (RFC 7636). Nobody is created by a login.
"""

from __future__ import annotations

import hmac
import logging
import secrets
from typing import TYPE_CHECKING, Any, NoReturn

from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.internal import jwtkit
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView, OAuth2LoginView
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from console.accounts import queries as accounts_queries
from console.accounts.addresses import normal_form
from console.accounts.members import operations as people
from console.accounts.members import queries as places
from console.accounts.sign_in.providers import ALGORITHMS
from ledger.record.rules.canonical import digest

if TYPE_CHECKING:
    from ledger.models import Action

log = logging.getLogger(__name__)

NONCES = "single_sign_on_nonces"
MOST_NONCES = 5


class Provider(OpenIDConnectProvider):
    """One provider of the settings."""

    def get_auth_params_from_request(self, request: HttpRequest, action: Action) -> dict[str, Any]:
        """A nonce known only to this session, and no parameters from the request."""
        nonce = secrets.token_urlsafe(32)
        request.session[NONCES] = [*request.session.get(NONCES, []), nonce][-MOST_NONCES:]
        # Somebody who is signed in came to show that they are still the same: the provider must ask them.
        again = {"prompt": "login"} if request.user.is_authenticated else {}
        return {"nonce": nonce} | again

    def get_scope_from_request(self, request: HttpRequest) -> list[str]:
        return ["openid", "email", "profile"]

    def get_redirect_from_request_kwargs(self, request: HttpRequest) -> dict[str, Any]:
        """Always sign in: accounts are connected only by signing in with a verified e-mail."""
        return super().get_redirect_from_request_kwargs(request) | {"process": "login"}

    def extract_uid(self, data: dict[str, Any]) -> str:
        """A subject means something only with its issuer: a provider that is replaced by another brings no doubles."""
        claims = data["id_token"]
        return digest(f"{claims['iss']}\n{claims['sub']}".encode())

    def extract_extra_data(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return the stored claims: the issuer and the verified e-mail."""
        kept = ("iss", "sub", "email", "email_verified")
        return {"id_token": {name: value for name, value in data["id_token"].items() if name in kept}}


class OpenIDConnectAdapter(OpenIDConnectOAuth2Adapter):
    """The exchange between this console and the provider."""

    def get_provider(self) -> Provider:
        known: OpenIDConnectProvider = super().get_provider()
        return Provider(self.request, app=known.app)

    def complete_login(self, request: HttpRequest, app: Any, token: Any, **kwargs: Any) -> Any:
        said = kwargs["response"].get("id_token")
        if not said:
            raise OAuth2Error("The provider sent no ID token.")
        return self.get_provider().sociallogin_from_response(request, {"id_token": self._decode_id_token(app, said)})

    def _decode_id_token(self, app: Any, id_token: str) -> dict[str, Any]:
        issuer = app.settings["issuer"]
        if self.openid_config.get("issuer") != issuer:
            raise OAuth2Error("The provider's issuer differs from the one configured.")
        try:
            if jwtkit.jwt.get_unverified_header(id_token).get("alg") not in ALGORITHMS:
                raise OAuth2Error("The ID token is not signed by a public key.")
            claims: dict[str, Any] = jwtkit.verify_and_decode(
                credential=id_token,
                keys_url=self.openid_config["jwks_uri"],
                issuer=issuer,
                audience=app.client_id,
                lookup_kid=jwtkit.lookup_kid_jwk,
            )
        except (KeyError, ValueError) as wrong:
            raise OAuth2Error("The ID token cannot be read.") from wrong
        self._check(claims, app)
        return claims

    def _check(self, claims: dict[str, Any], app: Any) -> None:
        if "exp" not in claims or not claims.get("sub"):
            raise OAuth2Error("The ID token has no expiry or no subject.")
        audience = claims["aud"] if isinstance(claims["aud"], list) else [claims["aud"]]
        if (len(audience) > 1 or "azp" in claims) and claims.get("azp") != app.client_id:
            raise OAuth2Error("The ID token was issued for another client.")
        said, kept = str(claims.get("nonce", "")), self.request.session.get(NONCES, [])
        if not any(hmac.compare_digest(said.encode(), each.encode()) for each in kept):
            raise OAuth2Error("The ID token belongs to another sign-in.")
        self.request.session[NONCES] = [each for each in kept if each != said]


class SingleSignOnAdapter(DefaultSocialAccountAdapter):
    """Admit members and invited people by single sign-on, by a verified e-mail."""

    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        return False

    def pre_social_login(self, request: HttpRequest, sociallogin: Any) -> None:
        claims = sociallogin.account.extra_data["id_token"]
        email = normal_form(str(claims.get("email") or ""))
        domains = {normal_form(f"@{each}")[1:] for each in sociallogin.provider.app.settings["domains"]}
        # Some providers write the text "false": only the boolean says yes.
        if not email or claims.get("email_verified") is not True:
            self._refuse(request, "Your provider has not verified your email.")
        if domains and email.rpartition("@")[2] not in domains:
            self._refuse(request, "Your provider may not vouch for this email.")
        user = sociallogin.user if sociallogin.is_existing else accounts_queries.person_with_email(email)
        if (
            user is None
            or not user.is_active
            or not (accounts_queries.memberships(user) or places.pending_invitations(user))
        ):
            self._refuse(request, "You are not a member. Ask an administrator to invite you.")
        if not sociallogin.is_existing:
            sociallogin.connect(request, user)
        people.note_verified_email(user=user, email=email, at=timezone.now())

    def on_authentication_error(self, request: HttpRequest, provider: Any, *args: Any, **kwargs: Any) -> None:
        """Show the person that it failed; the reason is logged for the operator only."""
        log.warning("single sign-on by %s failed: %s", provider.app.provider_id, kwargs.get("exception") or "no answer")

    def _refuse(self, request: HttpRequest, why: str) -> NoReturn:
        raise ImmediateHttpResponse(render(request, "sign_in/refused.html", {"why": why}, status=403))

    def send_notification_mail(self, *args: Any, **kwargs: Any) -> None:
        """Send no mail about a sign-in; it is shown on the account's page."""


def redirect_to_provider(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Return a page that forwards the browser: a form may not post to another host, so it is not a redirect."""
    answer: HttpResponse = OAuth2LoginView.adapter_view(OpenIDConnectAdapter(request, provider_id))(request)
    if answer.status_code != 302:
        return answer
    return render(request, "sign_in/onward.html", {"onward": answer["Location"], "name": _name(provider_id)})


def provider_callback(request: HttpRequest, provider_id: str) -> HttpResponse:
    """The provider's answer."""
    answer: HttpResponse = OAuth2CallbackView.adapter_view(OpenIDConnectAdapter(request, provider_id))(request)
    return answer


def configured_providers() -> list[dict[str, Any]]:
    """The providers of the settings."""
    listed: list[dict[str, Any]] = settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"]
    return listed


def _name(provider_id: str) -> str:
    return next((str(each["name"]) for each in configured_providers() if each["provider_id"] == provider_id), "")
