"""Signing in with a password, a second factor and again; passkeys are in tests/browser/test_passkeys.py."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from django.test import Client

from tests.support.scenes import PASSWORD


def code_of(secret: str, *, ago: int = 0) -> str:
    return format_hotp_value(hotp_value(secret, int(time.time()) // 30 - ago))


def sign_in(username: str, client: Client | None = None) -> tuple[Client, Any]:
    client = client or Client()
    return client, client.post("/sign-in", {"username": username, "password": PASSWORD})


@pytest.fixture
def username(stage: Any) -> str:
    return str(stage.person("reviewer").user.username)


def with_app(username: str) -> tuple[Client, str]:
    """Somebody who has just added an authenticator app, and its secret."""
    client, _ = sign_in(username)
    again(client)
    page = client.get("/account/app").content.decode()
    found = re.search(r'<code class="wrap">(\w+)</code>', page)
    assert found
    answer = client.post("/account/app", {"code": code_of(found.group(1))})
    assert answer.status_code == 302, answer.content
    return client, found.group(1)


def again(client: Client) -> None:
    assert client.post("/sign-in/again", {"password": PASSWORD}).status_code == 302


def test_sign_up_is_closed(db):
    assert Client().get("/sign-up").status_code == 404
    from django.urls import NoReverseMatch, reverse

    with pytest.raises(NoReverseMatch):
        reverse("account_signup")


def test_the_session_key_changes_at_sign_in(username):
    """B37: whoever planted a session key in a browser has nothing when the person signs in."""
    client = Client()
    client.get("/sign-in")
    session = client.session
    session["planted"] = True
    session.save()
    client.cookies["sessionid"] = planted = session.session_key
    sign_in(username, client)
    assert client.cookies["sessionid"].value != planted
    thief = Client()
    thief.cookies["sessionid"] = planted
    assert thief.get("/account")["Location"].startswith("/sign-in")


def test_the_second_factor_is_required(username):
    _, secret = with_app(username)
    client, answer = sign_in(username)
    assert answer["Location"] == "/sign-in/second-step"
    assert client.get("/")["Location"].startswith("/sign-in")
    assert b"wrong or was used before" in client.post("/sign-in/second-step", {"code": "000000"}).content
    assert client.post("/sign-in/second-step", {"code": code_of(secret, ago=-1)}).status_code == 302
    assert client.get("/account").status_code == 200


def test_a_code_can_be_used_once(username):
    _, secret = with_app(username)
    code = code_of(secret, ago=-1)
    for expected in (302, 200):
        client, _ = sign_in(username)
        assert client.post("/sign-in/second-step", {"code": code}).status_code == expected


def test_the_number_of_wrong_codes_is_limited(username):
    _, secret = with_app(username)
    client, _ = sign_in(username)
    for _ in range(5):
        client.post("/sign-in/second-step", {"code": "000000"})
    answer = client.post("/sign-in/second-step", {"code": code_of(secret, ago=-1)})
    assert b"Too many wrong codes" in answer.content


def test_a_recovery_code_replaces_the_app_once(username):
    owner, _ = with_app(username)
    page = owner.get("/account/codes").content.decode()
    code = re.findall(r"<li><code>(\d+)</code>", page)[0]
    for expected in (302, 200):
        client, _ = sign_in(username)
        assert client.post("/sign-in/second-step", {"code": code}).status_code == expected


def test_the_secret_of_the_authenticator_app_is_encrypted_in_the_database(username):
    _, secret = with_app(username)
    for held in Authenticator.objects.all():
        assert secret not in str(held.data)
        assert not set(held.data.get("migrated_codes", [])) - {""}


@pytest.mark.parametrize("path", ["app", "passkeys/add", "codes/new"])
def test_sign_in_methods_can_be_changed_only_after_reauthentication(username, path):
    client, _ = sign_in(username)
    assert client.get(f"/account/{path}")["Location"].startswith("/sign-in/again?next=")
    again(client)
    assert client.get(f"/account/{path}").status_code in (200, 302)
    assert "/sign-in/again" not in client.get(f"/account/{path}").headers.get("Location", "")


def test_wrong_passwords_at_reauthentication_lock_the_account_too(username, settings):
    settings.AXES_FAILURE_LIMIT = 3
    client, _ = sign_in(username)
    answers = [client.post("/sign-in/again", {"password": "wrong"}).status_code for _ in range(3)]
    assert answers[-1] == 429
    assert sign_in(username)[1].status_code == 429


def test_the_account_page_shows_sessions_and_ends_the_others(username):
    first, _ = sign_in(username)
    second, _ = sign_in(username)
    page = second.get("/account").content.decode()
    assert (page.count("from 127.0.0.1, for "), page.count(", this one")) == (2, 1)
    assert second.post("/account/sessions/end").status_code == 302
    assert first.get("/account")["Location"].startswith("/sign-in")
    assert second.get("/account").status_code == 200


def test_changing_the_password_requires_the_old_one_and_keeps_the_own_session(username):
    client, _ = sign_in(username)
    wrong = {"oldpassword": "wrong", "password1": "a fresh horse battery", "password2": "a fresh horse battery"}
    assert client.post("/account/password", wrong).status_code == 200
    assert client.post("/account/password", wrong | {"oldpassword": PASSWORD}).status_code == 302
    assert client.get("/account").status_code == 200
    assert sign_in(username)[1].status_code == 200


def test_the_sign_in_pages_contain_no_inline_scripts(username):
    client, _ = sign_in(username)
    again(client)
    for path in ("/account", "/account/app", "/account/passkeys/add", "/account/password", "/sign-in/again"):
        answer = client.get(path)
        page = answer.content.decode()
        assert not re.search(r'<script(?! src=)(?![^>]*type="application/json")[^>]*>', page), path
        assert " style=" not in page, path
        assert "unsafe" not in answer["Content-Security-Policy"]


@pytest.mark.parametrize("leaked", ["Password1234", "iloveyou1234", "correcthorsebatterystaple"])
def test_a_password_that_is_known_from_leaks_is_refused(username, leaked):
    """The lists are within a package: nothing is asked of anybody."""
    client, _ = sign_in(username)
    wish = {"oldpassword": PASSWORD, "password1": leaked, "password2": leaked}
    refused = client.post("/account/password", wish)
    assert b"This password is in lists of leaked passwords. Choose another one." in refused.content
    assert sign_in(username)[1].status_code == 302
