"""What goes out about an action is what its events bear out, on the page and in the API alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from ledger.db import tenancy
from reviews.models import Report
from tests.support.api_tenant import Clock, Workshop
from tests.support.browser_users import words
from tests.support.preparing import prepared_contract
from tests.support.refund_shop import Counter
from tests.web.actions.test_stages import stages
from tests.web.cases.test_cases import settled
from tests.web.execution.test_executions import lapse


def page(shop: Any, path: str) -> str:
    answer = shop.reviewer.client.get(f"/t/{shop.slug}/{path}")
    assert answer.status_code == 200
    return words(answer.content.decode())


def axes(shop: Any, action_id: str) -> dict[str, str]:
    """The three axes; what the API says stands on the page as well."""
    told: dict[str, str] = shop.agent.get(f"/actions/{action_id}").json()["axes"]
    shown = page(shop, f"actions/{action_id}")
    for question, name in (("Authorization", "decision"), ("Execution", "execution"), ("Verification", "effect")):
        assert f"{question} {told[name]}" in shown, told[name]
    return told


def entry(shop: Any, action_id: str) -> dict[str, Any]:
    found: dict[str, Any] = shop.operator_key.get(f"/actions/{action_id}").json()["entry"]
    return found


def delete(shop: Workshop) -> None:
    (Path(shop.root) / "policies" / "returns.md").unlink()


@pytest.mark.parametrize(("works", "effect"), [(True, "Confirmed"), (False, "No effect, confirmed")])
def test_an_executor_that_never_answered_is_shown_as_silent_despite_a_reading(
    shop: Workshop, clock: Clock, works: bool, effect: str
):
    """Trap: a reading writes COMMITTED or FAILED into the entry's execution."""
    started = shop.started()
    if works:
        delete(shop)
    clock.forward(seconds=90)
    lapse()
    assert axes(shop, started["action_id"])["execution"] == "Started; the executor never answered"
    clock.forward(seconds=7200)
    shop.read_back(started["action_id"], clock)
    told = axes(shop, started["action_id"])
    assert (told["execution"], told["effect"]) == ("Started; the executor never answered", effect)


def test_a_reported_success_is_still_shown_after_a_person_attests_absence(shop: Workshop, clock: Clock):
    case = shop.held(clock)
    settled(shop, case, "ATTEST_ABSENT")
    assert axes(shop, case["action_id"])["execution"] == "Reported success (unverified)"


def test_a_dispute_by_a_person_is_not_shown_as_a_later_reading(shop: Workshop, clock: Clock):
    case = shop.held(clock)
    settled(shop, case, "ATTEST_ABSENT")
    reopened = shop.operator.post(f"/reviews/{case['case_id']}/reopen", {"reason": "A customer says it is gone."})
    assert reopened.status_code == 200, reopened.content
    told = axes(shop, case["action_id"])
    assert told["effect"] == "Disputed by a person"
    text = shop.report(case["action_id"])["text"]
    assert text == "It was settled, but a person disputes that. The final state is not known."


def test_a_payload_that_was_never_delivered_is_not_reported_as_executed(shop: Workshop):
    waiting = shop.propose()
    assert "as stored; nothing was executed" in page(shop, f"actions/{waiting}")
    begun = shop.started()["action_id"]
    assert "as stored and as handed to the executor" in page(shop, f"actions/{begun}")


def test_a_report_before_the_start_does_not_count_as_the_final_report(shop: Workshop, clock: Clock):
    """Trap: the first report of any kind stood as Reported before Attempted."""
    order = shop.claimed()
    shop.report(order["action_id"])
    started = shop.start(order).json()
    with tenancy(shop.tenant):
        assert Report.objects.filter(action_id=UUID(order["action_id"])).exists()
    assert not stages(shop, order["action_id"])["Reported"]
    shop.observe(started)
    clock.forward(seconds=90)
    shop.read_back(order["action_id"], clock)
    shop.report(order["action_id"])
    found = stages(shop, order["action_id"])
    # It was not deleted: the reading that showed that is a decisive one.
    assert found["Verified"]
    assert found["Reported"] >= found["Reconciled"]


