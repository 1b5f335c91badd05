"""A time-boxed pass in a browser, at a desk and on a phone: given from a request, seen by everybody, revoked."""

from __future__ import annotations

import os
from pathlib import Path

from ledger.db import tenancy
from tests.browser.conftest import PHONE_IS_LONG
from tests.browser.test_layout import FAULTS
from tests.support.callers import put_in_force
from tests.support.scenes import PASSWORD

POLICY = {
    "version": "2",
    "standing_approvals": {"irreversible": True, "time_boxes": {"most_minutes": 30, "most_count": 5}},
}


@PHONE_IS_LONG
def test_a_reviewer_lets_calls_through_for_a_while_and_an_operator_revokes_it_with_one_click(
    people, site, width, broker
):
    with tenancy(site.stage.tenant):
        put_in_force(site.stage.tenant, "approval", POLICY["version"], POLICY)
    first = site.stage.approval(site.stage.propose())
    reviewer = people(width, reduced_motion="reduce").enter("reviewer")
    reviewer.go(f"approvals/{first.id}")
    page, fold = reviewer.page, reviewer.page.locator("[data-part=time-box]")
    fold.locator("summary").click()
    assert page.evaluate(FAULTS) == []
    fold.get_by_label("Minutes").fill("20")
    fold.get_by_label("Calls at most").fill("3")
    fold.get_by_label("Reason").fill("The lamps came broken.")
    fold.get_by_label("Confirm with your password").fill(PASSWORD)
    if shots := os.environ.get("PASS_SHOTS"):
        page.screenshot(path=Path(shots) / f"give-{width}.png", full_page=True)
    fold.get_by_role("button", name="Let such calls through").click()
    page.get_by_text("Such calls pass without a vote now. This request still waits for a decision.").wait_for()
    assert page.evaluate(FAULTS) == []
    passed = site.stage.approval(site.stage.propose())
    assert (passed.state, passed.standing_id is not None) == ("APPROVED", True)
    reviewer.go(f"approvals/{passed.id}")
    page.get_by_text("Passed under a time-boxed pass, 1 of 3, by").first.wait_for()
    if shots:
        page.screenshot(path=Path(shots) / f"passed-{width}.png", full_page=True)
    reviewer.go(f"approvals/{first.id}")
    operator = people(width, reduced_motion="reduce").enter("operator")
    operator.go("approvals")
    operator.page.get_by_text("pass without a vote until").first.wait_for()
    operator.page.locator(f"#looking-{first.id}:not(:empty)").wait_for()
    assert operator.page.evaluate(FAULTS) == []
    if shots:
        operator.page.screenshot(path=Path(shots) / f"list-{width}.png", full_page=True)
    operator.page.locator("[data-part=time-boxed]").get_by_role("button", name="Revoke").click()
    operator.page.get_by_text("Revoked. Each call needs approval again.").wait_for()
    assert operator.page.get_by_text("A person revoked it.").count() == 1
    if shots:
        operator.page.screenshot(path=Path(shots) / f"revoked-{width}.png", full_page=True)
