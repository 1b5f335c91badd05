"""Settling a case is signed as a vote is: for what was on the screen, by who they are, and checked by an outsider."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from console.accounts.members import operations as people
from console.models import Membership
from ledger.db import tenancy
from ledger.record.operations import SYSTEM
from ledger.record.queries import events, evidence
from ledger.verify_bundle import Verdict
from tests.support import exported
from tests.support.api_tenant import Clock, Workshop
from tests.support.browser_users import visitor, words
from tests.support.settling import EVIDENCE, confirm, confirm_on_page, covers_of, screen, settle, settle_on_page
from tests.support.signing import actor_of, enrolled, wanted

WHY = {"reason": "The provider shows it.", "evidence": "Statement of 21 November, line 4"}
STALE = "The case has changed since you opened this page; reload it. Nothing was recorded."


@pytest.fixture
def case(shop: Workshop, clock: Clock) -> dict[str, Any]:
    """An irreversible deletion that was reported done and did not happen."""
    return shop.held(clock)


def problem(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["detail"]


def shown(shop: Workshop, case: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = shop.operator.get(f"/reviews/{case['case_id']}").json()
    return found


def test_an_attestation_requires_proof_of_identity(shop: Workshop, case: dict[str, Any]):
    asked = "Settling this asks for your password, a one-time code or a passkey. Nothing was recorded."
    assert problem(settle(shop.operator, case["case_id"], "ATTEST_ABSENT", password=None)) == (403, asked)
    wrong = "Wrong password or code. Nothing was saved."
    assert problem(settle(shop.operator, case["case_id"], "ATTEST_ABSENT", password="guessed")) == (403, wrong)
    assert shown(shop, case)["state"] == "OPEN"
    assert settle(shop.operator, case["case_id"], "ATTEST_ABSENT").json()["state"] == "AWAITING_SECOND"
    assert problem(confirm(shop.reviewer, case["case_id"], password=None)) == (403, asked)
    assert confirm(shop.reviewer, case["case_id"]).json()["state"] == "RESOLVED"


def test_a_case_shows_what_is_signed_and_how(shop: Workshop, case: dict[str, Any]):
    ways = {each["resolution"]: each for each in shown(shop, case)["allowed"]}
    assert {code: way["proof"] for code, way in ways.items()} == {
        "VERIFY_AGAIN": "D",
        "STRONG_READ": "D",
        **dict.fromkeys(("ATTEST_PRESENT", "ATTEST_ABSENT", "FAIL", "ABANDON"), "C"),
    }
    assert ways["ATTEST_PRESENT"]["meaning"] == (
        "I have seen this case and its evidence. On my own word, the effect of this action is there."
        " A reading showed no effect."
    )


def test_evidence_added_meanwhile_makes_the_page_outdated(shop: Workshop, case: dict[str, Any]):
    read = screen(shop.operator, case["case_id"])
    late = {"action_id": case["action_id"], "text": "The provider wrote."}
    assert shop.reviewer.post("/evidence", late).status_code == 201
    assert problem(settle(shop.operator, case["case_id"], "ATTEST_ABSENT", covers=read)) == (409, STALE)
    assert problem(settle(shop.operator, case["case_id"], "ATTEST_ABSENT", covers="")) == (409, STALE)
    assert settle(shop.operator, case["case_id"], "ATTEST_ABSENT").status_code == 200


def test_a_proposal_based_on_less_evidence_than_now_known_is_not_confirmed(shop: Workshop, case: dict[str, Any]):
    settle(shop.operator, case["case_id"], "ATTEST_ABSENT")
    late = {"action_id": case["action_id"], "text": "The provider wrote."}
    assert shop.reviewer.post("/evidence", late).status_code == 201
    status, detail = problem(confirm(shop.reviewer, case["case_id"]))
    assert status == 409
    assert detail.endswith("Return it; it can be proposed again.")
    assert confirm(shop.reviewer, case["case_id"], accept=False, password=None).json()["state"] == "OPEN"


def test_the_second_person_signs_over_what_the_first_signed(shop: Workshop, case: dict[str, Any]):
    settle(shop.operator, case["case_id"], "ATTEST_ABSENT")
    confirm(shop.reviewer, case["case_id"])
    with tenancy(shop.tenant):
        rows = evidence.evidence_of(shop.tenant, UUID(case["action_id"]))
        kept = {row.purpose: evidence.open_evidence(shop.tenant, row.id) for row in rows}
        told = [detail for event, _, detail in events.history(shop.tenant, UUID(case["case_id"])) if detail]
    first, second = json.loads(kept["proposal"] or b""), json.loads(kept["statement"] or b"")
    assert second["covers"] == first["covers"]
    assert second["settlement"]["over"] == told[-1]["proposal_hash"] == told[-2]["statement_hash"]
    assert (first["settlement"]["act"], second["settlement"]["act"]) == ("propose", "confirm")
    assert second["covers"]["action_id"] == case["action_id"]
    assert len(second["covers"]["evidence"]) >= 3
    assert second["settlement"]["by"] == str(actor_of(shop.tenant, shop.reviewer))


@pytest.mark.req("R-CX-09")
def test_accounts_linked_after_the_proposal_count_as_one_person(shop: Workshop, case: dict[str, Any]):
    """The first statement names the person that its account was then; the account is another one's now."""
    late = shop.person("operator", name="late@orchid")
    settle(late, case["case_id"], "ATTEST_ABSENT")
    places = [Membership.objects.get(tenant_id=shop.tenant, user=each.user).id for each in (shop.reviewer, late)]
    with tenancy(shop.tenant):
        people.link_accounts(tenant_id=shop.tenant, member_ids=places, by=SYSTEM, at=datetime.now(UTC))
    refused = confirm(shop.reviewer, case["case_id"])
    assert (refused.status_code, refused.json()["code"]) == (403, "SECOND_PERSON_NEEDED")