def test_an_action_that_nobody_started_is_not_shown_as_waiting_for_the_system_of_record(shop: Workshop):
    waiting = shop.propose()
    shop.report(waiting)
    assert not stages(shop, waiting)["Reported"], "a report of an action that waits is not the report of its outcome"
    shown = page(shop, f"actions/{waiting}")
    assert "Not checked: nothing was executed." in shown
    assert "System of record not read Confirmed" in shown
    assert "The lowest level; it takes no evidence." in shown
    assert "no executor" in shown
    order = shop.claimed()
    shown = page(shop, f"actions/{order['action_id']}")
    assert "claimed it; no start is on record" in shown
    assert "no executor" not in shown


def test_a_refused_call_without_its_target_names_what_was_not_given(shop: Workshop):
    refused = shop.call(arguments={"reason": "It is outdated."})
    shown = page(shop, f"actions/{refused['action_id']}")
    assert "document/(path not given)" in shown


def test_the_timeline_numbers_the_events_of_the_action(shop: Workshop):
    shown = page(shop, f"actions/{shop.propose()}")
    assert "event 1" in shown
    assert "audit log entry 1" not in shown


def test_a_reading_that_was_only_requested_is_not_traced_as_made(counter: Counter, clock: Clock, secrets_dir: Path):
    ready = counter.open(secrets_dir, prepared_contract())
    action_id = ready.propose()
    shown = page(ready, f"actions/{action_id}/trace")
    assert "Read of the target requested before the start" in shown
    assert "Target read before the start" not in shown


def test_a_run_past_its_pivot_is_not_shown_as_before_it(shop: Workshop, clock: Clock):
    started = shop.started()
    run_id = entry(shop, started["action_id"])["workflow_run_id"]
    assert "no point of no return reached" not in page(shop, f"runs/{run_id}")
    delete(shop)
    shop.observe(started)
    clock.forward(seconds=90)
    shop.read_back(started["action_id"], clock)
    shown = page(shop, f"runs/{run_id}")
    assert "complete; every step verified" in shown
    assert shop.agent.get(f"/runs/{run_id}").json()["verified"] is True
    assert "no point of no return reached" not in shown


def test_a_run_with_an_attested_step_is_not_shown_as_verified(shop: Workshop, clock: Clock):
    case = shop.held(clock)
    settled(shop, case, "ATTEST_PRESENT")
    run_id = entry(shop, case["action_id"])["workflow_run_id"]
    assert "complete; not every step verified" in page(shop, f"runs/{run_id}")
    told = shop.agent.get(f"/runs/{run_id}").json()
    assert (told["complete"], told["verified"]) == (True, False)


def test_a_used_approval_is_not_called_executed(shop: Workshop):
    approval_id = entry(shop, shop.started()["action_id"])["approval"]["approval_id"]
    shown = page(shop, f"approvals/{approval_id}")
    assert "Approved, started" in shown
    assert "Executed" not in shown


def test_a_reading_is_on_record_with_what_its_source_could_prove_and_how_often_each_effect_was_found(
    shop: Workshop, clock: Clock
):
    started = shop.started()
    delete(shop)
    shop.observe(started)
    clock.forward(seconds=90)
    shop.read_back(started["action_id"], clock)
    [listed] = [each["detail"]["listed"] for each in shop.history(started["action_id"]) if "listed" in each["detail"]]
    told = {name: listed[name] for name in ("consistency", "trusted_as", "decisive", "timed_out", "effects")}
    assert told == {
        "consistency": "PRIMARY",
        "trusted_as": "PRIMARY",
        "decisive": True,
        "timed_out": False,
        "effects": [["deletion", "PRESENT", 1]],
    }
