"""Working on cases: assigning, snoozing, reopening; over HTTP and on the pages."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests.support.api_tenant import Clock, Workshop
from tests.support.browser_users import visitor, words
from tests.web.cases.test_cases import refused, resolve, settled

WHY = {"reason": "The provider shows it.", "evidence": "Statement of 21 November, line 4"}


@pytest.fixture
def case(shop: Workshop, clock: Clock) -> dict[str, Any]:
    return shop.held(clock)


def kinds(shop: Workshop, case: dict[str, Any]) -> list[str]:
    from uuid import UUID

    from ledger.db import tenancy
    from ledger.record.queries import events

    with tenancy(shop.tenant):
        return [event.kind for event, _, _ in events.history(shop.tenant, UUID(case["case_id"]))]


def test_a_case_can_be_assigned_only_to_an_operator(shop: Workshop, case: dict[str, Any]):
    path = f"/reviews/{case['case_id']}"
    other = shop.person("operator", name="other@orchid")
    owner = other.post(f"{path}/claim").json()["claimed_by"]
    mine = shop.operator.post(f"{path}/assign", {"to": owner})
    assert mine.json()["claimed_by"] == owner
    assert refused(shop.operator.post(f"{path}/assign", {"to": case["case_id"]})) == (422, "NOT_AN_OPERATOR")
    assert refused(shop.reviewer.post(f"{path}/assign", {"to": owner})) == (403, "FORBIDDEN")
    assert kinds(shop, case) == ["case_opened", "case_claimed", "case_assigned"]


def test_a_snoozed_case_leaves_the_queue_and_returns_by_itself(stage, clock: Clock):
    case = stage.case()
    operator = visitor(stage, "operator")
    operator.post(f"cases/{case.id}/snooze", hours="4", reason="The bank opens at nine.")
    assert str(case.id) not in operator.page("cases")
    assert "The bank opens at nine." in words(operator.page(f"cases/{case.id}"))
    assert str(case.id) in operator.page("cases", tab="snoozed")
    assert "1 waiting" not in words(operator.page("cases"))
    clock.forward(hours=5)
    assert str(case.id) in operator.page("cases")
    assert "1 waiting" in words(operator.page("cases"))


def test_a_snooze_requires_a_reason_and_a_time(shop: Workshop, case: dict[str, Any]):
    path = f"/reviews/{case['case_id']}/snooze"
    at = timezone.now()
    late = {"until": (at + timedelta(days=90)).isoformat(), "reason": "Later."}
    past = {"until": (at - timedelta(hours=1)).isoformat(), "reason": "Later."}
    assert refused(shop.operator.post(path, late)) == (422, "BAD_SNOOZE")
    assert refused(shop.operator.post(path, past)) == (422, "BAD_SNOOZE")
    assert refused(shop.operator.post(f"/reviews/{case['case_id']}/wake")) == (409, "NOT_SNOOZED")


def test_the_queue_is_sorted_and_filtered_by_the_address(stage):
    first, second = stage.case(), stage.case(amount=1)
    operator = visitor(stage, "operator")
    operator.post(f"cases/{second.id}/claim")
    newest = operator.page("cases", sort="newest")
    assert newest.index(str(second.id)) < newest.index(str(first.id))
    for name, value, found in (
        ("owner", "nobody", first),
        ("owner", str(stage.person("operator").actor_id), second),
        ("discrepancy", "VALUE_MISMATCH", second),
    ):
        page = operator.page("cases", **{name: value})
        assert [each.id for each in (first, second) if str(each.id) in page] == [found.id]
    for sort in ("oldest", "owner", "reason", "discrepancy"):
        assert str(first.id) in operator.page("cases", sort=sort)
    assert str(first.id) not in operator.page("cases", age="4")


@pytest.mark.parametrize("sort", ["", "oldest", "newest", "owner", "reason", "discrepancy"])
def test_a_page_of_the_queue_continues_where_the_previous_one_ended(stage, sort):
    from ledger.db import tenancy
    from reviews import queries

    cases = [stage.case() for _ in range(3)]
    visitor(stage, "operator").post(f"cases/{cases[1].id}/claim")
    with tenancy(stage.tenant):
        at = timezone.now()
        whole = [each.id for each in queries.cases_on_tab(stage.tenant, "open", sort=sort, at=at)]
        parts, after = [], None
        while found := queries.cases_on_tab(stage.tenant, "open", sort=sort, at=at, after=after, limit=1):
            after = found[0].id
            parts.append(after)
    assert parts == whole
    assert len(whole) == 3


# Reopening


def test_a_disputed_settled_case_is_open_again(shop: Workshop, case: dict[str, Any]):
    settled(shop, case, "ATTEST_PRESENT")
    assert shop.report(case["action_id"])["code"] == "ATTESTED"
    path = f"/reviews/{case['case_id']}/reopen"
    assert refused(shop.reviewer.post(path, {"reason": "I doubt it."})) == (403, "FORBIDDEN")
    assert refused(shop.operator.post(path, {"reason": " "})) == (422, "REASON_REQUIRED")
    assert shop.operator.post(path, {"reason": "The file is still there."}).json()["state"] == "OPEN"
    told = shop.report(case["action_id"])
    assert (told["code"], told["completed"]) == ("FINAL_STATE_UNKNOWN", False)
    assert shop.call()["result"]["error"]["code"] == "DUPLICATE_BLOCKED"
    assert kinds(shop, case)[-1] == "case_reopened"
    settled(shop, case, "ATTEST_PRESENT")
    assert shop.report(case["action_id"])["code"] == "ATTESTED"


@pytest.mark.req("R-SM-18")
def test_a_case_in_re_verification_cannot_be_reopened(shop: Workshop, case: dict[str, Any]):
    assert refused(shop.operator.post(f"/reviews/{case['case_id']}/reopen", {"reason": "No."})) == (409, "NOT_SETTLED")
    resolve(shop, case, "VERIFY_AGAIN")
    answer = shop.operator.post(f"/reviews/{case['case_id']}/reopen", {"reason": "No."})
    assert refused(answer) == (409, "STILL_AT_WORK")


def test_a_reopened_unresolved_case_offers_no_re_verification(shop: Workshop, case):
    settled(shop, case, "ABANDON")
    shop.operator.post(f"/reviews/{case['case_id']}/reopen", {"reason": "It was done after all."})
    shown = shop.operator.get(f"/reviews/{case['case_id']}").json()
    assert {each["resolution"] for each in shown["allowed"]} == {"ATTEST_PRESENT", "ATTEST_ABSENT", "ABANDON"}


# The page


def test_the_page_shows_the_state_of_an_unknown_action_and_why_it_is_held(stage):
    said = words(visitor(stage, "operator").page(f"cases/{stage.case().id}"))
    for part in (
        "blocked",
        "Reads so far 1",
        "Next read none scheduled",
        "Automatic response",
        "Stop autonomous continuation",
        "Reported success without an effect",
        "requires second approver",
    ):
        assert part in said, part


def test_the_target_can_be_frozen_and_released_from_the_case(stage):
    case = stage.case()
    operator = visitor(stage, "operator")
    here = f"/t/{stage.slug}/cases/{case.id}"
    answer = operator.post("freezes/place", what=f"target:{case.target}", reason="Wait.", next=here)
    assert answer["Location"] == here
    page = operator.page(f"cases/{case.id}")
    assert "Frozen: target" in words(page)
    assert "Lift freeze" in page
    sent = {"what": f"tool:{case.tool}", "reason": "Wait.", "next": "https://elsewhere.test/"}
    assert operator.post("freezes/place", **sent)["Location"] == f"/t/{stage.slug}/freezes"


@pytest.mark.req("R-UI-27")
def test_runbook_steps_are_ticked_and_unticked_by_name(stage):
    case = stage.case()
    operator = visitor(stage, "operator")
    step = {"runbook": "false-success", "step": "confirm", "evidence": "run 1"}
    operator.post(f"cases/{case.id}/steps", done="yes", **step)
    page = operator.page(f"cases/{case.id}")
    assert "1 of 6 steps" in words(page)
    assert "run 1" in page
    assert f'href="/t/{stage.slug}/runbooks#false-success"' in page
    assert operator.post(f"cases/{case.id}/steps", done="yes", **step).status_code == 409
    operator.post(f"cases/{case.id}/steps", done="no", **step)
    assert "0 of 6 steps" in words(operator.page(f"cases/{case.id}"))
    reviewer = visitor(stage, "reviewer")
    assert reviewer.post(f"cases/{case.id}/steps", done="yes", **step).status_code == 403
    assert operator.post(f"cases/{case.id}/steps", done="yes", runbook="held", step="dance").status_code == 404


def test_every_source_of_a_run_has_its_own_line(stage):
    from unittest.mock import patch

    from reviews import queries

    case = stage.case()
    sources = [
        {"source": name, "consistency": "STRONG", "freshness": "1", "pointer": name} for name in ("bank", "mail")
    ]
    with patch.object(queries, "run_findings", return_value={"readings": sources, "verdict": {}, "decision": {}}):
        said = words(visitor(stage, "operator").page(f"cases/{case.id}"))
    assert "bank" in said
    assert "mail" in said


def test_a_near_duplicate_is_visible(stage):
    first = stage.propose(order_id="EX-1001", amount=12500)
    second = stage.propose(order_id="EX-1001", amount=12000)
    page = words(visitor(stage, "operator").page(f"actions/{second}"))
    assert "Similar payload" in page
    assert "amount 12500 instead of 12000" in page
    assert str(first) in visitor(stage, "reviewer").page(f"approvals/{stage.approval(second).id}")
