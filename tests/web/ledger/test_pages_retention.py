"""Holds and erasure on the Audit page: two people, a password, a hold that stops it, a policy that two agree on."""

from __future__ import annotations

import html
import re
import time

import pytest
from django.test import Client

from tests.support.browser_users import Visitor, ballot, visitor, words
from tests.support.outside.oidc import Identity, OidcProvider
from tests.support.scenes import PASSWORD


@pytest.fixture
def first(stage):
    return visitor(stage, "compliance", name="first@orchid")


@pytest.fixture
def second(stage):
    return visitor(stage, "compliance", name="second@orchid")


def over(stage):
    """An action that has come to an end, and that nobody has to look at again."""
    action_id = stage.propose()
    approval = stage.approval(action_id)
    visitor(stage, "reviewer").post(f"approvals/{approval.id}/vote", **ballot(stage, action_id, "reject"))
    assert stage.state(action_id) == "FAILED"
    return action_id


def ask(person, action_id, **changed):
    fields = {"what": str(action_id), "legal_basis": "GDPR Art. 17", "reason": "The customer asked."} | changed
    return person.post("audit/erasures/ask", **fields)


def path_of(page, kind):
    return page.split("/answer")[0].rsplit("/t/orchid/", 1)[1] + "/answer" if f"{kind}/" in page else ""


@pytest.mark.req("R-LE-21")
def test_an_erasure_requires_another_person_and_their_password(stage, first, second):
    action_id = over(stage)
    ask(first, action_id)
    page = first.page("audit/holds")
    assert "Requires second approver" in words(page)
    assert "Confirm erasure" not in page
    path = path_of(page, "erasures")
    assert first.post(path, to="confirm", password=PASSWORD).status_code == 403
    assert "Confirm erasure" in second.page("audit/holds")
    assert second.post(path, to="confirm", password="wrong").status_code == 403
    assert "Requires second approver" in words(second.page("audit/holds"))
    assert second.post(path, to="confirm", password=PASSWORD).status_code == 302
    said = words(second.page("audit/holds"))
    assert "Confirmed, to be carried out GDPR Art. 17" in said
    assert "requested by First, confirmed by Second" in said
    assert second.page("audit", kind="erasure_confirmed").count("<tr data-item") == 1


@pytest.fixture
def provider(settings):
    with OidcProvider(identity=Identity(email="law@corp.example")) as running:
        settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": [running.settings()]}}
        yield running


def by_single_sign_on(stage, provider):
    """Somebody of compliance who has no password and has just come from their provider."""
    user = stage.person("compliance", name="law@corp.example").user
    user.set_unusable_password()
    user.save()
    client = Client()
    return_from_provider(client, provider)
    return Visitor(client, stage.slug)


def return_from_provider(client, provider):
    asked = client.post("/sign-in/with/corp").content.decode()
    address = html.unescape(re.search(r'content="0; url=([^"]+)"', asked).group(1))
    client.get(provider.authorise(address).removeprefix("http://testserver"))


def later(monkeypatch):
    """After a sign-in stops being recent."""
    at = time.time() + 301
    monkeypatch.setattr("console.accounts.step_up.time.time", lambda: at)


def test_a_single_sign_on_user_without_a_password_can_confirm_on_the_page(stage, first, provider, monkeypatch):
    ask(first, over(stage))
    path = path_of(first.page("audit/holds"), "erasures")
    law = by_single_sign_on(stage, provider)
    with monkeypatch.context() as clock:
        later(clock)
        assert "Confirm at your provider first" in words(law.page("audit/holds"))
        sent_away = law.post(path, to="confirm")
        assert sent_away["Location"].startswith("/sign-in/again/outside?next=")
        assert "Requires second approver" in words(first.page("audit/holds"))
    assert law.post(path, to="confirm").status_code == 302
    assert "confirmed by Law" in words(first.page("audit/holds"))


