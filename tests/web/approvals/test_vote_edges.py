"""B37: other sites, other tabs and other sessions get no vote out of a signed-in person."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.support.browser_users import ballot, visitor
from tests.support.scenes import PASSWORD


@pytest.fixture
def waiting(stage: Any) -> tuple[Any, str]:
    action_id = stage.propose()
    return action_id, f"/t/{stage.slug}/approvals/{stage.approval(action_id).id}"


@pytest.mark.parametrize("what", ["vote", "challenge"])
def test_a_vote_from_another_site_is_refused(stage, waiting, what):
    """B37: CSRF."""
    action_id, here = waiting
    client = Client(enforce_csrf_checks=True)
    client.force_login(stage.person("reviewer").user, backend="console.accounts.sign_in.sessions.PasswordBackend")
    answer = client.post(f"{here}/{what}", ballot(stage, action_id, "approve"))
    assert answer.status_code == 403
    assert stage.approval(action_id).state == "REQUESTED"


def test_the_page_cannot_be_framed_and_its_passkeys_answer_no_frame(stage, waiting):
    """B37: clickjacking."""
    answer = visitor(stage, "reviewer").client.get(waiting[1])
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
    assert "publickey-credentials-get=(self)" in answer.headers["Permissions-Policy"]


def test_a_session_from_before_the_sign_in_is_not_signed_in(stage, waiting):
    """B37: session fixation."""
    client = Client()
    client.get("/sign-in")
    session = client.session
    session["planted"] = "yes"
    session.save()
    planted = session.session_key
    user = stage.person("reviewer").user
    client.cookies["sessionid"] = planted
    signed = client.post("/sign-in", {"login": user.username, "username": user.username, "password": PASSWORD})
    assert signed.status_code == 302
    assert client.cookies["sessionid"].value != planted
    stranger = Client()
    stranger.cookies["sessionid"] = planted
    assert stranger.get(waiting[1]).status_code == 302


def test_a_second_click_finds_the_request_already_decided(stage, waiting):
    """B37: a double click, and the form taken up again from the browser's history."""
    action_id, here = waiting
    one = visitor(stage, "reviewer")
    held = ballot(stage, action_id, "approve")
    assert one.client.post(f"{here}/vote", held).status_code == 302
    again = one.client.post(f"{here}/vote", held)
    assert again.status_code == 409
    assert "I looked at it." in again.content.decode()


def test_an_outdated_tab_is_refused_and_keeps_the_typed_text(stage, waiting):
    """B37: anything covered changed since; the fresh page holds the typed reason, and its own digests."""
    action_id, here = waiting
    answer = visitor(stage, "reviewer").client.post(
        f"{here}/vote", ballot(stage, action_id, "approve", covers="0" * 64)
    )
    assert answer.status_code == 409
    page = answer.content.decode()
    assert "STATEMENT_CHANGED" in page
    assert "I looked at it.</textarea>" in page
    assert 'name="covers" value="0000' not in page
