"""People are told of approvals: in the console, by mail, in a chat room, and machines by signed webhooks.

The mail server, the chat room and the webhook's receiver are real servers on this machine.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, time, timedelta
from uuid import UUID

import pytest
from standardwebhooks import Webhook

from approvals.requests.operations import threads
from console import tasks
from console.models import Message, Notice, NoticeCursor
from console.notifications import collect
from console.notifications import operations as notifications_operations
from console.notifications import queries as notifications_queries
from console.notifications.channels import TenantOutlets
from console.notifications.routing import BURST, MailPreferences, NotificationSettings, QuietHours
from ledger.catalogue import queries as catalogue_queries
from ledger.db import tenancy
from ledger.record import operations as ledger
from reviews.readback.operations import systems
from tests.support.outside.receivers import mails, posts

SECRET = "whsec_" + "YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFh"
REVIEWER = "rita@orchid"


@pytest.fixture
def room(settings, stage):
    with posts() as server:
        settings.COUNTERFOIL_CHANNELS = {"orchid": TenantOutlets(slack=server.url)}
        yield server


@pytest.fixture
def machine(settings, stage):
    with posts() as server:
        settings.COUNTERFOIL_CHANNELS = {"*": TenantOutlets(webhook=(f"http://127.0.0.1:{server.port}/told", SECRET))}
        yield server


@pytest.fixture
def postbox(settings, stage):
    stage.person("reviewer", name=REVIEWER)
    with mails() as server:
        settings.COUNTERFOIL_EMAIL = server.settings
        yield server


def rows(stage, model=Notice, **wanted):
    with tenancy(stage.tenant):
        return list(model.objects.filter(tenant_id=stage.tenant, **wanted).order_by("id"))


def inbox(stage, place):
    return [each.kind for each in rows(stage, Message, actor_id=place.actor_id)]


def at_risk(stage, action_id: UUID, risk: str):
    """The approval of an action, as if a policy had found this risk."""
    from approvals.models import Approval

    approval = stage.approval(action_id)
    with tenancy(stage.tenant):
        Approval.objects.filter(tenant_id=stage.tenant, id=approval.id).update(risk=risk)
    return approval


def wants(stage, **document):
    with tenancy(stage.tenant):
        notifications_operations.set_settings(
            tenant_id=stage.tenant, document=document, by=ledger.SYSTEM, at=datetime.now(UTC)
        )


# What the record gives to tell


def test_each_possible_voter_is_notified_once_in_the_console(stage):
    one, other = stage.person("reviewer", name="one@orchid"), stage.person("reviewer", name="two@orchid")
    operator = stage.person("operator")
    stage.propose()
    for _ in range(3):
        tasks.tell_people()
    assert inbox(stage, one) == inbox(stage, other) == ["requested"]
    assert inbox(stage, operator) == []


def test_participants_other_than_the_decider_are_notified_of_a_decision(stage):
    approval = stage.approval(stage.propose())
    writer, named = stage.person("operator"), stage.person("compliance")
    say(stage, threads.add_comment, approval, "Is the photo there, @cora?", known={"cora": named.actor_id})
    stage.approve(approval.action_id)
    tasks.tell_people()
    assert inbox(stage, writer) == ["approved"]
    assert inbox(stage, named) == ["mentioned"]
    assert "approved" not in inbox(stage, stage.person("reviewer"))


def test_the_asker_is_notified_of_an_answer(stage):
    approval = stage.approval(stage.propose())
    question = say(stage, threads.ask_question, approval, "Which lamp?", known={})
    with tenancy(stage.tenant):
        threads.answer_question(
            tenant_id=stage.tenant,
            action_id=approval.action_id,
            question_id=question.id,
            text="The red one.",
            by=ledger.Actor("agent", stage.agent_key.id),
            at=datetime.now(UTC),
        )
    tasks.tell_people()
    assert inbox(stage, stage.person("operator")) == ["answered"]


def say(stage, operation, approval, text, known):
    """An operator writes into the thread of an approval."""
    by = ledger.Actor("person", stage.person("operator").actor_id)
    with tenancy(stage.tenant):
        return operation(
            tenant_id=stage.tenant, approval_id=approval.id, text=text, known=known, by=by, at=datetime.now(UTC)
        )


def test_a_lost_hint_and_a_dead_worker_lose_no_notification(stage, monkeypatch):
    """What a worker read and did not write is read again; what it wrote is not written twice."""
    place = stage.person("reviewer")
    stage.propose()

    def dies(**_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(notifications_operations, "advance_cursor", dies)
        with pytest.raises(KeyboardInterrupt):
            tasks.tell_people()
    assert inbox(stage, place) == []
    tasks.tell_people()
    tasks.tell_people()
    assert inbox(stage, place) == ["requested"]


def test_an_event_that_became_visible_late_is_still_notified(stage):
    """Events are stamped before they can be seen; reading looks back, and forgets none that it has read."""
    place = stage.person("reviewer")
    stage.propose()
    tasks.tell_people()
    with tenancy(stage.tenant):
        cursor = NoticeCursor.objects.get(tenant_id=stage.tenant)
        NoticeCursor.objects.update(read_to=cursor.read_to + timedelta(seconds=30), recent=[])
    assert tasks.tell_people() == 0
    assert inbox(stage, place) == ["requested"]


def test_an_approval_missed_by_the_notification_pass_is_still_listed(stage, clock):
    place = stage.person("reviewer")
    stage.propose()
    with tenancy(stage.tenant):
        NoticeCursor.objects.create(tenant_id=stage.tenant, read_to=datetime.now(UTC) + timedelta(hours=1))
    tasks.tell_people()
    assert inbox(stage, place) == []
    clock.forward(minutes=3)
    tasks.tell_people()
    tasks.tell_people()
    assert inbox(stage, place) == ["requested"]


def test_events_beyond_one_pass_are_read_in_the_next(stage, monkeypatch):
    monkeypatch.setattr(collect, "AT_A_TIME", 2)
    place = stage.person("reviewer")
    for _ in range(5):
        stage.propose()
    tasks.tell_people()
    assert inbox(stage, place) == ["requested"] * 5


# Mail


def test_a_mail_contains_no_argument_secret_or_statement_of_the_agent(stage, postbox):
    """Trap: truncated arguments and secrets in notifications."""
    action_id = stage.propose(goal="Refund it, token sk-live-4711.", order_id="EX-SECRET01", reason="damaged")
    at_risk(stage, action_id, "HIGH")
    assert tasks.tell_people() == 1
    [mail] = postbox.to(REVIEWER)
    text, approval = mail.get_content(), stage.approval(action_id)
    assert mail["Subject"] == "Counterfoil: approval needed in orchid"
    assert "Refund, high-risk external, irreversible, high risk." in text
    assert "Waiting for 1 min; due" in text
    assert f"http://localhost:8000/t/orchid/approvals/{approval.id}" in text
    for secret in ("sk-live-4711", "EX-SECRET01", "125", "12500", "damaged", approval.payload_hash):
        assert secret not in mail.as_string(), secret


def test_a_link_in_a_message_grants_no_rights(stage, postbox, client):
    """Traps: bearer links, link previews. Whoever fetches the link without a session is shown the sign-in."""
    action_id = stage.propose()
    at_risk(stage, action_id, "HIGH")
    tasks.tell_people()
    [mail] = postbox.to(REVIEWER)
    [link] = [word for word in mail.get_content().split() if word.startswith("http")]
    assert "?" not in link
    for agent in ("Slackbot-LinkExpanding 1.0", "Mozilla/5.0"):
        answer = client.get(link.removeprefix("http://localhost:8000"), headers={"User-Agent": agent})
        assert (answer.status_code, answer["Location"].partition("?")[0]) == (302, "/sign-in")
    assert stage.approval(action_id).state == "REQUESTED"


def test_no_get_request_votes(stage):
    """Trap: link previews that decide. Even a signed-in reviewer's GET of the vote's address changes nothing."""
    from tests.support.browser_users import ballot, visitor

    action_id = stage.propose()
    approval = stage.approval(action_id)
    person = visitor(stage, "reviewer")
    read = person.get(f"approvals/{approval.id}/vote", **ballot(stage, action_id, "approve"))
    assert (read.status_code, read["Location"]) == (302, f"/t/orchid/approvals/{approval.id}")
    assert person.client.get(f"/api/v1/approvals/{approval.id}/votes").status_code == 405
    assert person.client.head(f"/t/orchid/approvals/{approval.id}").status_code == 200
    assert stage.approval(action_id).state == "REQUESTED"


def test_low_risk_notices_are_collected_without_those_decided_meanwhile(stage, postbox, clock):
    first, second, third = (stage.propose() for _ in range(3))
    for each in (first, second, third):
        at_risk(stage, each, "LOW")
    tasks.tell_people()
    assert postbox.taken == []
    stage.approve(third)
    clock.forward(minutes=31)
    tasks.tell_people()
    [mail] = postbox.to(REVIEWER)
    assert mail["Subject"] == "Counterfoil: 2 items in orchid, 2 waiting"
    text = mail.get_content()
    assert all(str(stage.approval(each).id) in text for each in (first, second))
    assert str(stage.approval(third).id) not in text


def test_the_mail_about_a_request_decided_meanwhile_is_not_sent(stage, postbox, clock):
    action_id = stage.propose()
    at_risk(stage, action_id, "HIGH")
    postbox.answers = ["451 later"]
    tasks.tell_people()
    stage.approve(action_id)
    clock.forward(seconds=60)
    tasks.tell_people()
    assert postbox.to(REVIEWER) == []
    assert all(row.sent_at is not None for row in rows(stage, kind="requested"))


def test_mail_waits_during_quiet_hours_unless_the_risk_is_high(stage, postbox, clock):
    want_quiet(stage, stage.person("reviewer", name=REVIEWER), clock)
    calm, urgent = stage.propose(), stage.propose()
    at_risk(stage, calm, "NORMAL")
    at_risk(stage, urgent, "HIGH")
    tasks.tell_people()
    assert [str(stage.approval(urgent).id) in mail.get_content() for mail in postbox.to(REVIEWER)] == [True]
    clock.forward(hours=2, seconds=5)
    tasks.tell_people()
    assert len(postbox.to(REVIEWER)) == 2


def want_quiet(stage, place, clock):
    """Quiet hours for a person until two hours from now."""
    clock.stopped = datetime.now(UTC)
    here = clock.now().time()
    wish = MailPreferences(quiet=QuietHours(_shifted(here, -1), _shifted(here, 2)))
    with tenancy(stage.tenant):
        notifications_operations.set_mail_preferences(
            tenant_id=stage.tenant, actor_id=place.actor_id, wish=wish, at=clock.now()
        )


def read_shop(stage, clock, *faults):
    """Readings of the system `shop`, each with why it was not answered, or "" where it was."""
    attempts = [systems.ReadAttempt(began_at=clock.now(), took_ms=5000.0, unanswered=each) for each in faults]
    with tenancy(stage.tenant):
        shop = catalogue_queries.system(stage.tenant, "shop")
        systems.record_attempts(tenant_id=stage.tenant, system_id=shop.id, asked=attempts, at=clock.now())


def test_incidents_and_outages_ignore_quiet_hours_and_the_end_of_an_outage_is_collected(stage, postbox, clock):
    operator = stage.person("operator", name="oda@orchid")
    stage.case(count=2)
    want_quiet(stage, operator, clock)
    read_shop(stage, clock, *["timeout"] * 10)
    tasks.tell_people()
    tasks.tell_people()
    assert sorted(mail["Subject"] for mail in postbox.to("oda@orchid")) == [
        "Counterfoil: incident opened in orchid",
        "Counterfoil: system of record down in orchid",
    ]
    clock.forward(minutes=5)
    for _ in range(2):
        read_shop(stage, clock, "")
        tasks.tell_people()
    assert inbox(stage, operator).count("system_up") == 1
    assert len(postbox.to("oda@orchid")) == 2, "good news waits"
    clock.forward(hours=3)
    tasks.tell_people()
    late = "".join(mail.get_content() for mail in postbox.to("oda@orchid")[2:])
    assert late.count("System of record reachable again. Verification of what waited for it continues.") == 1


def _shifted(at: time, hours: int) -> time:
    return (datetime.combine(datetime(2026, 1, 2, tzinfo=UTC), at) + timedelta(hours=hours)).time()


def test_many_requests_at_once_become_one_digest(stage, postbox, clock):
    """B38: however many requests come at once, nobody gets more single mails than a period allows."""
    for _ in range(BURST + 5):
        at_risk(stage, stage.propose(), "NORMAL")
    tasks.tell_people()
    assert len(postbox.to(REVIEWER)) == BURST
    clock.forward(minutes=31)
    tasks.tell_people()
    assert postbox.to(REVIEWER)[-1]["Subject"] == "Counterfoil: 5 items in orchid, 5 waiting"


def test_mail_turned_off_by_the_tenant_is_not_sent(stage, postbox):
    wants(stage, email={"NORMAL": "off", "HIGH": "off"})
    at_risk(stage, stage.propose(), "HIGH")
    assert tasks.tell_people() == 0
    assert inbox(stage, stage.person("reviewer", name=REVIEWER)) == ["requested"]


# A chat room


def test_a_chat_message_is_plain_text_without_a_link_preview(stage, room, caplog):
    at_risk(stage, stage.propose(goal="<!channel> <http://evil.example|click>"), "HIGH")
    with caplog.at_level(logging.DEBUG):
        assert tasks.tell_people() == 1
    [said] = room.documents()
    assert said["unfurl_links"] is said["unfurl_media"] is False
    assert said["text"].startswith("*Counterfoil: approval needed in orchid*\n\nApproval needed: Refund, high-risk")
    assert "evil" not in said["text"]
    assert "<" not in said["text"]
    assert "attachments" not in said
    assert "blocks" not in said
    ours = [line for line in caplog.records if not line.name.startswith("slack_sdk")]
    assert not [line for line in ours if "room-secret" in line.getMessage()]


def test_the_address_of_a_chat_room_is_never_logged():
    """Trap: inline secrets in logs. The client would log its address; the settings keep it quiet."""
    from django.conf import settings

    assert settings.LOGGING["loggers"]["slack_sdk"]["level"] == "WARNING"
    assert "room-secret" not in repr(TenantOutlets(slack="https://hooks.example.org/room-secret"))


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (500, "HTTP 500"),
        (429, "HTTP 429"),
        ((200, "<html>Sign in to the proxy</html>"), "an answer that is not ok"),
        (302, "an answer that is not ok"),
    ],
)
def test_only_an_ok_answer_counts_as_delivered_to_a_chat_room(stage, room, clock, answer, fault):
    at_risk(stage, stage.propose(), "HIGH")
    room.answers = [answer]
    assert tasks.tell_people() == 0
    assert [row.fault for row in rows(stage)] == [fault]
    clock.forward(seconds=60)
    assert tasks.tell_people() == 1
    assert [row.fault for row in rows(stage)] == [""]


# A machine


def test_a_webhook_is_verified_by_the_library_of_the_standard_and_contains_no_argument(stage, machine):
    action_id = stage.propose(goal="Refund it, token sk-live-4711.", order_id="EX-SECRET01")
    approval = at_risk(stage, action_id, "LOW")
    tasks.tell_people()
    [(headers, body)] = machine.received
    Webhook(SECRET).verify(body, headers)
    told = json.loads(body)
    assert told["type"] == "approval.requested"
    assert told["data"] == {
        "kind": "requested",
        "about": {"kind": "approval", "id": str(approval.id)},
        "verb": "Refund",
        "side_effect_class": "HIGH_RISK_EXTERNAL",
        "reversibility": "IRREVERSIBLE",
        "risk": "LOW",
        "requested_at": approval.requested_at.isoformat(),
        "decide_by": approval.decide_by.isoformat(),
        "url": f"http://localhost:8000/t/orchid/approvals/{approval.id}",
        "tenant": "orchid",
    }
    assert b"sk-live-4711" not in body
    assert b"EX-SECRET01" not in body


def test_a_worker_that_dies_after_sending_sends_again_with_the_same_id(stage, machine, clock, monkeypatch):
    """The documented crash: it was sent, and nobody wrote that down."""
    stage.propose()

    def dies(**_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(notifications_operations, "record_delivery", dies)
        with pytest.raises(KeyboardInterrupt):
            tasks.tell_people()
    clock.forward(seconds=20)
    assert tasks.tell_people() == 1
    first, second = machine.received
    assert first[0]["webhook-id"] == second[0]["webhook-id"]
    assert json.loads(first[1]) == json.loads(second[1])


def test_an_address_that_is_gone_is_given_up_at_once_and_can_be_retried(stage, machine):
    stage.propose()
    machine.answers = [410]
    tasks.tell_people()
    [row] = rows(stage)
    assert row.given_up_at is not None
    assert tasks.tell_people() == 0
    with tenancy(stage.tenant):
        notifications_operations.retry_notice(
            tenant_id=stage.tenant, notice_id=row.id, by=ledger.SYSTEM, at=datetime.now(UTC)
        )
    assert tasks.tell_people() == 1
    assert len({headers["webhook-id"] for headers, _ in machine.received}) == 1


def test_pauses_between_retries_grow_and_vary(stage, machine, clock):
    clock.stopped = datetime.now(UTC)
    for _ in range(8):
        stage.propose()
    machine.answers = [500] * 8
    tasks.tell_people()
    waits = [(row.due_at - clock.now()).total_seconds() for row in rows(stage)]
    assert all(15 <= wait <= 15 * 1.25 for wait in waits)
    assert len(set(waits)) > 1


def test_changed_settings_are_recorded_with_the_former_ones(stage):
    from ledger.record.queries import events

    wants(stage, slack={"LOW": "off"})
    with tenancy(stage.tenant):
        [detail] = [
            detail
            for event, _, detail in events.history(stage.tenant, stage.tenant)
            if event.kind == "notice_settings_changed"
        ]
        assert notifications_queries.tenant_settings(stage.tenant).slack["LOW"] == "off"
    assert detail["from"] == NotificationSettings().document()


def test_old_notifications_are_deleted(stage, machine, clock):
    stage.propose()
    tasks.tell_people()
    clock.forward(days=91)
    tasks.tidy()
    assert rows(stage) == rows(stage, Message) == []
