"""The bell, a person's list, what an administrator lets go out, and what could not be delivered."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from console import tasks
from console.models import Notice
from console.notifications.channels import TenantOutlets
from ledger.db import tenancy
from tests.support.browser_users import visitor, words
from tests.support.outside.receivers import mails, posts


def bell(page: str) -> str:
    return words(re.search(r'<a class="line" href="/t/orchid/notices".*?</a>', page, re.S).group(0)).strip()


def told(stage, **risks):
    """Actions of which people were told, by the risk that a policy has found."""
    from approvals.models import Approval

    made = {}
    for name, risk in risks.items():
        made[name] = stage.propose()
        with tenancy(stage.tenant):
            Approval.objects.filter(tenant_id=stage.tenant, action_id=made[name]).update(risk=risk)
    tasks.tell_people()
    return made


def test_the_bell_counts_unread_notifications_and_opening_the_list_marks_them_read(stage):
    person = visitor(stage, "reviewer")
    actions = told(stage, one="LOW", other="HIGH")
    assert bell(person.page()) == "2 unread notifications"
    page = f"approvals/{stage.approval(actions['one']).id}"
    person.page(page)
    assert bell(person.page()) == "2 unread notifications"
    person.post(f"{page}/looking", opened="yes")
    assert bell(person.page()) == "1 unread notifications"
    said = words(person.page("notices"))
    assert "1 unread" in said
    assert said.count("Approval needed") == 2
    assert "Refund, high-risk external, irreversible, high risk" in said


def test_marking_as_read_ends_at_the_newest_notification_on_the_page(stage):
    person = visitor(stage, "reviewer")
    told(stage, one="LOW")
    upto = re.search(r'name="upto" value="([^"]+)"', person.page("notices")).group(1)
    told(stage, later="LOW")
    assert person.post("notices/read", upto=upto).status_code == 302
    assert bell(person.page()) == "1 unread notifications"
    assert person.post("notices/read", upto="nonsense").status_code == 302
    assert bell(person.page()) == "1 unread notifications"
    assert person.post("notices/read").status_code == 302
    assert bell(person.page()) == "Notifications, none unread"


def test_the_next_item_is_the_most_urgent_waiting_one(stage):
    person = visitor(stage, "reviewer")
    actions = told(stage, low="LOW", high="HIGH", decided="HIGH")
    stage.approve(actions["high"])
    assert person.get("notices/next")["Location"].endswith(f"/approvals/{stage.approval(actions['decided']).id}")
    stage.approve(actions["decided"])
    assert person.get("notices/next")["Location"].endswith(f"/approvals/{stage.approval(actions['low']).id}")
    stage.approve(actions["low"])
    assert person.get("notices/next")["Location"] == "/t/orchid/notices"
    assert "decided meanwhile" in words(person.page("notices"))


def test_consecutive_similar_messages_are_grouped(stage):
    person = visitor(stage, "reviewer")
    told(stage, one="LOW", other="LOW", third="HIGH")
    said = words(person.page("notices"))
    assert "3 times: Approval needed 3 unread, newest" in said


def test_notifications_are_private(stage):
    told(stage, one="HIGH")
    visitor(stage, "reviewer")
    other = visitor(stage, "operator")
    assert "No notifications yet." in words(other.page("notices"))
    assert bell(other.page()) == "Notifications, none unread"


def test_a_person_sets_their_mail_preferences(stage):
    person = visitor(stage, "reviewer")
    wish = {
        "LOW": "off",
        "NORMAL": "",
        "HIGH": "now",
        "quiet_from": "22:00",
        "quiet_until": "06:30",
        "zone": "Europe/Berlin",
    }
    assert person.post("notices/wishes", **wish).status_code == 302
    page = person.page("notices")
    assert 'value="22:00' in page
    assert 'value="Europe/Berlin"' in page
    assert '<option value="off" selected>' in page
    refused = person.post("notices/wishes", **(wish | {"zone": "Nowhere/At all"}))
    assert refused.status_code == 422
    assert "Unknown time zone. Use a name such as Europe/Berlin." in words(refused.content.decode())


def test_only_administrators_choose_what_is_sent(stage):
    assert visitor(stage, "reviewer").get("notices/channels").status_code == 403
    assert visitor(stage, "reviewer").post("notices/channels/set").status_code == 403
    administrator = visitor(stage, "administrator")
    form = {
        f"{channel}-{risk}": "now"
        for channel in ("email", "push", "slack", "webhook")
        for risk in ("LOW", "NORMAL", "HIGH")
    }
    assert (
        administrator.post("notices/channels/set", **(form | {"slack-LOW": "off", "digest_min": 15})).status_code == 302
    )
    page = administrator.page("notices/channels")
    assert re.search(r'name="slack-LOW".*?<option value="off" selected>', page, re.S)
    assert administrator.post("notices/channels/set", **(form | {"digest_min": 1})).status_code == 422
    assert (
        administrator.post("notices/channels/set", **(form | {"webhook-LOW": "digest", "digest_min": 15})).status_code
        == 422
    )


def test_no_address_and_no_secret_is_shown(stage, settings):
    secret = "whsec_" + "YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFh"
    settings.COUNTERFOIL_CHANNELS = {
        "*": TenantOutlets("https://hooks.example.org/room-4711", ("https://in.example.org/x", secret))
    }
    page = visitor(stage, "administrator").page("notices/channels")
    assert "Chat room has an address" in words(page)
    assert not [each for each in ("room-4711", "in.example.org", secret) if each in page]


def test_the_test_message_of_each_channel_contains_nothing_of_the_record(stage, settings):
    stage.propose()
    administrator = visitor(stage, "administrator")
    assert "Send a test" not in administrator.page("notices/channels")
    with posts() as room, posts() as machine, mails() as postbox:
        settings.COUNTERFOIL_EMAIL = postbox.settings
        hook = (f"http://127.0.0.1:{machine.port}/told", "whsec_" + "YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFh")
        settings.COUNTERFOIL_CHANNELS = {"orchid": TenantOutlets(room.url, hook)}
        assert administrator.page("notices/channels").count("Send a test") == 3
        for channel, word in (("email", "Mail"), ("slack", "Chat room"), ("webhook", "Webhook")):
            administrator.post(f"notices/channels/{channel}/test")
            assert f"{word} took the test." in words(administrator.page("notices/channels"))
        room.answers = [500]
        administrator.post("notices/channels/slack/test")
        assert "Chat room did not take the test: HTTP 500." in words(administrator.page("notices/channels"))
        (mail,) = postbox.to("administrator@orchid")
        assert "A test. Nothing needs to be done." in mail.get_content()
        assert [each["type"] for each in machine.documents()] == ["test"]
    assert visitor(stage, "operator").post("notices/channels/email/test").status_code == 403
    assert administrator.post("notices/channels/pigeon/test").status_code == 404


def test_undelivered_messages_are_listed_with_the_reason_and_can_be_sent_again(stage, settings):
    with posts() as server:
        settings.COUNTERFOIL_CHANNELS = {"orchid": TenantOutlets(slack=server.url)}
        server.answers = [410]
        told(stage, one="HIGH")
        administrator = visitor(stage, "administrator")
        assert "1 message could not be delivered." in words(administrator.page())
        assert "could not be delivered" not in words(visitor(stage, "reviewer").page())
        said = words(administrator.page("notices/channels"))
        assert "Approval needed by chat room: HTTP 410, 1 attempt" in said
        with tenancy(stage.tenant):
            row = Notice.objects.get(tenant_id=stage.tenant)
        assert administrator.post(f"notices/undelivered/{row.id}/again").status_code == 302
        assert tasks.tell_people() == 1
        assert len(server.received) == 2
        assert administrator.post(f"notices/undelivered/{row.id}/again").status_code == 404
        assert "Nothing undelivered" in words(administrator.page("notices/channels"))


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("[]", "must be an object"),
        ("{", "is not JSON"),
        ('{"orchid": {"sms": "x"}}', "must be an object with slack, webhook, or both"),
        ('{"orchid": {"slack": "http://hooks.example.org/x"}}', "must be an https address"),
        ('{"orchid": {"slack": "https://user:word@hooks.example.org/x"}}', "must be an https address"),
        ('{"orchid": {"webhook": {"url": "https://in.example.org"}}}', "needs an https url and a secret"),
        ('{"orchid": {"webhook": {"url": "https://in.example.org", "secret": "short"}}}', "24 to 64 bytes"),
    ],
)
def test_an_unusable_file_of_channels_stops_the_process(tmp_path, written, said):
    from console.edge.settings_files import UnusableFile
    from console.notifications.channels import load_outlets

    file = tmp_path / "channels.json"
    file.write_text(written)
    file.chmod(0o600)
    with pytest.raises(UnusableFile, match=said):
        load_outlets(file)


def test_a_file_of_channels_readable_by_others_stops_the_process(tmp_path):
    from console.edge.settings_files import UnusableFile
    from console.notifications.channels import TenantOutlets, load_outlets, outlets_for

    file = tmp_path / "channels.json"
    file.write_text('{"orchid": {"slack": "https://hooks.example.org/x"}}')
    file.chmod(0o640)
    with pytest.raises(UnusableFile, match="chmod 600"):
        load_outlets(file)
    file.chmod(0o600)
    known = load_outlets(file)
    assert outlets_for(known, "orchid").slack == "https://hooks.example.org/x"
    assert outlets_for(known, "willow") == TenantOutlets()


def test_the_api_lists_only_the_notifications_of_the_person(stage):
    person = visitor(stage, "reviewer")
    told(stage, one="HIGH")
    [item] = person.client.get("/api/v1/notices").json()["items"]
    assert (item["kind"], item["risk"], item["still_waits"], item["read_at"]) == ("requested", "HIGH", True, None)
    assert item["url"].startswith("/t/orchid/approvals/")
    assert visitor(stage, "operator").client.get("/api/v1/notices").json()["items"] == []
    assert visitor(stage, "operator").client.get("/api/v1/notices/channels").status_code == 403
    raised = datetime.fromisoformat(item["raised_at"])
    assert raised < datetime.now(UTC)