@pytest.mark.parametrize("kind", ["erasures", "retention"])
def test_a_single_sign_on_user_without_a_password_can_confirm_over_the_api(stage, first, provider, monkeypatch, kind):
    if kind == "erasures":
        ask(first, over(stage))
    else:
        first.post("audit/retention/propose", payload_days="90", envelope_days="400", floor_days="30")
    listed = first.client.get(f"/api/v1/{kind}").json()["items"][0]
    path = f"/api/v1/{kind}/{listed['erasure_id' if kind == 'erasures' else 'retention_id']}/confirm"
    law = by_single_sign_on(stage, provider)
    with monkeypatch.context() as clock:
        later(clock)
        refused = law.client.post(path, {}, "application/json")
        assert (refused.status_code, refused.json()["code"]) == (403, "STEP_UP_REQUIRED")
    assert law.client.post(path, {}, "application/json").json()["state"] in ("CONFIRMED", "ACTIVE")


def test_a_request_is_declined_or_withdrawn_with_a_reason(stage, first, second):
    ask(first, over(stage))
    path = path_of(first.page("audit/holds"), "erasures")
    second.post(path, to="refuse", reason="")
    assert "Requires second approver" in words(first.page("audit/holds"))
    second.post(path, to="refuse", reason="There is a dispute.")
    assert "Refused GDPR Art. 17" in words(first.page("audit/holds"))
    ask(first, over(stage))
    path = path_of(first.page("audit/holds"), "erasures")
    first.post(path, to="withdraw", reason="Asked for the wrong one.")
    assert "Withdrawn GDPR Art. 17" in words(first.page("audit/holds"))
    assert first.post(path, to="elsewhere", reason="x").status_code == 404


def test_a_hold_stops_an_erasure_until_it_is_lifted(stage, first, second):
    action_id = over(stage)
    first.post("audit/holds/place", scope="action", value=str(action_id), reason="A court asked for it.")
    page = first.page("audit/holds")
    assert "A court asked for it." in words(page)
    assert ask(first, action_id).status_code == 409
    path = page.split("/lift")[0].rsplit("/t/orchid/", 1)[1] + "/lift"
    second.post(path, reason="")
    assert ask(first, action_id).status_code == 409
    second.post(path, reason="The court is done.")
    assert "No active hold." in words(first.page("audit/holds"))
    assert ask(first, action_id).status_code == 302


def test_a_policy_takes_two_people(stage, first, second):
    assert "395 days" in words(first.page("audit/holds"))
    first.post("audit/retention/propose", payload_days="90", envelope_days="400", floor_days="30")
    page = first.page("audit/holds")
    assert "395 days" in words(page)
    path = path_of(page, "retention")
    assert first.post(path, to="confirm", password=PASSWORD).status_code == 403
    second.post(path, to="confirm", password=PASSWORD)
    assert "Payloads, evidence, entries, recordings 90 days" in words(first.page("audit/holds"))
    assert (
        first.post("audit/retention/propose", payload_days="90", envelope_days="9", floor_days="1").status_code == 422
    )


def test_only_compliance_can_decide_and_administrators_can_read(stage, first):
    ask(first, over(stage))
    administrator = visitor(stage, "administrator")
    page = administrator.page("audit/holds")
    assert "Requires second approver" in words(page)
    assert "Confirm erasure" not in page
    path = path_of(first.page("audit/holds"), "erasures")
    assert administrator.post(path, to="confirm", password=PASSWORD).status_code == 403
    assert administrator.post("audit/holds/place", scope="all", reason="x").status_code == 403
    for role in ("reviewer", "operator"):
        assert visitor(stage, role).get("audit/holds").status_code == 403


def test_incomplete_input_is_reported_at_its_field(stage, first):
    answer = ask(first, "no id", legal_basis="")
    said = words(answer.content.decode())
    assert answer.status_code == 422
    assert "Each line must name an action." in said
    assert "Name the legal basis." in said
    answer = first.post("audit/holds/place", scope="all", value="x", reason="y")
    assert "A hold on everything takes no name" in words(answer.content.decode())
