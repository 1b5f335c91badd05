"""The edge of every page: who gets in, what is never shown, and that a fragment is the page's own part."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from tests.support.browser_users import ballot, visitor
from tests.support.scenes import set_up


@pytest.fixture
def paths(stage):
    """The address of every page, with something on it."""
    case = stage.case(goal="Refund it <script>alert(1)</script> now.")
    waiting = stage.approval(stage.propose()).id
    from ledger.actions.queries import actions
    from ledger.db import tenancy
    from ledger.record.queries import evidence

    with tenancy(stage.tenant):
        action = actions.action(stage.tenant, case.action_id)
        pointer = evidence.evidence_of(stage.tenant, action.id)[0].id
    return [
        "",
        "approvals",
        "approvals?tab=decided",
        f"approvals/{waiting}",
        f"approvals/{action.approval_id}",
        "cases",
        f"cases/{case.id}",
        "actions",
        f"actions/{action.id}",
        f"actions/{action.id}/entries/1",
        f"evidence/{pointer}",
        f"sessions/{action.session_id}",
        "policies/",
        "policies/approval/1",
    ]


@pytest.mark.req("R-UI-03")
def test_a_write_is_a_post_with_its_token(stage):
    action_id = stage.propose()
    path = f"/t/orchid/approvals/{stage.approval(action_id).id}/vote"
    reviewer = visitor(stage, "reviewer")
    assert reviewer.client.get(path)["Location"] == path.removesuffix("/vote")
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(stage.person("reviewer").user, backend="console.accounts.sign_in.sessions.PasswordBackend")
    assert strict.post(path, ballot(stage, action_id, "approve")).status_code == 403
    assert stage.approval(action_id).state == "REQUESTED"


@pytest.mark.req("R-UI-22")
def test_text_from_outside_is_escaped(stage, paths):
    member = visitor(stage, "operator")
    for path in paths:
        page = member.page(path) if "?" not in path else member.get(path).content.decode()
        assert "<script>alert" not in page
        assert not re.search(r"<script(?! src=)[^>]*>", page)
        assert " style=" not in page
        assert " onclick=" not in page


def test_the_content_security_policy_forbids_foreign_scripts(stage):
    policy = visitor(stage, "reviewer").get()["Content-Security-Policy"]
    assert "script-src 'self'" in policy
    assert "style-src 'self'" in policy
    assert "unsafe" not in policy


def test_answers_with_a_tenants_data_are_not_stored_on_the_way(stage, paths):
    member = visitor(stage, "operator")
    for path in [*paths, "/api/v1/me"]:
        answer = member.client.get(path) if path.startswith("/") else member.get(path)
        assert "no-store" in answer["Cache-Control"], path


def test_a_page_that_only_shows_answers_405_to_what_would_write(stage):
    member = visitor(stage, "operator")
    for method in ("post", "put", "patch", "delete", "options"):
        answer = getattr(member.client, method)(f"/t/{stage.slug}/actions")
        assert (answer.status_code, answer["Allow"]) == (405, "GET, HEAD"), method


def test_each_shortcut_leads_to_one_page(stage):
    for role in ("reviewer", "operator", "compliance", "administrator"):
        keys = re.findall(r'data-go="(\w)"', visitor(stage, role).page(""))
        assert len(keys) == len(set(keys)) > 8, (role, keys)


def test_a_fragment_equals_its_part_of_the_page(stage, paths):
    member = visitor(stage, "operator")
    for path in paths:
        page = member.get(path).content.decode()
        fragment = member.fragment(path).content.decode()
        assert "<html" not in fragment
        assert _settled(fragment) in _settled(page), path


def _settled(html: str) -> str:
    """Without what differs between two answers of the same page: tokens and times."""
    html = re.sub(r'name="csrfmiddlewaretoken" value="[^"]+"', "", html)
    html = re.sub(r'"X-CSRFToken": "[^"]+"', "", html)
    html = re.sub(r"<time .*?</time>", "", html)
    return re.sub(r"\s+", " ", html).strip()


def test_signing_in_redirects_to_the_only_tenant(stage):
    person = stage.person("reviewer").user
    client = Client()
    answer = client.post("/sign-in", {"username": person.username, "password": "correct horse battery"})
    assert (answer.status_code, answer["Location"]) == (302, "/")
    assert client.get("/")["Location"] == "/t/orchid/"


def test_a_wrong_password_is_reported_in_one_sentence(stage):
    answer = Client().post("/sign-in", {"username": stage.person("reviewer").user.username, "password": "wrong"})
    assert b"Wrong email or password." in answer.content


def test_signing_out_is_a_post(stage):
    member = visitor(stage, "reviewer")
    assert member.client.get("/sign-out")["Location"] == "/"
    assert member.get().status_code == 200
    # The storage stays: with it the browser would forget which log it has seen.
    assert member.client.post("/sign-out")["Clear-Site-Data"] == '"cache"'
    assert member.get().status_code == 302


def test_a_member_of_two_tenants_chooses_one(stage):
    both = stage.person("reviewer")
    from console.accounts import operations as accounts_operations
    from ledger.record.operations import SYSTEM
    from tests.support.scenes import now

    willow = set_up("willow")
    accounts_operations.add_member(
        tenant_id=willow.tenant,
        username=both.user.username,
        password=None,
        name="",
        roles=frozenset({"operator"}),
        by=SYSTEM,
        at=now(),
    )
    page = visitor(stage, "reviewer").client.get("/").content.decode()
    assert "/t/orchid/" in page
    assert "/t/willow/" in page


def test_theme_and_shortcut_settings_are_stored_for_the_person(stage):
    member = visitor(stage, "reviewer")
    member.client.post("/preferences", {"theme": "dark"})
    member.client.post("/preferences", {"keys": "off"})
    page = member.page()
    assert 'data-theme="dark"' in page
    assert 'data-keys="off"' in page


def test_too_many_wrong_passwords_lock_the_sign_in_for_a_while(stage, settings):
    settings.AXES_FAILURE_LIMIT = 3
    username = stage.person("reviewer").user.username
    client = Client()
    answers = [client.post("/sign-in", {"username": username, "password": "wrong"}) for _ in range(3)]
    assert answers[-1].status_code == 429
    assert b"Too many wrong passwords" in answers[-1].content
    assert client.post("/sign-in", {"username": username, "password": "correct horse battery"}).status_code == 429


def test_wrong_passwords_from_many_addresses_together_lock_the_account(stage, settings):
    settings.AXES_FAILURE_LIMIT = 3
    username = stage.person("reviewer").user.username

    def attempt(number: int, password: str) -> int:
        client = Client(REMOTE_ADDR=f"198.51.100.{number}")
        return client.post("/sign-in", {"username": username, "password": password}).status_code

    assert {attempt(number // 2, "wrong") for number in range(29)} == {200}
    assert attempt(99, "wrong") == 429
    assert attempt(100, "correct horse battery") == 429


def test_an_expired_form_gets_a_page_of_the_console(stage):
    strict = Client(enforce_csrf_checks=True)
    answer = strict.post("/sign-in", {"username": "x", "password": "y"})
    assert answer.status_code == 403
    assert b"this form is from an earlier session, or this browser keeps no cookies." in answer.content


def test_a_missing_page_gets_a_page_of_the_console(stage):
    answer = visitor(stage, "reviewer").client.get("/nowhere")
    assert answer.status_code == 404
    assert b"Page not found" in answer.content


@pytest.mark.parametrize(
    "odd", ["nothing", "javascript:alert(1)", "http://[", "//elsewhere.test/", "\xff", "//", "/" * 9]
)
def test_an_invalid_referer_keeps_the_choice_and_redirects_to_home(stage, odd):
    member = visitor(stage, "reviewer")
    answer = member.client.post("/preferences", {"theme": "dark"}, headers={"Referer": odd})
    assert (answer.status_code, answer["Location"]) == (302, "/")
    assert 'data-theme="dark"' in member.page()
    back = member.client.post(
        "/preferences", {"theme": "light"}, headers={"Referer": "http://testserver/t/orchid/cases"}
    )
    assert back["Location"] == "http://testserver/t/orchid/cases"


@pytest.mark.parametrize("page", ["actions", "audit", "audit/sightings", "recordings"])
@pytest.mark.parametrize("day", ["0001-01-01", "1969-12-31", "9999-12-31"])
def test_any_date_can_be_requested_without_an_error(stage, page, day):
    member = visitor(stage, "compliance")
    for name in ("since", "until"):
        assert member.get(page, **{name: day}).status_code in (200, 422)


def test_a_value_that_cannot_be_stored_is_refused_with_a_message(stage):
    answer = visitor(stage, "operator").client.get("/t/orchid/agents/%00")
    assert answer.status_code == 422
    assert "A value cannot be stored or searched for" in answer.content.decode()
