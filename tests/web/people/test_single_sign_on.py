"""Single sign-on: who comes in by a provider's word, and every word that is not believed."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Iterator
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from django.test import Client

from console.models import Membership, User
from tests.support.outside.oidc import CLIENT, Identity, OidcProvider


@pytest.fixture
def provider(settings: Any) -> Iterator[OidcProvider]:
    with OidcProvider() as running:
        settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": [running.settings()]}}
        yield running


@pytest.fixture
def ada(stage: Any) -> User:
    user: User = stage.person("reviewer", name="ada@corp.example").user
    return user


def set_off(client: Client, **fields: str) -> str:
    """Press the button; the provider's address that the page leads to."""
    answer = client.post("/sign-in/with/corp", fields)
    assert answer.status_code == 200, answer
    found = re.search(r'content="0; url=([^"]+)"', answer.content.decode())
    assert found
    return html.unescape(found.group(1))


def come_back(client: Client, provider: OidcProvider, address: str) -> Any:
    back = provider.authorise(address)
    return client.get(back.removeprefix("http://testserver"))


def sign_in(client: Client, provider: OidcProvider, **fields: str) -> Any:
    return come_back(client, provider, set_off(client, **fields))


def is_in(client: Client) -> bool:
    return bool(client.get("/account").status_code == 200)


def test_a_member_signs_in_by_a_verified_email(provider, ada):
    client = Client()
    answer = sign_in(client, provider)
    assert (answer.status_code, answer["Location"]) == (302, "/")
    assert client.get("/")["Location"] == "/t/orchid/"
    assert client.session["_auth_user_id"] == str(ada.pk)


def test_the_request_to_the_provider_uses_pkce_and_a_nonce_and_ignores_client_parameters(provider, ada):
    client = Client()
    address = set_off(client)
    assert all(part in address for part in ("code_challenge_method=S256", "nonce=", "response_type=code", "state="))
    answer = client.post("/sign-in/with/corp?auth_params=prompt%3Dnone%26nonce%3Dmine&scope=admin&process=connect")
    assert "prompt%3Dnone" not in answer.content.decode()
    assert "nonce=mine" not in answer.content.decode()
    assert "admin" not in answer.content.decode()


def test_the_sign_in_page_offers_the_provider(provider):
    page = Client().get("/sign-in").content.decode()
    assert "Continue with Corp" in page
    assert Client().post("/sign-in/with/other").status_code == 404


def test_later_sign_ins_follow_the_subject_and_not_the_email(provider, ada):
    sign_in(Client(), provider)
    provider.identity = Identity(sub="u-1", email="ada.lovelace@corp.example")
    client = Client()
    sign_in(client, provider)
    assert client.session["_auth_user_id"] == str(ada.pk)


def test_their_password_still_works(provider, ada):
    """allauth would take the password away, as if the member had signed up by themselves."""
    sign_in(Client(), provider)
    answer = Client().post("/sign-in", {"username": ada.username, "password": "correct horse battery"})
    assert answer.status_code == 302


def refused(provider: OidcProvider, people: int) -> Any:
    client = Client()
    answer = sign_in(client, provider)
    assert answer.status_code in (401, 403), answer
    assert not is_in(client)
    assert User.objects.count() == people
    return answer


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"nonce": "another"}, id="nonce of another sign-in"),
        pytest.param({"nonce": None}, id="no nonce"),
        pytest.param({"aud": "somebody-else"}, id="audience"),
        pytest.param({"aud": [CLIENT, "somebody-else"]}, id="several audiences, no authorised party"),
        pytest.param({"azp": "somebody-else"}, id="authorised party"),
        pytest.param({"iss": "https://evil.example"}, id="issuer"),
        pytest.param({"exp": 1}, id="expired"),
        pytest.param({"exp": None}, id="no expiry"),
        pytest.param({"sub": None}, id="no subject"),
        pytest.param({"email_verified": False}, id="email not verified"),
        pytest.param({"email_verified": "false"}, id="email verified in words"),
        pytest.param({"email_verified": "true"}, id="email verified in other words"),
        pytest.param({"email_verified": None}, id="nothing about the email"),
        pytest.param({"email": None}, id="no email"),
        pytest.param({"email": "nobody@corp.example"}, id="unknown person"),
    ],
)
def test_a_wrong_id_token_is_refused(provider, ada, change):
    provider.lie = lambda claims: {k: v for k, v in (claims | change).items() if v is not None}
    refused(provider, User.objects.count())


