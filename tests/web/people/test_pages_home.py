"""Home and the session page."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tests.support.api_tenant import Clock, Workshop
from tests.support.browser_users import visitor, words


def test_an_empty_home_shows_what_it_does_not_know(stage):
    said = words(visitor(stage, "reviewer", "operator").page())
    quiet = "Nothing waits for you. Nothing is wrong on record: no open case or incident, no unknown outcome, no alert."
    assert quiet in said
    assert "Last 24 hours not counted yet" in said
    assert "no action was executed" not in said
    assert "Waiting for approval" not in said
    assert "Nothing needs your attention" in said
    assert "no calls yet" in said
    assert "No unresolved action" in said
    assert "shop 0" in said


def test_the_intake_is_shown_with_the_age_of_its_last_call(stage):
    stage.propose()
    assert "receiving calls, last" in words(visitor(stage, "operator").page())


def test_the_figures_link_to_their_lists(stage):
    stage.propose()
    stage.case()
    page = visitor(stage, "operator").page()
    said = words(page)
    for part in (
        "1 case waits for you.",
        "1 request waits for approval.",
        "Waiting for approval 1 oldest",
        "Open cases 1 oldest",
        "Needs review 1 oldest",
    ):
        assert part in said
    assert "Nothing is wrong" not in said
    assert "Unknown 0" not in said
    assert 'href="/t/orchid/actions?outcome=NEEDS_REVIEW"' in page


@pytest.mark.req("R-UI-23")
def test_approvals_that_expire_within_the_hour_equal_those_of_the_api(shop: Workshop, clock: Clock):
    clock.stop()
    shop.propose(path="policies/old.md")
    clock.forward(minutes=31)
    shop.propose(path="policies/later.md")
    clock.forward(hours=22, minutes=59)
    shop.propose(path="policies/new.md")
    person = shop.person("reviewer", name="later@orchid")
    ends = [datetime.fromisoformat(each["decide_by"]) for each in person.get("/approvals").json()["items"]]
    soon = [each for each in ends if each <= clock.now() + timedelta(hours=1)]
    said = words(person.client.get("/t/orchid/").content.decode())
    assert (len(ends), len(soon)) == (3, 1)
    assert f"Waiting for approval {len(ends)} oldest" in said
    assert f"Due within an hour {len(soon)} oldest" in said


def test_the_waiting_items_depend_on_the_role(stage):
    approval, case = stage.approval(stage.propose()), stage.case()
    reviewer, operator = visitor(stage, "reviewer").page(), visitor(stage, "operator").page()
    assert f"/t/orchid/approvals/{approval.id}" in reviewer
    assert f"/t/orchid/cases/{case.id}" not in reviewer
    assert f"/t/orchid/cases/{case.id}" in operator
    assert f"/t/orchid/approvals/{approval.id}" not in operator
    assert "1 approval waits for you. 1 case needs a person." in words(reviewer)
    assert "1 case waits for you." in words(operator)
    assert "1 request waits for approval." in words(operator)
    assert "Nothing waits for you. 1 request waits for approval. 1 case needs a person." in words(
        visitor(stage, "compliance").page()
    )


@pytest.mark.req("R-UI-15")
def test_a_refused_call_links_to_its_session(stage):
    stage.call("issue_refnd", {"order_id": "EX-1"})
    page = visitor(stage, "operator").page()
    assert "issue_refnd" in words(page)
    session = page.split("/t/orchid/sessions/")[1].split('"')[0]
    said = words(visitor(stage, "operator").page(f"sessions/{session}"))
    for part in ("PHANTOM_TOOL", "issue_refnd", "0 accepted, 1 refused", "Refund the order in full"):
        assert part in said


@pytest.mark.req("R-UI-24")
def test_a_session_shows_its_calls_and_the_text_for_users(stage):
    from ledger.actions.queries import actions
    from ledger.db import tenancy

    action_id = stage.done()
    with tenancy(stage.tenant):
        session = actions.action(stage.tenant, action_id).session_id
    said = words(visitor(stage, "compliance").page(f"sessions/{session}"))
    assert "Done, and confirmed in the system of record." in said
    assert "1 accepted, 0 refused" in said
    assert "Pinned goal" in said


@pytest.mark.req("R-UI-17")
def test_a_freeze_is_visible_and_is_lifted_with_a_reason(stage):
    stage.case(count=2)
    operator = visitor(stage, "operator")
    page = operator.page()
    assert "1 freeze active" in words(page)
    lift = page.split('action="/t/orchid/')[1:]
    path = next(part.split('"')[0] for part in lift if part.startswith("freezes/"))
    operator.post(path, reason="")
    assert "1 freeze active" in words(operator.page())
    operator.post(path, reason="Finance has reversed the second one.")
    assert "1 freeze active" not in words(operator.page())


def test_lifting_a_freeze_is_offered_only_to_those_who_may(stage):
    stage.case(count=2)
    assert "Lift freeze" not in visitor(stage, "reviewer").page()
