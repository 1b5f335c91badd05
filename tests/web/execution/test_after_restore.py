"""After a restore every open action is read before it is granted, and so is what is proposed again."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command

from reviews.cases.operations import cases
from reviews.readback.operations import readings, schedules
from tests.support.api_tenant import Clock, Workshop
from tests.support.browser_users import words
from tests.support.seals import as_sequencer, seal_up, signer_state_file

THE_TEXT = "Quiet."


@pytest.fixture
def documents(shop: Workshop, settings: Any, tmp_path: Path) -> Path:
    """The folder of the documents."""
    settings.COUNTERFOIL_SIGNER_STATE = signer_state_file()
    (tmp_path / "documents" / "notes").mkdir()
    return tmp_path / "documents"


def declare_restored(clock: Clock) -> None:
    seal_up()
    with as_sequencer():
        call_command("log", "restored", "--reason", "The disk failed.", verbosity=0)
    clock.forward(seconds=1)


def take_readings(clock: Clock) -> int:
    wanted = schedules.requested_readings()
    taken = [
        readings.read_baseline(tenant_id=tenant_id, action_id=action_id, clock=clock.now)
        for tenant_id, action_id in wanted
    ]
    clock.forward(seconds=1)
    return sum(taken)


def claimable(shop: Workshop) -> list[str]:
    return [order["action_id"] for order in shop.claim()]


def effect_read(shop: Workshop, action_id: str) -> str:
    return [each["detail"]["effect"] for each in shop.history(action_id) if each["event"] == "reading_taken"][-1]


@pytest.mark.parametrize("there", [None, "Something else."], ids=["nothing", "another text"])
def test_an_open_action_is_granted_once_its_target_shows_no_effect(
    shop: Workshop, documents: Path, clock: Clock, there: str | None
):
    action_id = shop.propose("write_document")
    if there is not None:
        (documents / "notes" / "today.md").write_text(there)
    declare_restored(clock)
    assert claimable(shop) == []
    [waiting] = shop.executor.get("/executions/ready?tools=write_document").json()["items"]
    assert waiting["waiting_for"] == ["reading"]
    assert take_readings(clock) == 1
    assert effect_read(shop, action_id) == "absent"
    assert claimable(shop) == [action_id]


def test_an_action_whose_effect_already_exists_becomes_a_case(shop: Workshop, documents: Path, clock: Clock):
    """It needed nobody, and ran before the record went back; now a person decides."""
    action_id = shop.propose("write_document")
    (documents / "notes" / "today.md").write_text(THE_TEXT)
    declare_restored(clock)
    assert claimable(shop) == []
    take_readings(clock)
    assert effect_read(shop, action_id) == "present"
    assert claimable(shop) == []
    assert shop.state(action_id) == "REVIEW_REQUIRED"
    held = next(each for each in shop.history(action_id) if each["event"] == "held_after_restore")
    assert "it may have been done" in held["detail"]["reason"]
    assert cases.open_missing_cases(at=clock.now()) == 1
    case = shop.case_of(action_id)
    assert case is not None
    assert case["reason"] == "MAY_BE_DONE"


def test_a_call_sent_again_after_a_restore_waits_for_the_reading_too(shop: Workshop, documents: Path, clock: Clock):
    """Its acceptance was lost with the record: nothing here says that it was ever asked for, or done."""
    shop.approved()
    declare_restored(clock)
    (documents / "notes" / "today.md").write_text(THE_TEXT)
    again = shop.propose("write_document")
    assert again not in claimable(shop)
    take_readings(clock)
    assert again not in claimable(shop)
    assert shop.state(again) == "REVIEW_REQUIRED"


def test_a_day_after_the_restore_new_actions_start_without_a_reading(shop: Workshop, documents: Path, clock: Clock):
    shop.approved()
    declare_restored(clock)
    clock.forward(hours=25)
    action_id = shop.propose("write_document")
    assert action_id in claimable(shop)


def test_approvals_from_before_a_restore_are_requested_again(shop: Workshop, documents: Path, clock: Clock):
    """The document is gone already. Who votes again is told so, and that decides."""
    action_id = shop.approved()
    (documents / "policies" / "returns.md").unlink()
    declare_restored(clock)
    assert claimable(shop) == []
    take_readings(clock)
    assert effect_read(shop, action_id) == "present"
    assert claimable(shop) == []
    asked = shop.approval_of(action_id)
    assert asked["state"] == "REQUESTED"
    assert shop.vote(asked).status_code == 201
    clock.forward(seconds=1)
    assert claimable(shop) == [action_id]


def test_an_unreadable_target_becomes_a_case(shop: Workshop, documents: Path, clock: Clock):
    action_id = shop.propose("write_document")
    shutil.rmtree(documents)
    declare_restored(clock)
    assert claimable(shop) == []
    assert take_readings(clock) == 0
    assert claimable(shop) == []
    assert shop.state(action_id) == "VALIDATED"
    clock.forward(minutes=11)
    assert claimable(shop) == []
    assert shop.state(action_id) == "REVIEW_REQUIRED"
    reason = next(each["detail"]["reason"] for each in shop.history(action_id) if each["event"] == "held_after_restore")
    assert "no reading tells whether this was done" in reason


def test_the_restore_report_lists_what_the_restore_led_to(
    shop: Workshop, documents: Path, clock: Clock, capsys: pytest.CaptureFixture[str]
):
    shop.propose("write_document")
    (documents / "notes" / "today.md").write_text(THE_TEXT)
    with as_sequencer():
        call_command("log", "restored", "--report")
    assert "orchid: its record was never declared restored." in capsys.readouterr().out
    declare_restored(clock)
    claimable(shop)
    take_readings(clock)
    claimable(shop)
    with as_sequencer():
        call_command("log", "restored", "--report")
    said = capsys.readouterr().out
    assert "orchid: declared restored" in said
    assert "targets read before a start: 1, held because it may have been done: 1, people asked again: 0" in said


def test_the_record_is_intact_after_all_of_this(shop: Workshop, documents: Path, clock: Clock):
    from ledger.management.commands import verify_ledger
    from ledger.record.queries import events

    action_id = shop.propose("write_document")
    (documents / "notes" / "today.md").write_text(THE_TEXT)
    declare_restored(clock)
    claimable(shop)
    take_readings(clock)
    claimable(shop)
    assert shop.state(action_id) == "REVIEW_REQUIRED"
    verify_ledger.verify(shop.tenant, events.tenant_by_id(shop.tenant).origin)
    assert json.dumps(shop.history(action_id)).count("held_after_restore") == 1
    assert UUID(action_id)


def notice_on(shop: Workshop, page: str) -> str:
    """The notice about the restore that a reviewer finds on a page, without its times; empty where there is none."""
    shop.reviewer.sign_in()
    answer = shop.reviewer.client.get(f"/t/{shop.slug}/{page}")
    assert answer.status_code == 200
    found = re.search(r'<p class="notice" data-part="restored">(.*?)</p>', answer.content.decode(), re.DOTALL)
    said = words(re.sub("<(time|relative-time).*?</\\1>", "then", found[1], flags=re.DOTALL)).strip() if found else ""
    return re.sub(r" (?=[.)])", "", said)


SET_BACK = "The record was set back, declared then. "
SHOWN = SET_BACK + "Its target shows the effect: it may have been done (read then). "


def test_voters_after_a_restore_see_the_finding_of_the_reading(shop: Workshop, documents: Path, clock: Clock):
    action_id = shop.approved()
    page = f"actions/{action_id}"
    assert notice_on(shop, page) == ""
    (documents / "policies" / "returns.md").unlink()
    declare_restored(clock)
    waits = "It may have been done before that, so its target is read before it may start"
    assert notice_on(shop, page) == f"{SET_BACK}{waits}."
    claimable(shop)
    assert notice_on(shop, page) == f"{SET_BACK}{waits} (asked then)."
    take_readings(clock)
    assert notice_on(shop, page) == SHOWN + "It starts only if it is approved after that."
    claimable(shop)
    asked = shop.approval_of(action_id)
    assert notice_on(shop, f"approvals/{asked['approval_id']}") == notice_on(shop, page)
    assert notice_on(shop, page) == SHOWN + "It starts only if it is approved after that."
    assert shop.vote(asked).status_code == 201
    assert notice_on(shop, page) == SHOWN + "It may start."
    clock.forward(seconds=1)
    [order] = shop.claim()
    assert shop.start(order).status_code == 201
    assert notice_on(shop, page) == ""


@pytest.mark.parametrize(
    ("there", "known"),
    [
        (None, SET_BACK + "Its target does not show the effect (read then). It may start."),
        (THE_TEXT, SHOWN + "It is held for review."),
    ],
    ids=["absent", "present"],
)
def test_an_unapproved_action_still_shows_the_finding_of_its_reading(
    shop: Workshop, documents: Path, clock: Clock, there: str | None, known: str
):
    action_id = shop.propose("write_document")
    if there is not None:
        (documents / "notes" / "today.md").write_text(there)
    declare_restored(clock)
    claimable(shop)
    take_readings(clock)
    if there is not None:
        claimable(shop)
    assert notice_on(shop, f"actions/{action_id}") == known


def test_an_unreadable_target_is_named_as_such(shop: Workshop, documents: Path, clock: Clock):
    action_id = shop.propose("write_document")
    shutil.rmtree(documents)
    declare_restored(clock)
    claimable(shop)
    clock.forward(minutes=11)
    unread = SET_BACK + "Its target could not be read: it may have been done (asked then). "
    assert notice_on(shop, f"actions/{action_id}") == unread + "It is held for review before it starts."
    claimable(shop)
    assert notice_on(shop, f"actions/{action_id}") == unread + "It is held for review."
