"""An alarm reaches people outside: a line in the log, a mail, a signed webhook, each tried until it arrives."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta

import pytest

from console import tasks
from console.notifications import sending
from ledger.db import tenancy
from tests.support.browser_users import visitor, words
from tests.support.outside.receivers import mails, posts
from tests.support.seals import seal_up

SECRET = "whsec_" + "YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFh"


@pytest.fixture
def alarmed(stage):
    from ledger.log.operations import logs

    stage.propose()
    seal_up()
    logs.raise_alarm(tenant_id=stage.tenant, kind="LOG_DAMAGED", detail="Event 3 of secret-0815.", at=datetime.now(UTC))
    return stage


def notices(stage):
    from console.models import Notice

    with tenancy(stage.tenant):
        return {row.channel: row for row in Notice.objects.filter(tenant_id=stage.tenant)}


@pytest.fixture
def receiver(settings):
    with posts() as server:
        settings.COUNTERFOIL_ALARM_WEBHOOK = (f"http://127.0.0.1:{server.port}/alarms", SECRET)
        yield server


@pytest.fixture
def postbox(settings):
    with mails() as server:
        settings.COUNTERFOIL_EMAIL = server.settings
        yield server


def test_an_alarm_is_logged_once_as_an_error(alarmed, caplog):
    with caplog.at_level(logging.ERROR):
        assert tasks.tell_alarms() == 1
        assert tasks.tell_alarms() == 0
    lines = [line for line in caplog.messages if line.startswith("Tamper alarm LOG_DAMAGED")]
    assert len(lines) == 1
    assert lines[0].endswith("See http://localhost:8000/t/orchid/ledger")
    assert "secret-0815" not in lines[0]


@pytest.mark.req("R-LE-20")
def test_a_webhook_is_signed_and_contains_only_a_link(alarmed, receiver):
    from reviews.observations.rules import webhooks

    assert tasks.tell_alarms() == 2
    [(headers, body)] = receiver.received
    signed = webhooks.SignedHeaders(headers["webhook-id"], headers["webhook-timestamp"], headers["webhook-signature"])
    webhooks.verify_signature(signed, body, secrets=[SECRET], at=datetime.now(UTC))
    with pytest.raises(webhooks.SignatureInvalid):
        webhooks.verify_signature(signed, body + b" ", secrets=[SECRET], at=datetime.now(UTC))
    told = json.loads(body)
    assert told["type"] == "alarm.raised"
    assert (told["data"]["kind"], told["data"]["url"]) == ("LOG_DAMAGED", "http://localhost:8000/t/orchid/ledger")
    assert b"secret-0815" not in body


def test_an_undelivered_message_is_sent_again_with_the_same_id(alarmed, receiver, clock):
    receiver.answers = [500, 302, 204]
    tasks.tell_alarms()
    assert notices(alarmed)["webhook"].fault == "HTTP 500"
    tasks.tell_alarms()
    assert len(receiver.received) == 1, "not before its pause is over"
    for _ in range(2):
        clock.forward(seconds=60)
        tasks.tell_alarms()
    clock.forward(seconds=3600)
    tasks.tell_alarms()
    assert len(receiver.received) == 3
    assert len({headers["webhook-id"] for headers, _ in receiver.received}) == 1
    row = notices(alarmed)["webhook"]
    assert (row.attempts, row.fault) == (3, "")
    assert row.sent_at is not None
    assert "Sent by webhook" in words(visitor(alarmed, "compliance").page("ledger"))


def test_a_message_that_never_arrives_is_given_up_and_shown_on_the_page(alarmed, receiver, clock, monkeypatch):
    from console.notifications import operations as notifications_operations

    monkeypatch.setattr(notifications_operations, "MOST_ATTEMPTS", 2)
    receiver.answers = [503] * 5
    for _ in range(4):
        tasks.tell_alarms()
        clock.forward(seconds=7200)
    assert len(receiver.received) == 2
    assert "Could not be sent by webhook: HTTP 503." in words(visitor(alarmed, "compliance").page("ledger"))


def test_a_mail_is_sent_to_every_recipient_of_the_alarm(alarmed, settings, postbox, clock):
    settings.COUNTERFOIL_ALARM_EMAILS = ["audit@example.org", "duty@example.org"]
    postbox.answers = ["451 password 1234 refused"]
    tasks.tell_alarms()
    assert notices(alarmed)["email"].fault == "SMTPDataError"
    clock.forward(seconds=60)
    assert tasks.tell_alarms() == 1
    [mail] = postbox.taken
    assert mail["To"] == "audit@example.org, duty@example.org"
    assert mail["Subject"] == "Counterfoil: tamper alarm in orchid"
    body = mail.get_content()
    assert "http://localhost:8000/t/orchid/ledger" in body
    assert "secret-0815" not in body


def test_a_resolved_alarm_is_not_sent_any_more(alarmed, receiver):
    from ledger.log.operations import logs as alarms
    from ledger.log.queries import log
    from ledger.record.operations import SYSTEM

    with tenancy(alarmed.tenant):
        row = log.alarms(alarmed.tenant)[0]
        alarms.acknowledge_alarm(
            tenant_id=alarmed.tenant, alarm_id=row.id, reason="Seen.", by=SYSTEM, at=datetime.now(UTC)
        )
    assert tasks.tell_alarms() == 0
    assert receiver.received == []


def test_a_worker_that_dies_while_sending_leaves_the_message_for_the_next(alarmed, receiver, clock, monkeypatch):
    def dies(tenant, notice, at):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sending, "send", dies)
        with pytest.raises(KeyboardInterrupt):
            tasks.tell_alarms()
    clock.forward(seconds=20)
    assert tasks.tell_alarms() == 2
    assert notices(alarmed)["webhook"].sent_at - clock.now() < timedelta(seconds=1)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"COUNTERFOIL_EMAIL_URL": "mail.example.org"}, "COUNTERFOIL_EMAIL_URL must look like"),
        ({"COUNTERFOIL_ALARM_EMAILS": "a@example.org"}, "there is no way to send them"),
        ({"COUNTERFOIL_ALARM_WEBHOOK": "http://elsewhere.example.org"}, "must be an https address"),
        ({"COUNTERFOIL_ALARM_WEBHOOK": "https://elsewhere.example.org"}, "put a secret of the form whsec_"),
    ],
)
def test_unusable_settings_stop_the_process(told, said):
    import os
    import subprocess
    import sys

    ran = subprocess.run(
        [sys.executable, "-c", "import console.settings"], env=os.environ | told, capture_output=True, text=True
    )
    assert ran.returncode == 2
    assert said in ran.stderr
