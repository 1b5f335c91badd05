"""A message in a chat room is brought up to date in place; the workspace answers as Slack documents it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from console import tasks
from console.edge.settings_files import UnusableFile
from console.models import Notice
from console.notifications import operations as notifications_operations
from console.notifications.channels import SLACK_API, ChatRoom, TenantOutlets, load_outlets
from ledger.db import tenancy
from tests.support.browser_users import ballot, visitor, words
from tests.support.outside.receivers import workspace

TOKEN = "xoxb-secret-0815"


@pytest.fixture
def room(settings, stage):
    stage.person("reviewer")
    with workspace(TOKEN, "C024BE91L") as server:
        settings.COUNTERFOIL_CHANNELS = {"orchid": TenantOutlets(slack=ChatRoom(TOKEN, "C024BE91L", server.api))}
        yield server


def row_of(stage, **wanted):
    with tenancy(stage.tenant):
        return Notice.objects.get(tenant_id=stage.tenant, channel="slack", **wanted)


def requested(stage, **arguments):
    """An approval that a room has been told of."""
    approval = stage.approval(stage.propose(**arguments))
    assert tasks.tell_people() == 1
    return approval


def decide(stage, approval, verdict):
    answer = visitor(stage, "reviewer", name="omar").post(
        f"approvals/{approval.id}/vote", **ballot(stage, approval.action_id, verdict, reason="secret-4711")
    )
    assert answer.status_code in (200, 302)


def test_a_message_states_who_decided_and_when_without_arguments(stage, room):
    approval = requested(stage, order_id="EX-SECRET01")
    [(stamp, before)] = room.messages.items()
    assert before.startswith("*Counterfoil: approval needed in orchid*")
    assert room.calls[0][1]["unfurl_links"] is False
    decide(stage, approval, "approve")
    decided = stage.approval(approval.action_id).decided_at
    assert tasks.tell_people() == 1
    assert tasks.tell_people() == 0
    assert room.messages == {
        stamp: "*Counterfoil: decided in orchid*\n\n"
        f"Approved by Omar, {decided:%Y-%m-%d %H:%M} UTC: Refund, high-risk external, irreversible, high risk.\n"
        f"http://localhost:8000/t/orchid/approvals/{approval.id}"
    }
    assert [method for method, _ in room.calls] == ["chat.postMessage", "chat.update"], "and no second message"
    assert "secret" not in str(room.calls).lower()


@pytest.mark.parametrize(
    ("verdict", "said"), [("reject", "Rejected by Omar,"), ("request_changes", "Changes requested by Omar,")]
)
def test_a_rejection_is_announced_without_its_reason(stage, room, verdict, said):
    decide(stage, requested(stage), verdict)
    tasks.tell_people()
    [text] = room.messages.values()
    assert said in text
    assert "4711" not in text


def test_an_expired_request_is_announced_too(stage, room, clock):
    approval = requested(stage)
    clock.forward(days=2)
    tasks.lapse()
    assert stage.approval(approval.action_id).state == "EXPIRED"
    tasks.tell_people()
    [text] = room.messages.values()
    assert "\n\nExpired: Refund, high-risk external" in text


def test_a_failed_update_is_retried_when_the_workspace_allows_it(stage, room, clock):
    """As any message is: by what stands in the database, whoever sends it."""
    approval = requested(stage)
    decide(stage, approval, "approve")
    room.faults = [120, "internal_error"]
    tasks.tell_people()
    row = row_of(stage)
    assert (row.fault, row.posted) == ("ratelimited", "C024BE91L/1503435956.000000")
    assert row.due_at - clock.now() > timedelta(seconds=100)
    clock.forward(seconds=60)
    tasks.tell_people()
    assert len(room.calls) == 2, "not before Retry-After is over"
    clock.forward(seconds=100)
    tasks.tell_people()
    assert row_of(stage).fault == "internal_error"
    clock.forward(seconds=60)
    assert tasks.tell_people() == 1
    assert "decided" in "".join(room.messages.values())


def test_a_message_removed_by_a_person_is_not_posted_again(stage, room):
    approval = requested(stage)
    room.messages.clear()
    decide(stage, approval, "approve")
    tasks.tell_people()
    tasks.tell_people()
    assert [method for method, _ in room.calls] == ["chat.postMessage", "chat.update"]
    assert row_of(stage).fault == ""


def killed_before_it_records(monkeypatch):
    """The worker dies between the call of the workspace and the record of it."""

    def die(**outcome):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(notifications_operations, "record_delivery", die)
        with pytest.raises(KeyboardInterrupt):
            tasks.tell_people()


def test_a_message_whose_sender_crashed_is_posted_again_and_the_second_one_is_updated(stage, room, clock, monkeypatch):
    approval = stage.approval(stage.propose())
    killed_before_it_records(monkeypatch)
    assert tasks.tell_people() == 0, "not before the pause is over"
    clock.forward(minutes=1)
    assert tasks.tell_people() == 1
    first, second = room.messages
    assert room.messages[first].startswith("*Counterfoil: approval needed in orchid*")
    assert row_of(stage).posted == f"C024BE91L/{second}"
    decide(stage, approval, "approve")
    assert tasks.tell_people() == 1
    assert tasks.tell_people() == 0
    assert room.messages[second].startswith("*Counterfoil: decided in orchid*")
    assert room.messages[first].startswith("*Counterfoil: approval needed in orchid*"), "nobody knows where it stands"


def test_an_update_whose_sender_crashed_is_repeated_on_the_same_message(stage, room, clock, monkeypatch):
    decide(stage, requested(stage), "approve")
    killed_before_it_records(monkeypatch)
    clock.forward(minutes=1)
    assert tasks.tell_people() == 1
    assert [method for method, _ in room.calls] == ["chat.postMessage", "chat.update", "chat.update"]
    assert len(room.messages) == 1


def test_a_decision_without_a_known_message_is_announced_by_a_new_one(stage, room, clock, monkeypatch):
    approval = stage.approval(stage.propose())
    killed_before_it_records(monkeypatch)
    decide(stage, approval, "approve")
    clock.forward(minutes=1)
    tasks.tell_people()
    assert [text.split("*")[1] for text in room.messages.values()] == [
        "Counterfoil: approval needed in orchid",
        "Counterfoil: approved, not yet executed in orchid",
    ]


def test_a_message_on_which_the_worker_always_dies_is_given_up(stage, room, clock, monkeypatch):
    stage.propose()
    monkeypatch.setattr(notifications_operations, "MOST_ATTEMPTS", 2)
    for _ in range(2):
        killed_before_it_records(monkeypatch)
        clock.forward(minutes=1)
    assert tasks.tell_people() == 0
    assert tasks.tell_people() == 0
    assert len(room.messages) == 2
    page = words(visitor(stage, "administrator").page("notices/channels"))
    assert "the worker stopped each time before it recorded the result; it may have arrived" in page


def test_an_invalid_token_is_reported_with_the_code_of_the_service(stage, room, settings):
    settings.COUNTERFOIL_CHANNELS = {"*": TenantOutlets(slack=ChatRoom("xoxb-old", "C024BE91L", room.api))}
    stage.propose()
    assert tasks.tell_people() == 0
    assert row_of(stage).fault == "invalid_auth"


def test_a_chat_room_is_configured_with_a_token_that_is_never_shown(tmp_path):
    file = tmp_path / "channels.json"
    file.write_text('{"orchid": {"slack": {"token": "xoxb-secret-0815", "channel": "C024BE91L"}}}')
    file.chmod(0o600)
    found = load_outlets(file)["orchid"]
    assert found.slack == ChatRoom(TOKEN, "C024BE91L", SLACK_API)
    assert TOKEN not in repr(found) + repr(found.slack)
    for wrong in (
        '{"token": "xoxb"}',
        '{"token": "", "channel": "C"}',
        '{"token": "x", "channel": "C", "api": "http://x.org"}',
    ):
        file.write_text(f'{{"orchid": {{"slack": {wrong}}}}}')
        with pytest.raises(UnusableFile, match="slack of orchid needs an app's token and a channel"):
            load_outlets(file)
