"""Forms that ask who somebody is: each names its account, and wrong passwords and codes count at every one."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from allauth.mfa.totp.internal import auth
from django.conf import settings
from django.core.cache import cache
from django.db import transaction

from console.accounts import step_up
from console.models import User
from tests.support.api_tenant import PASSWORD
from tests.support.browser_users import words
from tests.support.callers import Api, new_client
from tests.support.probes import Day, operations
from tests.web.people import doors
from tests.web.people.doors import DOORS, Door, forms_of

TEMPLATES = Path(settings.BASE_DIR) / "templates"


@dataclass
class App:
    """Somebody's authenticator app."""

    user: User
    secret: str

    @classmethod
    def of(cls, username: str) -> App:
        user, secret = User.objects.get(username=username), auth.generate_totp_secret()
        auth.TOTP.activate(user, secret)
        return cls(user, secret)

    def code(self) -> str:
        """The code of now."""
        return str(auth.format_hotp_value(auth.hotp_value(self.secret, int(time.time()) // 30)))


@pytest.fixture(params=DOORS, ids=lambda each: each.__name__)
def door(request: pytest.FixtureRequest, shop: Any, clock: Any) -> Door:
    made: Door = request.param(shop, clock)
    return made


# The account that a password belongs to


def test_each_password_form_contains_its_username_for_password_managers(door: Door):
    """A password manager then fills in the right one, and the browser has nothing to complain of."""
    form = door.form()
    kinds = [each.get("autocomplete") for each in form.inputs]
    [account] = [each for each in form.inputs if each.get("autocomplete", "").startswith("username")]
    assert kinds.index(account["autocomplete"]) == kinds.index("current-password") - 1
    # One of the type `hidden` counts for nothing.
    assert account["type"] == "text"
    if door.name != "account_login":
        assert account["value"] == door.username
        assert "hidden" in account


def test_an_invited_person_sets_the_password_of_the_invited_account(shop: Any):
    from console.accounts.members import operations
    from ledger.db import tenancy
    from ledger.record.operations import SYSTEM
    from tests.support.callers import new_client

    with tenancy(shop.tenant):
        _, token = operations.invite_member(
            tenant_id=shop.tenant, email="kim@corp.example", name="Kim", roles=[], groups=[], by=SYSTEM, at=_now()
        )
    [form] = forms_of(new_client().get(f"/invitation/{token}").content.decode())
    shown = [(each["name"], each.get("autocomplete"), each.get("value")) for each in form.inputs[1:]]
    assert shown == [("username", "username", "kim@corp.example"), ("password", "new-password", None)]


def test_only_two_templates_contain_a_password_input():
    """Whatever asks otherwise would have no account beside it: a `password` input, or a form's field by itself."""
    raw = re.compile(r'type="password"|\{\{ *\w+\.(?:old)?password *\}\}')
    found = {str(path.relative_to(TEMPLATES)) for path in TEMPLATES.rglob("*.html") if raw.search(path.read_text())}
    # The sign-in has its account in sight.
    assert found == {"_password.html", "sign_in/form.html"}


# Wrong ones count, and lock


LIMIT = 3
# Their second step is an address of its own, or a code is not enough.
ONLY_PASSWORDS = {
    "account_login",
    "account_reauthenticate",
    "account_change_password",
    "erasure-answer",
    "retention-answer",
}


def failures(username: str) -> int:
    from axes.models import AccessAttempt

    return sum(each.failures_since_start for each in AccessAttempt.objects.filter(username=username))


def test_wrong_passwords_and_codes_are_counted_and_locked_at_every_form(door: Door, settings: Any):
    settings.AXES_FAILURE_LIMIT = LIMIT
    if door.name not in ONLY_PASSWORDS:
        app, wrong = App.of(door.username), ["000000"] * 5
        assert [door.send(code, name="otp").status_code for code in [*wrong, app.code()]] == [403] * 5 + [429]
    counted = []
    for _ in range(LIMIT):
        answer = door.send("guessed")
        counted.append(failures(door.username))
    assert counted == [1, 2, 3]
    assert answer.status_code == 429
    assert door.send(PASSWORD).status_code == 429
    assert new_client().post("/sign-in", {"username": door.username, "password": PASSWORD}).status_code == 429


def test_after_ten_wrong_passwords_on_the_erasure_page_the_right_one_is_refused_too(shop: Any, clock: Any):
    door = doors.answer_erasure(shop, clock)
    answers = [door.send("guessed") for _ in range(12)]
    assert failures(door.username) == 12
    assert [each.status_code for each in answers] == [403] * 9 + [429] * 3
    assert "Too many wrong passwords; wait a quarter of an hour." in words(answers[-1].content.decode())
    assert door.send(PASSWORD).status_code == 429
    assert "Confirm erasure" in door.client.get(door.page).content.decode()


@pytest.mark.parametrize("path", ["/sign-in/second-step", "/sign-in/again/code"])
def test_wrong_codes_are_counted_and_locked_at_the_second_factor_and_at_reauthentication(shop: Any, path: str):
    person = shop.person("reviewer", name="rita@orchid")
    app, client = App.of("rita@orchid"), person.client
    if path == "/sign-in/second-step":
        client = new_client()
        client.post("/sign-in", {"username": "rita@orchid", "password": PASSWORD})
    answers = [client.post(path, {"code": code}) for code in ["000000"] * 5 + [app.code()]]
    assert b"Too many wrong codes. Wait five minutes, then try again." in answers[-1].content


def test_a_refused_write_consumes_the_code(shop: Any, clock: Any):
    door = doors.invite(shop, clock)
    app = App.of(door.username)
    code = app.code()
    shop.person("reviewer", name="kim@corp.example")
    assert door.send(code, name="otp").status_code == 409
    door.filled["email"] = "ken@corp.example"
    again = door.send(code, name="otp")
    assert again.status_code == 403
    assert "This code is wrong or was used before." in words(again.content.decode())


def test_a_code_used_for_a_write_cannot_be_used_to_sign_in(shop: Any, clock: Any):
    door = doors.invite(shop, clock)
    app = App.of(door.username)
    code = app.code()
    assert door.send(code, name="otp").status_code == 200
    cache.delete(f"allauth.mfa.totp.used?user={app.user.pk}&code={code}")
    client = new_client()
    client.post("/sign-in", {"username": door.username, "password": PASSWORD})
    assert b"This code is wrong or was used before." in client.post("/sign-in/second-step", {"code": code}).content


def test_an_incomplete_form_does_not_consume_the_code(shop: Any, clock: Any):
    door = doors.answer_contract(shop, clock)
    app = App.of(door.username)
    code, reason = app.code(), door.filled.pop("reason")
    assert door.send(code, name="otp").status_code == 422
    door.filled["reason"] = reason
    assert door.send(code, name="otp").status_code == 302


# Nothing slips in while a password is being checked


@pytest.mark.parametrize("call", ["page", "api"])
def test_a_role_removed_while_the_password_is_checked_no_longer_counts(
    shop: Any, clock: Any, monkeypatch: Any, call: str
):
    door = doors.invite(shop, clock)
    check = step_up._check_proof

    def revoke(*given: Any) -> str:
        from console.models import Membership

        Membership.objects.filter(user__username=door.username).update(is_administrator=False)
        return check(*given)

    monkeypatch.setattr(step_up, "_check_proof", revoke)
    if call == "page":
        answer = door.send(PASSWORD)
    else:
        body = {"email": "kim@corp.example", "name": "Kim", "roles": ["reviewer"], "groups": [], "password": PASSWORD}
        answer = Api(door.client, {}).post("/members", body)
    assert answer.status_code == 403
    assert not User.objects.filter(username="kim@corp.example").exists()


# The calls


def test_wrong_passwords_are_counted_and_locked_at_every_call_that_takes_one(day: Day, settings: Any):
    """Of the OpenAPI document; each call is the one that the day made, with another password."""
    settings.AXES_FAILURE_LIMIT = LIMIT
    person, wrong = day.own["everything"], []
    username = f"p-everything@{day.shop.slug}"
    taking = [each for each in operations(day) if "password" in each.members]
    for each in taking:
        body = {name: value for name, value in each.sent.body.items() if name not in ("assertion", "otp")}
        path = f"/api/v1{each.sent.path}"
        with transaction.atomic():
            answers = [
                person.client.post(path, json.dumps(body | {"password": password}), "application/json")
                for password in ("guessed", "guessed", "guessed", PASSWORD)
            ]
            # The right one is refused as another wrong one is, and counts like it.
            if (failures(username), [each.status_code for each in answers[2:]]) != (LIMIT + 1, [429, 429]):
                wrong.append(f"{each.name}: {failures(username)}, {[each.status_code for each in answers]}")
            transaction.set_rollback(True)
    assert wrong == []
    assert {each.name for each in taking} >= {"approvals_votes_vote", "retention_confirm", "people_invite"}


def _now() -> Any:
    from django.utils import timezone

    return timezone.now()
