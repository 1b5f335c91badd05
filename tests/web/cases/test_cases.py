"""Cases over HTTP: who may settle what, with which words, and what is reported afterwards."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from ledger.db import tenancy
from ledger.record.queries import events as events_queries
from reviews import queries as after
from tests.support import settling
from tests.support.api_tenant import Clock, Workshop
from tests.support.callers import Api


def refused(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def resolve(shop: Workshop, case: dict[str, Any], resolution: str, by: Api | None = None, **changes: Any) -> Any:
    return settling.settle(by or shop.operator, case["case_id"], resolution, **changes)


def confirm(shop: Workshop, case: dict[str, Any], by: Api | None = None, *, accept: bool = True) -> Any:
    return settling.confirm(by or shop.reviewer, case["case_id"], accept=accept)


def settled(shop: Workshop, case: dict[str, Any], resolution: str) -> None:
    """Proposed by the operator, confirmed by the reviewer."""
    assert resolve(shop, case, resolution).json()["state"] == "AWAITING_SECOND"
    assert confirm(shop, case).json()["state"] == "RESOLVED"


def shown(shop: Workshop, case: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = shop.operator.get(f"/reviews/{case['case_id']}").json()
    return found


@pytest.fixture
def case(shop: Workshop, clock: Clock) -> dict[str, Any]:
    """An irreversible deletion that was reported done and did not happen."""
    return shop.held(clock)


@pytest.fixture
def unrun(shop: Workshop) -> dict[str, Any]:
    """An action that was held before it ran."""
    order = shop.claimed()
    shop.start(order, payload_hash="0" * 64)
    found = shop.case_of(order["action_id"])
    assert found is not None
    return found


@pytest.mark.req("R-SM-25", "R-RI-12", "R-RP-04", "R-RP-24")
def test_a_false_success_is_held_and_reported_as_such(shop: Workshop, case: dict[str, Any]):
    assert case["discrepancy"] == "NO_OP_FAILURE"
    assert case["reason"].startswith("RT-04")
    assert shop.path(case["action_id"])[-3:] == ["COMMITTED", "RECONCILIATION_FAILED", "REVIEW_REQUIRED"]
    report = shop.report(case["action_id"])
    assert (report["code"], report["completed"]) == ("REVIEW_REQUIRED", False)
    assert shown(shop, case)["findings"]["readings"]
    with tenancy(shop.tenant):
        action_id = UUID(case["action_id"])
        run = after.last_runs(shop.tenant, [action_id])[action_id]
    assert (run.recovery_row, run.recovery_decision) == ("RT-04", "RT-04 HOLD_AND_ESCALATE")


# The queue


def test_a_case_has_one_claimant(shop: Workshop, case: dict[str, Any]):
    other = shop.person("operator", name="other@orchid")
    path = f"/reviews/{case['case_id']}"
    assert shop.operator.post(f"{path}/claim").status_code == 200
    assert shop.operator.post(f"{path}/claim").status_code == 200
    assert refused(other.post(f"{path}/claim")) == (409, "ALREADY_CLAIMED")
    assert refused(other.post(f"{path}/release")) == (409, "ALREADY_CLAIMED")
    assert shop.operator.post(f"{path}/release").status_code == 200
    assert other.post(f"{path}/claim").status_code == 200


@pytest.mark.req("R-LE-21")
def test_a_case_has_a_thread(shop: Workshop, case: dict[str, Any]):
    people = [shop.operator, shop.reviewer, shop.person("compliance", name="comply@orchid")]
    for number, person in enumerate(people):
        assert person.post(f"/reviews/{case['case_id']}/comments", {"text": f"Note {number}"}).status_code == 201
    assert [each["text"] for each in shown(shop, case)["comments"]] == ["Note 0", "Note 1", "Note 2"]
    with tenancy(shop.tenant):
        events = [event.kind for event, _, _ in events_queries.history(shop.tenant, UUID(case["case_id"]))]
    assert events == ["case_opened", "commented", "commented", "commented"]


@pytest.mark.req("R-CX-09")
def test_only_operators_settle_cases(shop: Workshop, case: dict[str, Any]):
    people = [shop.reviewer, shop.person("compliance", name="comply@orchid"), shop.person("administrator", name="a@o")]
    for caller in (shop.agent, shop.executor, shop.operator_key, shop.auditor, *people):
        assert refused(resolve(shop, case, "ABANDON", by=caller)) == (403, "FORBIDDEN")
        assert refused(caller.post(f"/reviews/{case['case_id']}/claim")) == (403, "FORBIDDEN")
    assert shown(shop, case)["state"] == "OPEN"


# What may be decided


@pytest.mark.req("R-UI-07", "R-SM-18")
def test_only_offered_resolutions_are_accepted(shop: Workshop, case: dict[str, Any]):
    allowed = {each["resolution"]: each["needs_second"] for each in shown(shop, case)["allowed"]}
    settles = dict.fromkeys(("ATTEST_PRESENT", "ATTEST_ABSENT", "FAIL", "ABANDON"), True)
    assert allowed == {"VERIFY_AGAIN": False, "STRONG_READ": False} | settles
    for resolution in ("COMPENSATE", "FORWARD_RECOVER", "ROLL_BACK"):
        assert refused(resolve(shop, case, resolution)) == (409, "RESOLUTION_NOT_ALLOWED")
    assert refused(resolve(shop, case, "RUN_AGAIN")) == (422, "INVALID")
    assert shop.state(case["action_id"]) == "REVIEW_REQUIRED"


def test_a_case_of_an_action_that_never_ran_can_only_be_closed(shop: Workshop, unrun: dict[str, Any]):
    (only,) = shown(shop, unrun)["allowed"]
    assert (only["resolution"], only["needs_second"], only["proof"]) == ("FAIL", False, "C")
    for resolution in ("VERIFY_AGAIN", "ATTEST_PRESENT", "ABANDON"):
        assert refused(resolve(shop, unrun, resolution)) == (409, "RESOLUTION_NOT_ALLOWED")
    assert resolve(shop, unrun, "FAIL").json()["state"] == "RESOLVED"
    assert shop.path(unrun["action_id"]) == ["PROPOSED", "VALIDATED", "REVIEW_REQUIRED", "FAILED"]
    assert shop.report(unrun["action_id"])["code"] == "NOT_EXECUTED"


@pytest.mark.req("R-SM-18")
def test_a_resolution_requires_a_reason_and_evidence(shop: Workshop, case: dict[str, Any]):
    assert refused(resolve(shop, case, "ABANDON", evidence=[])) == (422, "INVALID")
    assert refused(resolve(shop, case, "ABANDON", evidence=[" "])) == (422, "EVIDENCE_REQUIRED")
    assert refused(resolve(shop, case, "ABANDON", reason="")) == (422, "INVALID")
    assert refused(resolve(shop, case, "ABANDON", reason=" ")) == (422, "EVIDENCE_REQUIRED")
    assert shown(shop, case)["state"] == "OPEN"


@pytest.mark.req("R-SM-18")
def test_no_machine_can_end_a_review(shop: Workshop, case: dict[str, Any], clock: Clock):
    action_id = case["action_id"]
    assert refused(shop.operator_key.post(f"/actions/{action_id}/verify")) == (409, "NOTHING_TO_VERIFY")
    assert shop.read_back(action_id, clock) is None
    assert refused(shop.operator_key.post(f"/actions/{action_id}/cancel")) == (409, "NOT_STARTABLE")
    assert shop.state(action_id) == "REVIEW_REQUIRED"


# Two people


def test_an_irreversible_effect_is_settled_by_two_people(shop: Workshop, case: dict[str, Any]):
    assert resolve(shop, case, "ATTEST_ABSENT").json()["state"] == "AWAITING_SECOND"
    assert shop.state(case["action_id"]) == "REVIEW_REQUIRED"
    assert refused(confirm(shop, case, by=shop.operator)) == (403, "SECOND_PERSON_NEEDED")
    for caller in (shop.operator_key, shop.agent, shop.person("compliance", name="comply@orchid")):
        assert refused(confirm(shop, case, by=caller)) == (403, "FORBIDDEN")
    assert confirm(shop, case).json()["state"] == "RESOLVED"
    detail = shop.history(case["action_id"])[-1]["detail"]
    assert detail["by"] != detail["confirmed_by"]
    assert (detail["reason"], detail["evidence"]) == ("I looked.", settling.EVIDENCE)


def test_a_proposal_can_be_returned_or_withdrawn(shop: Workshop, case: dict[str, Any]):
    for person in (shop.reviewer, shop.operator):
        resolve(shop, case, "ATTEST_PRESENT")
        assert confirm(shop, case, by=person, accept=False).json()["state"] == "OPEN"
        assert shown(shop, case)["proposed_resolution"] is None
    assert refused(confirm(shop, case)) == (409, "NOTHING_PROPOSED")
    assert shop.state(case["action_id"]) == "REVIEW_REQUIRED"


def test_only_the_exact_proposal_can_be_confirmed(shop: Workshop, case: dict[str, Any]):
    resolve(shop, case, "ATTEST_ABSENT")
    assert refused(resolve(shop, case, "ATTEST_PRESENT")) == (409, "ALREADY_PROPOSED")
    assert refused(resolve(shop, case, "VERIFY_AGAIN")) == (409, "ALREADY_PROPOSED")
    assert shown(shop, case)["proposed_resolution"] == "ATTEST_ABSENT"


def test_a_settled_case_cannot_be_settled_again(shop: Workshop, case: dict[str, Any]):
    settled(shop, case, "ABANDON")
    assert refused(resolve(shop, case, "FAIL")) == (409, "ALREADY_RESOLVED")
    assert refused(confirm(shop, case)) == (409, "ALREADY_RESOLVED")
    assert shown(shop, case)["allowed"] == []
    assert shop.case_of(case["action_id"]) is None


# What comes of it


@pytest.mark.req("R-UI-08")
def test_an_attested_outcome_is_reported_as_attested(shop: Workshop, case: dict[str, Any]):
    settled(shop, case, "ATTEST_PRESENT")
    report = shop.report(case["action_id"])
    assert (report["code"], report["completed"]) == ("ATTESTED", False)
    assert "person has attested" in report["text"]
    assert shop.history(case["action_id"])[-1]["event"] == "attested_present"


def test_an_attested_absence_is_a_failure_attributed_to_a_person(shop: Workshop, case: dict[str, Any]):
    settled(shop, case, "ATTEST_ABSENT")
    assert shop.state(case["action_id"]) == "FAILED"
    report = shop.report(case["action_id"])
    assert (report["code"], report["completed"]) == ("FAILED", False)
    assert "person has attested" in report["text"]


def test_an_action_settled_as_failed_is_reported_as_such(shop: Workshop, case: dict[str, Any]):
    settled(shop, case, "FAIL")
    assert shop.state(case["action_id"]) == "FAILED"
    report = shop.report(case["action_id"])
    assert (report["code"], report["completed"]) == ("FAILED", False)
    assert report["text"] == "A person settled it as failed; a reading of the system of record showed no effect."


@pytest.mark.req("R-SM-19")
def test_a_closed_unresolved_action_keeps_its_finding(shop: Workshop, case: dict[str, Any]):
    settled(shop, case, "ABANDON")
    assert shop.state(case["action_id"]) == "ABANDONED"
    assert shop.report(case["action_id"])["code"] == "ABANDONED_UNRESOLVED"
    entry = shop.history(case["action_id"])[-1]["entry"]
    assert entry["reconciliation"]["discrepancy_class"] == "NO_OP_FAILURE"


def test_re_verification_continues_from_the_present_state_of_the_system(
    shop: Workshop, case: dict[str, Any], clock: Clock, tmp_path: Any
):
    assert resolve(shop, case, "VERIFY_AGAIN").json()["state"] == "RESOLVED"
    assert shop.state(case["action_id"]) == "PENDING"
    (tmp_path / "documents" / "policies" / "returns.md").unlink()
    clock.forward(seconds=5)
    assert shop.read_back(case["action_id"], clock) == "RECONCILED_SUCCESS"
    assert shop.report(case["action_id"])["code"] == "COMPLETED"


def test_an_unsuccessful_re_verification_opens_another_case(shop: Workshop, case: dict[str, Any], clock: Clock):
    resolve(shop, case, "STRONG_READ")
    clock.forward(seconds=90)
    assert shop.read_back(case["action_id"], clock) == "REVIEW_REQUIRED"
    again = shop.case_of(case["action_id"])
    assert again is not None
    assert again["case_id"] != case["case_id"]


@pytest.mark.req("R-EX-08", "R-MC-11")
def test_a_held_action_blocks_its_repeat_until_it_is_settled(shop: Workshop, case: dict[str, Any]):
    blocked = shop.call()
    assert blocked["result"]["error"]["code"] == "DUPLICATE_BLOCKED"
    assert case["action_id"] in blocked["hint"]
    settled(shop, case, "ABANDON")
    assert shop.call()["accepted"] is True


# Evidence


def test_attached_evidence_gets_a_pointer(shop: Workshop, case: dict[str, Any]):
    body = {"action_id": case["action_id"], "text": "The owner says that it was never deleted."}
    pointer = shop.operator.post("/evidence", body).json()["pointer"]
    evidence = shop.operator.get(f"/actions/{case['action_id']}").json()["evidence"]
    assert next(piece for piece in evidence if piece["pointer"] == pointer)["kind"] == "attachment"
    page = shop.reviewer.client.get(f"/t/{shop.slug}/evidence/{pointer}")
    assert "never deleted" in page.content.decode()
    for caller in (shop.agent, shop.executor, shop.operator_key):
        assert refused(caller.post("/evidence", body)) == (403, "FORBIDDEN")
