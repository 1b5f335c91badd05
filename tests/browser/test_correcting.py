"""A correction, from the case to its end: proposed with a click, approved by another person, closed by a reading."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from approvals import tasks as before
from ledger.actions.queries import actions
from ledger.db import tenancy
from reviews import queries
from reviews import tasks as after
from tests.browser.conftest import PHONE_IS_LONG
from tests.support import scenes
from tests.support.scenes import PASSWORD, set_up


@pytest.fixture
def site(site):
    """A tenant whose small refunds can be charged again."""
    return replace(site, stage=set_up(f"heron-{uuid4().hex[:8]}", "refund_small_amount", "charge_again"))


def propose_correction(page):
    way = page.locator("details.way", has_text="Propose correction")
    page.locator("[data-part=next]").get_by_role("link", name="Propose correction").click()
    assert way.get_by_label("Reason").evaluate("field => field === document.activeElement")
    way.get_by_text("An action is proposed to reverse refund 4 (12.50 EUR) with charge_again.").wait_for()
    way.get_by_label("Reason").fill("The second one is too many.")
    way.get_by_label("Evidence").fill("The reading of the shop.")
    way.get_by_label("Confirm with your password").fill(PASSWORD)
    way.get_by_role("button", name="Propose correction").click()
    page.get_by_text("A correction is under way.").first.wait_for()


@PHONE_IS_LONG
def test_a_duplicate_refund_is_corrected_from_its_case(people, site, width, monkeypatch):
    stage = site.stage
    action_id = stage.propose(tool="refund_small_amount", amount=1250)
    if stage.approval(action_id):
        stage.approve(action_id)
    stage.execute(action_id)
    shown = {"count": 2, "ids": (3, 4), "amount": 1250}
    assert stage.read(action_id, **shown) == "REVIEW_REQUIRED"
    with tenancy(stage.tenant):
        case = queries.case_of(stage.tenant, action_id)
    operator = people(width).enter("operator")
    page = operator.page
    operator.go(f"cases/{case.id}")
    page.get_by_text("12.50 EUR too much: refund 3 and refund 4 exist, one of 12.50 was").wait_for()
    propose_correction(page)
    before.propose_follow_ups()
    with tenancy(stage.tenant):
        [child] = actions.children_of(stage.tenant, action_id)
    operator.go(f"cases/{case.id}")
    page.get_by_role("link", name="charge_again on refund/4: Waiting for approval.").click()
    page.get_by_text("This is the correction of another action:").wait_for()
    # The correction was proposed just now, by a task.
    monkeypatch.setattr(scenes, "now", lambda: datetime.now(UTC))
    stage.approve(child.id)
    stage.execute(child.id)
    seen = {"effect": "charge", "refund_id": 4, "amount": 1250, "tenant": "north", "actor": "example-executor"}
    assert stage.read(child.id, **seen) == "RECONCILED_SUCCESS"
    # It was read in half a minute, as far as this process knows.
    monkeypatch.setattr("django.utils.timezone.now", later := lambda: datetime.now(UTC) + timedelta(minutes=1))
    monkeypatch.setattr(scenes, "now", later)
    after.recover()
    operator.go(f"cases/{case.id}")
    page.get_by_role("link", name="charge_again on refund/4: Verified.").wait_for()
    assert stage.read(action_id, **shown) == "RECONCILED_SUCCESS"
    operator.go(f"cases/{case.id}")
    page.get_by_text("proposed a correction, which a reading confirmed").first.wait_for()
    operator.go(f"actions/{action_id}")
    page.get_by_text("Verified after a correction").first.wait_for()