def test_a_token_by_another_key_is_refused(provider, ada):
    """The signature counts even where the token came straight from the provider's address."""
    provider.forger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    refused(provider, User.objects.count())


@pytest.mark.parametrize("algorithm", ["none", "HS256"])
def test_an_unsigned_or_symmetrically_signed_token_is_refused(provider, ada, algorithm):
    provider.algorithm = algorithm
    provider.forger = "" if algorithm == "none" else "a shared secret that is long enough for it"
    provider.token = lambda form, real=provider.token: unsigned(provider, form, real)
    refused(provider, User.objects.count())


def unsigned(provider: OidcProvider, form: Any, real: Any) -> Any:
    forger, algorithm = provider.forger, provider.algorithm
    provider.forger, provider.algorithm = None, "RS256"
    said = real(form)
    claims = jwt.decode(said["id_token"], options={"verify_signature": False})
    said["id_token"] = jwt.encode(claims, forger or None, algorithm=algorithm, headers={"kid": "one"})
    return said


def test_a_provider_under_another_name_is_refused(provider, ada):
    provider.called = "https://evil.example"
    refused(provider, User.objects.count())


def test_a_provider_may_only_vouch_for_its_own_domains(provider, ada, settings):
    known = provider.settings(domains=["other.example"])
    settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": [known]}}
    assert b"may not vouch" in refused(provider, User.objects.count()).content


def test_a_removed_or_disabled_member_cannot_sign_in(provider, ada):
    sign_in(Client(), provider)
    User.objects.filter(pk=ada.pk).update(is_active=False)
    refused(provider, User.objects.count())
    User.objects.filter(pk=ada.pk).update(is_active=True)
    from django.utils import timezone

    Membership.objects.filter(user=ada).update(removed_at=timezone.now())
    refused(provider, User.objects.count())


def test_an_answer_counts_once_and_only_in_the_session_that_requested_it(provider, ada):
    client, other = Client(), Client()
    back = provider.authorise(set_off(client)).removeprefix("http://testserver")
    assert other.get(back).status_code == 401
    assert client.get(back).status_code == 302
    client.post("/sign-out")
    assert client.get(back).status_code == 401


def test_an_authorisation_code_without_its_verifier_is_refused(provider, ada):
    """PKCE: a code that was overheard is of no use in another session of the same browser."""
    client = Client()
    stolen = provider.authorise(set_off(client))
    code = stolen.partition("code=")[2].partition("&")[0]
    state = provider.authorise(set_off(client)).partition("state=")[2]
    answer = client.get(f"/sign-in/with/corp/callback?code={code}&state={state}")
    assert answer.status_code == 401
    assert provider.refused == [code]


def test_signing_in_redirects_to_the_page_and_never_outside(provider, ada):
    assert sign_in(Client(), provider, next="/t/orchid/cases")["Location"] == "/t/orchid/cases"
    assert sign_in(Client(), provider, next="https://evil.example/")["Location"] == "/"


def test_a_single_sign_on_user_reauthenticates_before_changes(provider, ada, monkeypatch):
    """allauth takes people without password and second factor as freshly shown for ever."""
    ada.set_unusable_password()
    ada.save()
    client = Client()
    sign_in(client, provider)
    assert client.get("/account/passkeys/add").status_code == 200
    later = time.time() + 301
    monkeypatch.setattr("console.accounts.step_up.time.time", lambda: later)
    for path in ("passkeys/add", "app", "codes/new"):
        answer = client.get(f"/account/{path}")
        assert answer["Location"].startswith("/sign-in/again/outside?next="), path
    assert "prompt=login" in set_off(client)
