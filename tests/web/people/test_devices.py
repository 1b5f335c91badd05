"""Phones and browsers are woken without content; the push service is a real server over TLS on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from console import tasks
from console.edge.settings_files import UnusableFile
from console.local.keys import KEY_FILES, PUSH_KEY, ensure_push_key
from console.models import Notice, PushDevice
from console.notifications import operations as notifications_operations
from console.notifications.routing import MailPreferences, QuietHours
from console.notifications.web_push import load_push_sender
from ledger.db import tenancy
from tests.support.browser_users import visitor, words
from tests.support.outside.receivers import push_service

REVIEWER = "rita@orchid"


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    ensure_push_key(folder)
    return folder / PUSH_KEY


@pytest.fixture
def service(settings, key, tmp_path, monkeypatch):
    """A push service that the installation names."""
    told = load_push_sender(key, "push.example.org", "mailto:console@example.org").public_key
    with push_service(told, tmp_path / "certificate.pem") as server:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
        settings.COUNTERFOIL_PUSH = load_push_sender(key, server.server, "mailto:console@example.org")
        yield server


def switch_on(stage, service, *devices, name=REVIEWER):
    """A reviewer who has switched on these devices."""
    person = visitor(stage, "reviewer", name=name)
    for device in devices:
        answer = person.post("notices/devices", address=service.address(device))
        assert answer.status_code == 302, words(answer.content.decode())
    return person


def devices_of(stage):
    with tenancy(stage.tenant):
        return sorted(each.address.rpartition("/")[2] for each in PushDevice.objects.filter(tenant_id=stage.tenant))


def test_a_device_is_woken_by_an_empty_signed_message(stage, service):
    """The service itself checks the signature, by another library, and takes no other."""
    person = switch_on(stage, service, "phone")
    assert tasks.tell_people() == 0, "a device that is switched on is told nothing"
    stage.propose(goal="secret-0815")
    assert tasks.tell_people() == 1
    [(device, headers, body)] = service.taken
    assert (device, body, service.refused) == ("phone", b"", [])
    assert {name: headers[name] for name in ("ttl", "urgency", "topic")} == {
        "ttl": "14400",
        "urgency": "high",
        "topic": "waits",
    }
    sent = json.dumps(headers)
    assert not [word for word in ("orchid", "secret-0815", "refund", "rita") if word in sent.lower()]
    said = words(person.page("notices"))
    assert "1 switched on" in said
    assert service.address("phone") not in person.page("notices")


def test_one_push_covers_everything_that_waits(stage, service):
    """What is due when a device is woken is told by that."""
    switch_on(stage, service, "phone")
    stage.propose()
    stage.propose()
    tasks.tell_people()
    assert len(service.taken) == 1
    stage.propose()
    tasks.tell_people()
    assert len(service.taken) == 2


def test_a_device_that_is_gone_is_removed_and_the_others_are_notified(stage, service):
    switch_on(stage, service, "sold", "reset", "phone")
    service.answers = [410, 404]
    stage.propose()
    assert tasks.tell_people() == 1
    assert [device for device, _, _ in service.taken] == ["sold", "reset", "phone"]
    assert devices_of(stage) == ["phone"]
    assert "Nothing undelivered" in words(visitor(stage, "administrator").page("notices/channels"))


def test_only_the_device_that_was_not_reached_is_retried(stage, service, clock):
    switch_on(stage, service, "phone", "laptop")
    service.answers = [503, 201]
    stage.propose()
    assert tasks.tell_people() == 0
    with tenancy(stage.tenant):
        assert Notice.objects.get(tenant_id=stage.tenant).fault == "HTTP 503"
    clock.forward(minutes=1)
    assert tasks.tell_people() == 1
    assert [device for device, _, _ in service.taken] == ["phone", "laptop", "phone"]


@pytest.mark.parametrize(
    ("dies_at", "woken"),
    [
        ("record_push 1", ["phone", "phone", "laptop"]),
        ("record_push 2", ["phone", "laptop", "laptop"]),
        ("record_delivery 1", ["phone", "laptop"]),
    ],
)
def test_after_a_crash_only_the_device_without_a_record_is_woken_again(
    stage, service, clock, monkeypatch, dies_at, woken
):
    switch_on(stage, service, "phone", "laptop")
    stage.propose()
    name, _, number = dies_at.partition(" ")
    calls, record = [], getattr(notifications_operations, name)

    def die(**values):
        calls.append(values)
        if len(calls) == int(number):
            raise KeyboardInterrupt
        record(**values)

    with monkeypatch.context() as patch:
        patch.setattr(notifications_operations, name, die)
        with pytest.raises(KeyboardInterrupt):
            tasks.tell_people()
    clock.forward(minutes=1)
    assert tasks.tell_people() == 1
    assert tasks.tell_people() == 0
    assert [device for device, _, _ in service.taken] == woken


def test_a_crash_after_waking_a_device_wakes_it_at_most_once_more(stage, service, clock, monkeypatch):
    switch_on(stage, service, "phone")
    stage.propose()
    stage.propose()

    def die(**values):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(notifications_operations, "record_covered_notices", die)
        with pytest.raises(KeyboardInterrupt):
            tasks.tell_people()
    for _ in range(2):
        clock.forward(minutes=1)
        tasks.tell_people()
    assert len(service.taken) == 2


def test_a_decision_before_the_message_was_sent_wakes_no_device(stage, service, clock):
    switch_on(stage, service, "phone")
    action_id = stage.propose()
    service.answers = [503]
    tasks.tell_people()
    stage.approve(action_id)
    clock.forward(minutes=1)
    tasks.tell_people()
    assert len(service.taken) == 1
    with tenancy(stage.tenant):
        pushed = {row.kind for row in Notice.objects.filter(tenant_id=stage.tenant, channel="push")}
    assert pushed == {"requested"}, "a decision is in the inbox, and wakes nobody either"


def test_a_device_respects_the_quiet_hours_of_its_person(stage, service, clock):
    clock.stopped = datetime.now(UTC)
    switch_on(stage, service, "phone")
    here = clock.now()
    quiet = QuietHours((here - timedelta(hours=1)).time(), (here + timedelta(hours=2)).time())
    with tenancy(stage.tenant):
        notifications_operations.set_mail_preferences(
            tenant_id=stage.tenant,
            actor_id=stage.person("reviewer", name=REVIEWER).actor_id,
            wish=MailPreferences(
                email={"LOW": "off", "NORMAL": "off", "HIGH": "off"}, quiet=quiet, urgent_passes=False
            ),
            at=here,
        )
    stage.propose()
    tasks.tell_people()
    assert service.taken == []
    clock.forward(hours=2, seconds=5)
    tasks.tell_people()
    assert len(service.taken) == 1, "who wants no mail may want this"


@pytest.mark.parametrize(
    "address",
    [
        "",
        "nonsense",
        "http://{server}/push/x",
        "https://127.0.0.1:{port}/push/x",
        "https://169.254.169.254/latest/meta-data",
        "https://10.0.0.7/push/x",
        "https://{server}@10.0.0.7/push/x",
        "https://user:word@{server}/push/x",
        "https://push.example.org/x",
        "https://{server}/push/x#y",
        "https://{server}/" + 1000 * "x",
        "https://[::1/push/x",
    ],
)
def test_no_request_is_sent_to_an_unlisted_push_service(stage, service, address):
    person = visitor(stage, "reviewer", name=REVIEWER)
    answer = person.post("notices/devices", address=address.format(server=service.server, port=service.port))
    assert answer.status_code == 422
    assert "no address of a push service that this installation calls" in words(answer.content.decode())
    stage.propose()
    assert tasks.tell_people() == 0
    assert service.taken == []


def test_a_push_service_removed_from_the_list_is_not_called(stage, service, settings, key):
    switch_on(stage, service, "phone")
    settings.COUNTERFOIL_PUSH = load_push_sender(key, "browsers", "mailto:console@example.org")
    stage.propose()
    tasks.tell_people()
    assert (service.taken, devices_of(stage)) == ([], [])


def test_a_redirect_is_not_followed(stage, service):
    switch_on(stage, service, "phone")
    service.answers = [307]
    stage.propose()
    assert tasks.tell_people() == 0
    assert len(service.taken) == 1


def test_the_push_services_of_browsers_can_be_listed_with_one_word(key):
    sender = load_push_sender(key, "browsers", "mailto:console@example.org")
    for server in (
        "fcm.googleapis.com",
        "updates.push.services.mozilla.com",
        "web.push.apple.com",
        "wns2-par02p.notify.windows.com",
    ):
        assert sender.accepts(f"https://{server}/x/y?z=1")
    for server in (
        "push.apple.com.example.org",
        "evil@web.push.apple.com",
        ".push.apple.com",
        "10.0.0.7:1.push.apple.com",
    ):
        assert not sender.accepts(f"https://{server}/x")


def test_a_device_is_visible_only_to_its_person(stage, service):
    one, other = switch_on(stage, service, "phone"), visitor(stage, "reviewer", name="omar@orchid")
    with tenancy(stage.tenant):
        device = PushDevice.objects.get(tenant_id=stage.tenant)
    assert "off" in words(other.page("notices"))
    other.post(f"notices/devices/{device.id}/remove")
    assert devices_of(stage) == ["phone"]
    # The same browser, with somebody else at it: from then on it is theirs.
    other.post("notices/devices", address=service.address("phone"))
    one.post(f"notices/devices/{device.id}/remove")
    assert devices_of(stage) == ["phone"]
    other.post(f"notices/devices/{device.id}/remove")
    stage.propose()
    tasks.tell_people()
    assert (service.taken, devices_of(stage)) == ([], [])


def test_a_person_can_have_at_most_six_devices(stage, service):
    person = switch_on(stage, service, *"abcdef")
    person.post("notices/devices", address=service.address("f"))
    answer = person.post("notices/devices", address=service.address("g"))
    assert "You have 6 devices already; remove one of them first." in words(answer.content.decode())
    assert devices_of(stage) == list("abcdef")


def test_no_device_is_offered_without_a_push_service(stage):
    person = visitor(stage, "reviewer")
    assert "Phones and browsers" not in words(person.page("notices"))
    answer = person.post("notices/devices", address="https://fcm.googleapis.com/x")
    assert "This installation calls no push service." in words(answer.content.decode())


@pytest.mark.parametrize(("named", "said"), [("everything", "everything is no server"), ("*.org", "no server")])
def test_an_invalid_list_of_push_services_stops_the_process(named, said):
    ran = subprocess.run(
        [sys.executable, "-c", "import console.settings"],
        env=os.environ | {"COUNTERFOIL_PUSH_SERVICES": named},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 2
    assert said in ran.stderr


def test_a_missing_readable_or_wrong_key_is_refused(tmp_path):
    file = tmp_path / PUSH_KEY
    with pytest.raises(UnusableFile, match=r"is not there. `python -m console.local.keys --push .*` makes it"):
        load_push_sender(file, "browsers", "")
    ensure_push_key(tmp_path)
    file.chmod(0o644)
    with pytest.raises(UnusableFile, match="chmod 600"):
        load_push_sender(file, "browsers", "")
    file.chmod(0o600)
    for text, said in (("nonsense", "no key in PEM"), (KEY_FILES["grant_key.pem"](), "must hold a P-256 key")):
        file.write_text(text)
        with pytest.raises(UnusableFile, match=said):
            load_push_sender(file, "browsers", "")
