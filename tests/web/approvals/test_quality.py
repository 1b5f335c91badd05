"""Reviewer quality end to end: what is measured, what comes of decisions, and who may read it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from approvals.models import ApprovalDisplay
from console import tasks
from ledger.db import tenancy
from tests.support.api_tenant import Workshop


def policy(shop: Workshop, **document: Any) -> None:
    body = {"version": "2", "document": {"version": "2"} | document}
    assert shop.operator_key.release("approval", body).status_code == 201


def kept(shop: Workshop) -> list[ApprovalDisplay]:
    with tenancy(shop.tenant):
        return list(ApprovalDisplay.objects.filter(tenant_id=shop.tenant))


def figures(api: Any, by: str) -> dict[str, Any]:
    answer = api.get("/approvals/quality")
    assert answer.status_code == 200, answer.content
    return {each["by"]: each for each in answer.json()["reports"]}.get(by, {"rows": [], "withheld": 0})


def test_a_team_sees_figures_of_groups_without_names(shop: Workshop):
    people = [shop.person("reviewer", name=f"{name}@orchid") for name in ("ann", "bob", "cem")]
    for number in range(5):
        approval = shop.approval_of(shop.propose(path=f"old/{number}.md"))
        voter = people[number % 3]
        voter.get(f"/approvals/{approval['approval_id']}")
        assert shop.vote(approval, by=voter).status_code == 201
    [row] = figures(shop.reviewer, "agent")["rows"]
    assert (row["name"], row["votes"], row["people"], row["quick"]) == ("librarian", 5, 3, 1.0)
    assert figures(shop.person("administrator"), "reviewer") == {"by": "reviewer", "withheld": 3, "rows": []}


def test_personal_figures_are_shown_to_administrators_and_to_the_person(shop: Workshop):
    policy(shop, privacy={"reviewer_quality": "person"})
    shop.approved()
    assert [row["votes"] for row in figures(shop.reviewer, "reviewer")["rows"]] == [1]
    assert figures(shop.operator, "reviewer")["rows"] == []
    assert [row["votes"] for row in figures(shop.person("administrator"), "reviewer")["rows"]] == [1]


def test_a_period_before_the_first_possible_id_is_shortened(shop: Workshop):
    """Ids begin with their time, counted from 1970."""
    answer = shop.reviewer.get("/approvals/quality?to=1970-01-02T00:00:00Z")
    assert (answer.status_code, answer.json()["from"]) == (200, "1970-01-01T00:00:00.000000Z")


def test_with_quality_metrics_off_nothing_is_stored_or_shown(shop: Workshop):
    policy(shop, privacy={"reviewer_quality": "off"})
    shop.approved()
    assert kept(shop) == []
    assert shop.reviewer.get("/approvals/quality").json()["reports"] == []


def test_the_reported_reading_time_is_limited_by_the_clock_of_the_server(shop: Workshop, clock: Any):
    approval = shop.approval_of(shop.propose())
    path = f"/approvals/{approval['approval_id']}/attention"
    clock.forward(seconds=10)
    assert shop.reviewer.post(path, {"visible_s": 4000, "opened": ["payload"]}).json() == {"taken": True}
    [row] = kept(shop)
    assert 10 <= row.visible_s < 60
    assert row.opened == ["payload"]
    assert shop.operator.post(path, {"visible_s": 1}).json() == {"taken": False}


@pytest.mark.parametrize("risk", ["HIGH", "NORMAL"])
def test_a_high_risk_request_cannot_be_approved_before_the_minimum_reading_time(shop: Workshop, clock: Any, risk: str):
    """Only the time that the server measured counts, whatever the page says."""
    from approvals.models import Approval

    policy(shop, min_dwell_s=30)
    action_id = shop.propose()
    with tenancy(shop.tenant):
        Approval.objects.filter(tenant_id=shop.tenant).update(risk=risk)
    approval = shop.approval_of(action_id)
    shop.reviewer.post(f"/approvals/{approval['approval_id']}/attention", {"visible_s": 4000})
    answer = shop.vote(approval)
    if risk == "NORMAL":
        assert answer.status_code == 201
        return
    assert (answer.status_code, answer.json()["code"]) == (409, "DWELL_REQUIRED")
    assert "30 s" in answer.json()["detail"]
    assert shop.approval_of(action_id)["state"] == "REQUESTED"
    clock.forward(seconds=31)
    assert shop.vote(approval).status_code == 201


def test_a_rejection_requires_no_reading_time(shop: Workshop):
    from approvals.models import Approval

    policy(shop, min_dwell_s=30)
    action_id = shop.propose()
    with tenancy(shop.tenant):
        Approval.objects.filter(tenant_id=shop.tenant).update(risk="HIGH")
    assert shop.vote(shop.approval_of(action_id), verdict="reject", reason="No.").status_code == 201


def test_a_quality_record_is_dropped_after_its_retention_period(shop: Workshop, clock: Any):
    shop.approved()
    assert len(kept(shop)) == 1
    clock.ahead += timedelta(days=181)
    tasks.tidy()
    assert kept(shop) == []


def test_the_page_shows_the_same_figures_in_words(shop: Workshop):
    policy(shop, privacy={"reviewer_quality": "person"})
    shop.approved()
    page = shop.reviewer.client.get("/t/orchid/approvals/quality").content.decode()
    assert "1 vote of 1 person; 0% not approved" in page
    assert "none settled yet" in page
    policy_off = {"version": "3", "document": {"version": "3", "privacy": {"reviewer_quality": "off"}}}
    shop.operator_key.release("approval", policy_off)
    page = shop.reviewer.client.get("/t/orchid/approvals/quality").content.decode()
    assert "Turned off by the approval policy." in page
