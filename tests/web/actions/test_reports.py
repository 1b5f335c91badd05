"""Reports over HTTP: the only words about an action, from the record alone, the same for everybody, kept once told."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from approvals.requests.queries import approvals
from approvals.tasks import lapse
from ledger.db import tenancy
from ledger.record.rules.envelope import instant
from ledger.record.rules.lifecycle import TRANSITIONS, State
from reviews import queries as after
from tests.support.api_tenant import Clock, Workshop, result
from tests.support.browser_users import words
from tests.support.seals import seal_up


def told(shop: Workshop, action_id: str) -> list[Any]:
    with tenancy(shop.tenant):
        return after.reports_of(shop.tenant, UUID(action_id))


@pytest.mark.req("R-RI-14", "R-RI-15")
def test_a_report_names_the_event_it_rests_on_and_is_stored(shop: Workshop):
    started = shop.started()
    report = shop.report(started["action_id"])
    assert report["entry_id"] == shop.history(started["action_id"])[-1]["entry_id"]
    kept = told(shop, started["action_id"])
    assert [(row.code, row.text, row.completed) for row in kept] == [(report["code"], report["text"], False)]
    assert str(kept[0].event_id) == report["entry_id"]


@pytest.mark.req("R-RI-15")
def test_repeating_a_report_to_the_same_reader_is_recorded_once(shop: Workshop):
    action_id = shop.propose()
    for reader in (shop.agent, shop.agent, shop.reviewer, shop.agent):
        shop.report(action_id, by=reader)
    assert len(told(shop, action_id)) == 2
    shop.vote(shop.approval_of(action_id))
    shop.report(action_id)
    assert len(told(shop, action_id)) == 3


def test_every_reader_gets_the_same_report(shop: Workshop):
    started = shop.started()
    shop.observe(started)
    readers = (shop.agent, shop.operator_key, shop.auditor, shop.reviewer, shop.operator)
    reports = {str(shop.report(started["action_id"], by=reader) | {"as_of": None}) for reader in readers}
    assert len(reports) == 1


@pytest.mark.req("R-RI-17")
def test_a_report_carries_its_time_and_a_new_one_its_own(shop: Workshop, clock: Clock):
    clock.stop()
    open_one = shop.approval_of(shop.propose(path="policies/others.md"))
    case = shop.held(clock)
    action_id = case["action_id"]
    with tenancy(shop.tenant):
        approval = approvals.approval_of(shop.tenant, UUID(action_id))
    session = shop.operator_key.get(f"/actions/{action_id}").json()["session_id"]
    run = shop.operator_key.get(f"/sessions/{session}").json()["workflow_run_id"]
    sentence = shop.report(action_id)["text"]
    pages = {
        f"actions/{action_id}": f"{sentence} As of {{at}}. Text agents may show to users.",
        f"cases/{case['case_id']}": f"As of {{at}}, agents may tell users: “{sentence}”",
        f"approvals/{approval.id}": "As of {at}",
        f"approvals/{open_one['approval_id']}": "As of {at}",
        f"runs/{run}": "As of {at}",
        f"sessions/{session}": "As of {at}",
    }
    for minutes in (0, 5):
        clock.forward(minutes=minutes)
        at = f"{clock.now():%H:%M:%S} UTC"
        assert shop.report(action_id)["as_of"] == instant(clock.now())
        for path, sent in pages.items():
            # What the live page fetches when something has changed is the same fragment.
            answer = shop.reviewer.client.get(f"/t/{shop.slug}/{path}", headers={"HX-Request": "true"})
            page = answer.content.decode()
            assert (answer.status_code, "data-live-from=" in page) == (200, True), path
            assert sent.format(at=at) in re.sub(r" (?=[.,])", "", words(page)), path
            assert re.search(r"</time>\s+[.,;]", page) is None, path


@pytest.mark.req("R-RI-01", "R-RI-02", "R-RI-03", "R-RI-05", "R-RI-09", "R-RI-10", "R-OB-07")
def test_an_action_is_never_called_completed_early(shop: Workshop, clock: Clock, tmp_path: Any):
    codes = []

    def look(action_id: str) -> None:
        report = shop.report(action_id)
        codes.append(report["code"])
        action = shop.operator_key.get(f"/actions/{action_id}").json()
        assert action["user_status"] == {"code": report["code"], "text": report["text"]}
        assert report["completed"] == (report["code"] == "COMPLETED") == (action["state"] == "RECONCILED_SUCCESS")

    action_id = shop.propose()
    look(action_id)
    shop.vote(shop.approval_of(action_id))
    look(action_id)
    order = shop.claim()[0]
    look(action_id)
    started = shop.start(order).json()
    look(action_id)
    shop.observe(started, result=result(status="success", evidence={"note": "All done, completed, finished."}))
    look(action_id)
    (tmp_path / "documents" / "policies" / "returns.md").unlink()
    clock.forward(seconds=90)
    shop.read_back(action_id, clock)
    look(action_id)
    assert codes == [
        *["NOT_EXECUTED"] * 3,
        "ATTEMPTED_RESULT_UNKNOWN",
        "RESPONSE_RECEIVED_VERIFICATION_PENDING",
        "COMPLETED",
    ]


@pytest.mark.req("R-RI-13")
def test_user_task_and_model_are_told_of_success_only_after_the_reading_that_shows_it(
    shop: Workshop, clock: Clock, tmp_path: Path
):
    action_id = shop.propose()
    session = shop.operator_key.get(f"/actions/{action_id}").json()["session_id"]

    def told_as_done() -> set[str]:
        """Who takes it for done now: the user's report, the state of the task, the facts of the model."""
        action = shop.operator_key.get(f"/actions/{action_id}").json()
        context = shop.agent.get(f"/sessions/{session}/context").json()
        assert action_id in str([*context["facts"], *context["unresolved"]])
        found = {
            "user": shop.report(action_id)["completed"],
            "task": action["outcome"] == "VERIFIED",
            "model": action_id in [each["action_id"] for each in context["facts"]],
        }
        return {name for name, done in found.items() if done}

    assert told_as_done() == set()
    shop.vote(shop.approval_of(action_id))
    started = shop.start(shop.claim()[0]).json()
    assert told_as_done() == set()
    shop.observe(started, result=result(status="success"))
    assert told_as_done() == set()
    (tmp_path / "documents" / "policies" / "returns.md").unlink()
    clock.forward(seconds=90)
    assert told_as_done() == set(), "it is done, and nobody has read it yet"
    assert shop.read_back(action_id, clock) == "RECONCILED_SUCCESS"
    assert told_as_done() == {"user", "task", "model"}

    times = shop.history(action_id)[-1]["entry"]["timestamps"]
    steps = [times[f"{step}_at"] for step in ("proposed", "validated", "executed", "verified", "reconciled")]
    assert steps == sorted(steps)
    with tenancy(shop.tenant):
        read_at = after.runs_of(shop.tenant, UUID(action_id))[-1].at
        first_told = min(row.at for row in after.reports_of(shop.tenant, UUID(action_id)) if row.completed)
    assert instant(read_at) <= times["verified_at"] <= times["reconciled_at"] <= instant(first_told)


