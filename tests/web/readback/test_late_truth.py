"""Late truth: a settled action is read again, and a contradiction outweighs what was settled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from ledger.db import tenancy
from reviews import queries, tasks
from reviews.readback.operations import claimed_batches
from reviews.verification.operations import rechecks
from tests.support import settling
from tests.support.api_tenant import Clock, Workshop, contract, result
from tests.support.replays import replays_alike


@pytest.fixture
def written(shop: Workshop, clock: Clock, tmp_path: Path) -> Iterator[str]:
    """A document that was written and confirmed, under a contract that asks to look again after an hour and a day.

    Second looks can be judged again too, and come out the same.
    """
    newer = contract("write_document") | {"version": "1.1.0"}
    newer["verification"]["recheck_after"] = ["PT1H", "P1D"]
    shop.operator_key.release_contract(newer)
    action_id = shop.propose("write_document")
    started = shop.start(shop.claim()[0]).json()
    notes = tmp_path / "documents" / "notes"
    notes.mkdir()
    (notes / "today.md").write_text("Quiet.")
    shop.observe(started, result=result(tool="write_document"))
    clock.forward(seconds=10)
    assert shop.read_back(action_id, clock) == "RECONCILED_SUCCESS"
    yield action_id
    assert replays_alike(shop.tenant) == []


def due(clock: Clock) -> list[UUID]:
    taken = claimed_batches.claim_batches(at=clock.now(), lanes=10)
    for claim in taken:
        claimed_batches.release_unread(claim.tenant_id, claim.id, [each.action_id for each in claim.due])
    return [each.action_id for claim in taken for each in claim.due if each.recheck is not None]


def look_again(shop: Workshop, action_id: str, clock: Clock) -> bool | None:
    return rechecks.recheck_action(tenant_id=shop.tenant, action_id=UUID(action_id), clock=clock.now)


def kinds(shop: Workshop, action_id: str) -> list[str]:
    return [event["event"] for event in shop.history(action_id)]


def test_a_settled_action_is_due_again_at_the_time_in_its_contract(written: str, clock: Clock):
    assert due(clock) == []
    clock.forward(minutes=61)
    assert due(clock) == [UUID(written)]


def test_an_agreeing_reading_is_recorded_and_the_next_one_is_due_a_day_later(
    shop: Workshop, written: str, clock: Clock
):
    clock.forward(minutes=61)
    assert look_again(shop, written, clock) is False
    assert kinds(shop, written)[-1] == "rechecked"
    clock.forward(hours=22)
    assert due(clock) == []
    clock.forward(hours=2)
    assert due(clock) == [UUID(written)]


@pytest.mark.req("R-RI-08", "R-SM-08")
def test_a_contradiction_keeps_the_state_and_withdraws_the_completion(
    shop: Workshop, written: str, clock: Clock, tmp_path: Path
):
    assert shop.report(written)["completed"] is True
    (tmp_path / "documents" / "notes" / "today.md").unlink()
    clock.forward(minutes=61)
    assert tasks.verify_due() == 1
    assert shop.state(written) == "RECONCILED_SUCCESS"
    told = shop.report(written)
    assert (told["code"], told["completed"]) == ("FINAL_STATE_UNKNOWN", False)
    case = shop.case_of(written)
    assert case is not None
    assert case["reason"] == "CONTRADICTED"


@pytest.mark.req("R-EX-08")
def test_a_contradicted_action_blocks_its_repeat(shop: Workshop, written: str, clock: Clock, tmp_path: Path):
    (tmp_path / "documents" / "notes" / "today.md").unlink()
    clock.forward(minutes=61)
    look_again(shop, written, clock)
    arguments = {"path": "notes/today.md", "text": "Quiet."}
    from tests.support.api_tenant import document

    again = shop.call("write_document", document(arguments["path"], arguments["text"]))
    assert again["result"]["error"]["code"] == "DUPLICATE_BLOCKED"


def settle(shop: Workshop, case: dict, resolution: str) -> dict:
    body = {"resolution": resolution, "reason": "I looked myself.", "evidence": ["the folder, 12:04"]}
    answer = settling.settle(shop.operator, case["case_id"], **body)
    assert answer.status_code == 200, answer.content
    return answer.json()


@pytest.mark.parametrize(
    ("resolution", "code"), [("ATTEST_PRESENT", "ATTESTED"), ("ATTEST_ABSENT", "FINAL_STATE_UNKNOWN")]
)
def test_a_person_settles_a_contradiction_and_the_state_remains(
    shop: Workshop, written: str, clock: Clock, tmp_path: Path, resolution: str, code: str
):
    (tmp_path / "documents" / "notes" / "today.md").unlink()
    clock.forward(minutes=61)
    look_again(shop, written, clock)
    assert settle(shop, shop.case_of(written), resolution)["state"] == "RESOLVED"
    assert shop.state(written) == "RECONCILED_SUCCESS"
    assert shop.report(written)["code"] == code


def test_later_evidence_against_a_settled_case_reopens_it(shop: Workshop, written: str, clock: Clock, tmp_path: Path):
    (tmp_path / "documents" / "notes" / "today.md").unlink()
    clock.forward(minutes=61)
    look_again(shop, written, clock)
    case = shop.case_of(written)
    settle(shop, case, "ATTEST_PRESENT")
    assert shop.case_of(written) is None
    clock.forward(hours=24)
    assert look_again(shop, written, clock) is True
    with tenancy(shop.tenant):
        again = queries.case_of(shop.tenant, UUID(written))
    assert (str(again.id), again.state, again.reason) == (case["case_id"], "OPEN", "CONTRADICTED")


def test_a_second_reading_can_withdraw_a_contradiction(shop: Workshop, written: str, clock: Clock, tmp_path: Path):
    file = tmp_path / "documents" / "notes" / "today.md"
    file.rename(tmp_path / "aside.md")
    clock.forward(minutes=61)
    assert look_again(shop, written, clock) is True
    (tmp_path / "aside.md").rename(file)
    settle(shop, shop.case_of(written), "VERIFY_AGAIN")
    assert due(clock) == [UUID(written)]
    assert look_again(shop, written, clock) is False
    assert kinds(shop, written)[-1] == "contradiction_withdrawn"
    assert shop.report(written)["completed"] is True


def test_a_system_that_does_not_answer_causes_no_contradiction(
    shop: Workshop, written: str, clock: Clock, tmp_path: Path
):
    (tmp_path / "documents").rename(tmp_path / "unmounted")
    clock.forward(minutes=61)
    assert look_again(shop, written, clock) is None
    assert shop.report(written)["completed"] is True
