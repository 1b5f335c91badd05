"""Sessions that end by themselves, and roles that may act only with a second factor: pages and API alike."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from axes.models import AccessLog
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from console.tasks import tidy
from tests.support.browser_users import words
from tests.support.scenes import PASSWORD, Stage

POLL = {"X-Automatic": "yes"}


@pytest.fixture(autouse=True)
def minutes_of_roles(settings: Any) -> None:
    settings.COUNTERFOIL_IDLE_MINUTES = {"": 60, "administrator": 15}


def signed_in(stage: Stage, *roles: str) -> Client:
    client = Client()
    answer = client.post("/sign-in", {"username": stage.person(*roles).user.username, "password": PASSWORD})
    assert answer.status_code == 302
    return client


def leave_alone(client: Client, **ago: Any) -> None:
    """Let the session have been used last, and begun, so long ago."""
    UserSession.objects.filter(session_key=client.session.session_key).update(
        **{name: timezone.now() - timedelta(minutes=minutes) for name, minutes in ago.items()}
    )


def home(stage: Stage) -> str:
    return f"/t/{stage.slug}/"


def test_a_session_without_activity_is_signed_out_and_the_page_says_why(stage: Stage):
    client = signed_in(stage, "operator", "administrator")
    leave_alone(client, last_seen_at=14)
    assert client.get(home(stage)).status_code == 200
    leave_alone(client, last_seen_at=15)

    answer = client.get(home(stage))

    assert answer["Location"] == f"/sign-in?next=/t/{stage.slug}/&ended=idle&after=15"
    page = words(client.get(answer["Location"]).content.decode())
    assert "You were signed out after 15 minutes without activity. Sign in again." in page
    assert client.get(home(stage))["Location"] == f"/sign-in?next=/t/{stage.slug}/"
    assert not UserSession.objects.filter(session_key=client.session.session_key).exists()


def test_the_minutes_of_a_role_hold_for_those_who_have_it(stage: Stage):
    client = signed_in(stage, "operator")
    leave_alone(client, last_seen_at=59)
    assert client.get(home(stage)).status_code == 200
    leave_alone(client, last_seen_at=60)
    assert "ended=idle&after=60" in client.get(home(stage))["Location"]


def test_what_a_page_asks_for_by_itself_is_no_activity(stage: Stage):
    client = signed_in(stage, "administrator")
    leave_alone(client, last_seen_at=14)
    assert client.get(home(stage), headers=POLL).status_code == 200
    leave_alone(client, last_seen_at=15)
    assert client.get(home(stage), headers=POLL).status_code == 302


def test_activity_is_noted_at_most_once_a_minute(stage: Stage):
    client = signed_in(stage, "administrator")
    for minutes, is_noted in ((0.5, False), (2, True)):
        leave_alone(client, last_seen_at=minutes)
        client.get(home(stage))
        seen = UserSession.objects.get(session_key=client.session.session_key).last_seen_at
        assert (timezone.now() - seen < timedelta(seconds=20)) is is_noted


def test_no_activity_carries_a_session_beyond_its_greatest_age(stage: Stage):
    client = signed_in(stage, "operator")
    leave_alone(client, created_at=12 * 60)

    answer = client.get(home(stage))

    page = words(client.get(answer["Location"]).content.decode())
    assert "You were signed out because your session was 12 hours old. Sign in again." in page


def test_the_api_refuses_a_session_that_has_ended_and_says_why(stage: Stage):
    client = signed_in(stage, "administrator")
    assert client.get("/api/v1/members").status_code == 200
    leave_alone(client, last_seen_at=15)

    answer = client.get("/api/v1/members")

    assert answer.status_code == 401
    assert answer.json()["detail"] == "You were signed out after 15 minutes without activity. Sign in again."


def test_ended_sessions_are_deleted_with_what_was_kept_beside_them_and_others_stay(stage: Stage):
    ended, going_on = signed_in(stage, "operator"), signed_in(stage, "administrator")
    keys = ended.session.session_key, going_on.session.session_key
    assert not AccessLog.objects.exists()
    leave_alone(ended, last_seen_at=12 * 60)
    leave_alone(going_on, last_seen_at=12 * 60)
    Session.objects.filter(session_key=keys[0]).update(expire_date=timezone.now() - timedelta(seconds=1))

    tidy()

    assert list(Session.objects.filter(session_key__in=keys).values_list("session_key", flat=True)) == [keys[1]]
    assert list(UserSession.objects.filter(session_key__in=keys).values_list("session_key", flat=True)) == [keys[1]]


def test_the_address_of_the_sign_in_page_can_say_nothing_else(db: None):
    for odd in ("ended=idle", "ended=idle&after=x", "ended=won&after=5", "ended=idle&after=123456"):
        assert "You were signed out" not in Client().get(f"/sign-in?{odd}").content.decode()


@pytest.mark.parametrize("kind", [Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN])
def test_a_role_that_needs_a_second_factor_reads_and_cannot_act_without_one(stage: Stage, settings: Any, kind: Any):
    settings.COUNTERFOIL_SECOND_FACTOR_ROLES = frozenset({"administrator"})
    administrator, operator = signed_in(stage, "administrator"), signed_in(stage, "operator")
    notice = "You can read, but not act yet: your role needs a second factor here."
    wish = {"email": "grace@corp.example", "name": "Grace", "roles": ["operator"]}

    page = administrator.get(f"/t/{stage.slug}/people")
    assert page.status_code == 200
    assert notice in words(page.content.decode())
    assert "no second factor" in words(page.content.decode())
    refused = administrator.post(f"/t/{stage.slug}/people/invite", wish)
    assert refused.status_code == 403
    assert "Your role needs a second factor here before you may act: add an" in words(refused.content.decode())
    answer = administrator.post("/api/v1/members", wish, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (403, "SECOND_FACTOR_REQUIRED")
    assert notice not in words(operator.get(home(stage)).content.decode())

    user, codes = stage.person("administrator").user, Authenticator.Type.RECOVERY_CODES
    Authenticator.objects.create(user=user, type=codes, data={})
    assert administrator.post(f"/t/{stage.slug}/people/invite", wish).status_code == 403
    Authenticator.objects.create(user=user, type=kind, data={})

    assert notice not in words(administrator.get(home(stage)).content.decode())
    answer = administrator.post("/api/v1/members", wish, content_type="application/json")
    assert answer.json().get("code") != "SECOND_FACTOR_REQUIRED"
    told = {each["email"]: each["has_second_factor"] for each in administrator.get("/api/v1/members").json()["items"]}
    assert told[str(stage.person("administrator").user)] is True
    assert told[str(stage.person("operator").user)] is False