@pytest.mark.req("R-OB-05", "R-OB-07", "R-OB-08")
@pytest.mark.parametrize(("sent", "highest"), [(True, 4), (False, 3)])
def test_the_trust_level_rises_with_the_evidence(shop: Workshop, clock: Clock, tmp_path: Any, sent: bool, highest: int):
    if sent:
        shop.agent.headers["traceparent"] = f"00-{'a' * 32}-{'b' * 16}-01"
    started = shop.started()
    action_id = started["action_id"]
    levels = [shop.report(action_id)["trust_level"]]
    shop.observe(started)
    levels.append(shop.report(action_id)["trust_level"])
    (tmp_path / "documents" / "policies" / "returns.md").unlink()
    clock.forward(seconds=90)
    shop.read_back(action_id, clock)
    levels.append(shop.report(action_id)["trust_level"])
    seal_up()
    levels.append(shop.report(action_id)["trust_level"])
    assert levels == [0, 1, 3, highest]
    page = words(shop.operator.client.get(f"/t/orchid/actions/{action_id}").content.decode())
    assert f"level {highest} of 4" in page
    assert ("Missing: trace evidence." in page) is not sent


@pytest.mark.req("R-RI-07", "R-RI-08", "R-HS-05")
def test_an_action_without_an_answer_is_unknown_until_the_system_was_read(shop: Workshop, clock: Clock):
    started = shop.started()
    action_id = started["action_id"]
    clock.forward(seconds=30)
    lapse()
    unknown = shop.report(action_id)
    assert (unknown["code"], unknown["completed"]) == ("FINAL_STATE_UNKNOWN", False)
    clock.forward(seconds=90)
    shop.read_back(action_id, clock)
    failed = shop.report(action_id)
    assert failed["code"] == "FAILED"
    assert failed["text"] == "Failed. The system of record shows that nothing happened."


@pytest.mark.req("R-TC-17", "R-AP-10")
def test_refused_and_cancelled_actions_are_reported_as_not_executed(shop: Workshop):
    invalid = shop.call(arguments={"path": "policies/returns.md", "reason": 7})
    assert invalid["state"] == "FAILED"
    cancelled = shop.propose()
    shop.agent.post(f"/actions/{cancelled}/cancel")
    for action_id in (invalid["action_id"], cancelled):
        report = shop.report(action_id)
        assert (report["code"], report["completed"]) == ("NOT_EXECUTED", False)


@pytest.mark.req("R-LE-03", "R-LE-07", "R-LE-08", "R-LE-12", "R-SM-21")
def test_every_event_of_the_history_has_the_entry_at_that_time(shop: Workshop, clock: Clock):
    started = shop.started()
    shop.observe(started)
    clock.forward(seconds=90)
    shop.read_back(started["action_id"], clock)
    events = shop.history(started["action_id"])
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[0]["prev_hash"] is None
    for before, event in pairwise(events):
        assert event["prev_hash"] == before["entry_hash"]
        assert event["at"] >= before["at"]
    for event in events:
        assert event["entry"]["action_id"] == started["action_id"]
        assert event["actor"]["kind"] in {"agent", "system", "executor", "person"}


@pytest.mark.req("R-SM-24")
def test_the_state_machine_is_published(shop: Workshop):
    machine = shop.auditor.get("/state-machine").json()
    assert set(machine["states"]) == {str(state) for state in State}
    assert {(each["from"], each["to"]) for each in machine["transitions"]} == TRANSITIONS