@pytest.mark.req("R-CX-09")
def test_no_key_can_settle_a_case_that_requires_a_person(shop: Workshop, case: dict[str, Any]):
    read = screen(shop.operator, case["case_id"])
    for key in (shop.operator_key, shop.agent, shop.executor, shop.auditor):
        for answer in (
            settle(key, case["case_id"], "ATTEST_ABSENT", covers=read),
            confirm(key, case["case_id"], covers=read),
            key.post(f"/reviews/{case['case_id']}/challenges", {"covers": read}),
        ):
            assert answer.status_code == 403
            assert answer.json()["code"] == "FORBIDDEN"


def test_a_passkey_signs_where_the_policy_requires_one(shop: Workshop, case: dict[str, Any]):
    strict = {"version": "2", "document": {"step_up": "A"}}
    assert shop.operator_key.release("approval", strict).status_code == 201
    status, detail = problem(settle(shop.operator, case["case_id"], "ABANDON"))
    assert (status, detail) == (403, "The policy asks for a passkey to settle this. Nothing was recorded.")
    one = enrolled(shop.tenant, actor_of(shop.tenant, shop.operator))
    path, read = f"/reviews/{case['case_id']}", screen(shop.operator, case["case_id"])
    said = {"resolution": "ABANDON", "reason": "I looked.", "evidence": EVIDENCE, "covers": read}
    asked = shop.operator.post(f"{path}/challenges", said)
    assert asked.status_code == 201, asked.content
    told = json.loads(asked.json()["statement"])["settlement"]
    assert (told["evidence_class"], told["credential_id"], told["act"]) == ("A", one.name, "propose")
    signed = {"challenge_id": asked.json()["challenge_id"], "assertion": one.answer(wanted(asked.json()))}
    other = shop.operator.post(f"{path}/resolve", said | signed | {"reason": "Something else."})
    assert problem(other) == (409, STALE)
    assert shop.operator.post(f"{path}/resolve", said | signed).json()["state"] == "AWAITING_SECOND"
    again = shop.operator.post(f"{path}/resolve", said | signed)
    assert again.json()["code"] == "CHALLENGE_SPENT"


def test_a_settlement_can_be_verified_from_the_bundle_alone(
    shop: Workshop, case: dict[str, Any], settings: Any, tmp_path: Any
):
    settings.COUNTERFOIL_EXPORTS = tmp_path / "exports"
    settle(shop.operator, case["case_id"], "ATTEST_ABSENT")
    confirm(shop.reviewer, case["case_id"])
    report = exported.judged(exported.bundle(shop.tenant, payloads=True), exported.policy(shop.tenant))
    assert report.worst is Verdict.VERIFIED, report.findings
    assert "2 settlements without a signature" in report.looked["signatures"]


# The page


def test_the_page_shows_the_statement_and_asks_for_the_password(stage):
    page = visitor(stage, "operator").page(f"cases/{stage.case().id}")
    said = words(page)
    assert "On my own word, the effect of this action is there." in said
    assert (
        "The action ends as attested by a person, never as verified. A repeat (same tool, target and values) is refused"
        " for 30 days, from every agent and in every session."
    ) in said
    looks, attests = page.split('value="VERIFY_AGAIN"')[1].split("</form>")[0], page.split('value="ATTEST_PRESENT"')[1]
    assert 'name="password"' not in looks
    assert 'name="password"' in attests.split("</form>")[0]


def test_an_outdated_page_is_refused_and_the_typed_text_is_kept(stage):
    case, operator = stage.case(), visitor(stage, "operator")
    old = covers_of(operator.page(f"cases/{case.id}"))
    settle_on_page(operator, case.id, "ATTEST_ABSENT", **WHY)
    confirm_on_page(visitor(stage, "reviewer"), case.id, "decline")
    stage.add_evidence(case.action_id)
    answer = settle_on_page(operator, case.id, "ATTEST_ABSENT", covers=old, **WHY)
    page = answer.content.decode()
    assert answer.status_code == 409
    assert STALE in words(page)
    assert WHY["reason"] in page
    assert WHY["evidence"] in page
    assert covers_of(page) not in ("", old)


def test_a_wrong_password_settles_nothing_and_the_typed_text_is_kept(stage):
    case, operator = stage.case(), visitor(stage, "operator")
    answer = settle_on_page(operator, case.id, "ATTEST_ABSENT", password="guessed", **WHY)
    page = answer.content.decode()
    assert answer.status_code == 403
    assert "Wrong password or code. Nothing was saved." in words(page)
    assert WHY["reason"] in page
    assert "guessed" not in page
    assert stage.state(case.action_id) == "REVIEW_REQUIRED"


def test_the_page_of_a_settled_case_names_the_proof_of_its_signature(stage):
    case, operator = stage.case(), visitor(stage, "operator")
    settle_on_page(operator, case.id, "ATTEST_ABSENT", **WHY)
    confirm_on_page(visitor(stage, "reviewer", name="second@orchid"), case.id)
    assert "confirmed by Second, signed with session and password" in words(operator.page(f"cases/{case.id}"))
