"""The list beside an item: walked by keys, decided without leaving it, and gone where there is no room for it."""

from __future__ import annotations

import pytest

from console.accounts import queries as accounts_queries
from ledger.db import tenancy
from tests.browser.chromium import NoBrowser, axe, axe_findings
from tests.browser.conftest import acknowledge_unread, look_at
from tests.browser.test_accessible import RULES
from tests.support.scenes import PASSWORD


@pytest.fixture
def asked(site):
    return [site.stage.approval(site.stage.propose(amount=amount)) for amount in (2050, 9900)]


def open_inbox(person, path):
    """From Home by keyboard: the first item beside its list."""
    person.go()
    person.page.keyboard.press("j")
    person.page.keyboard.press("Enter")
    person.page.wait_for_url(f"**/{path}?beside=inbox&item=*")


def focused(page):
    return page.evaluate("document.activeElement.id || document.activeElement.name || document.activeElement.innerText")


def decide(page, reason, button):
    page.locator("form[data-confirmed=yes]").wait_for()
    page.get_by_label("Reason").fill(reason)
    if button.startswith("Approve"):
        acknowledge_unread(page)
    page.get_by_label("Confirm with your password").fill(PASSWORD)
    page.get_by_role("button", name=button).press("Enter")


@pytest.mark.req("R-UI-23")
def test_a_reviewer_decides_one_item_after_another_without_leaving_the_inbox(people, site, asked):
    first, second = asked
    person = people().enter("reviewer")
    page, keys = person.page, person.page.keyboard
    open_inbox(person, f"approvals/{first.id}")
    assert focused(page) == "item", "the reader goes on in the item"
    keys.press("j")
    page.get_by_role("heading", name="Refund 99.00 EUR").wait_for()
    assert page.url.endswith(f"/approvals/{second.id}?beside=inbox&item={second.id}")
    assert page.locator("#beside [aria-current]").inner_text().startswith("Refund 99.00 EUR")
    page.go_back()
    page.get_by_role("heading", name="Refund 20.50 EUR").wait_for()
    page.reload()
    page.get_by_role("heading", name="Refund 20.50 EUR").wait_for()
    keys.press("a")
    assert focused(page) == "id_password"
    decide(page, "The photo shows the damage.", "Approve refund")
    page.wait_for_url(f"**/approvals/{first.id}?beside=inbox&item={first.id}&decided={first.id}&next={second.id}")
    steps = page.locator("[data-part=came] .axis .what").all_inner_texts()
    assert steps == ["Approved", "Not started", "Not read yet"], "no step without an event"
    keys.press("Enter")
    page.wait_for_url(f"**/approvals/{second.id}?beside=inbox&item={second.id}&decided={first.id}")
    decided = page.get_by_role("list", name="Decided just now").inner_text()
    assert "Refund 20.50 EUR" in decided
    assert "Approved, not yet executed" in decided
    assert site.stage.approval(first.action_id).state == "APPROVED"
    decide(page, "Paid twice.", "Reject refund")
    page.get_by_text("Nothing else is waiting in this list: Inbox.").wait_for()
    assert page.url.endswith(f"/approvals/{second.id}"), "the last one says on its own page what became of it"
    assert site.stage.approval(second.action_id).state == "REJECTED"


def test_a_vote_from_the_side_panel_is_recorded_and_logged_like_one_from_its_own_page(people, site, asked):
    second, person = asked[1], people().enter("reviewer")
    open_inbox(person, f"approvals/{asked[0].id}")
    person.page.keyboard.press("j")
    form = person.page.locator(f"form[data-vote='{second.id}'][data-confirmed=yes]")
    form.wait_for()
    # The script has read the payload back from the page, and its digest is what the vote sends.
    assert form.locator("[name=rendering_digest]").input_value() == second.rendering_digest
    with tenancy(site.stage.tenant):
        seen = accounts_queries.sightings(site.stage.tenant, things=[second.id])
    assert [each.kind for each in seen] == ["approval"]


def test_a_refused_decision_stays_beside_the_list_with_the_focus_on_its_reason(people, site, asked):
    person = people().enter("reviewer")
    person.expects_complaint("status of 4")
    page = person.page
    open_inbox(person, f"approvals/{asked[0].id}")
    page.locator("form[data-confirmed=yes]").wait_for()
    page.get_by_label("Reason").fill("The photo shows the damage.")
    page.get_by_label("Confirm with your password").fill("wrong")
    page.get_by_role("button", name="Approve refund").click()
    page.get_by_text("This is not your password. Your decision was not recorded.").first.wait_for()
    person.wait_until("document.activeElement.matches('.errorlist, [data-refused]')")
    assert page.url.endswith(f"/approvals/{asked[0].id}?beside=inbox&item={asked[0].id}")
    assert page.locator("#beside [data-item]").count() == 2
    assert page.get_by_label("Reason").input_value() == "The photo shows the damage."


def test_an_operator_settles_a_case_beside_the_list_and_is_shown_the_next(people, site):
    cases = [site.stage.case(amount=amount) for amount in (99, 98)]
    person = people().enter("operator")
    page = person.page
    person.go("cases")
    page.locator("tr a.open").last.click()
    page.wait_for_url("**/cases/*?beside=cases*")
    here = page.url.split("/cases/")[1].split("?")[0]
    shown, other = sorted(cases, key=lambda each: str(each.id) != here)
    page.get_by_role("button", name="Claim").click()
    page.get_by_text("Owned by Operator").wait_for()
    assert f"/cases/{shown.id}?beside=cases&item={shown.id}" in page.url, "a case that is claimed still waits"
    way = page.locator("details.way", has_text="Close unresolved")
    way.locator("summary").click()
    way.get_by_label("Reason").fill("The provider was sold; nobody answers.")
    way.get_by_label("Evidence").fill("Letter of 20 November")
    way.get_by_label("Confirm with your password").fill(PASSWORD)
    page.get_by_role("button", name="Propose: close unresolved").click()
    page.wait_for_url(f"**/cases/{other.id}?beside=cases&item={other.id}&decided={shown.id}")
    assert "Waiting for the second approver" in page.get_by_role("list", name="Decided just now").inner_text()


def test_on_a_phone_and_without_javascript_an_item_is_a_page(people, site, asked):
    page = people("phone").enter("reviewer").go().page
    page.locator("[data-part=waits] a.open").first.click()
    page.wait_for_url(f"**/approvals/{asked[0].id}")
    page.goto(site.page(f"approvals/{asked[0].id}?beside=inbox&item={asked[0].id}"))
    assert not page.locator("#beside").is_visible()
    decide(page, "The photo shows the damage.", "Approve refund")
    page.get_by_text("Decision recorded: you approved.").wait_for()
    assert page.url.endswith(f"/approvals/{asked[0].id}")
    plain = people(java_script_enabled=False).enter("reviewer").go().page
    plain.locator("[data-part=waits] a.open").first.click()
    plain.wait_for_url(f"**/approvals/{asked[1].id}")


def test_axe_finds_no_fault_in_the_split_view_in_both_themes(people, site, asked):
    try:
        checker = axe()
    except NoBrowser as reason:
        pytest.skip(f"accessibility tests: {reason}")
    site.stage.case(count=2)
    person = people(bypass_csp=True, reduced_motion="reduce")
    person.page.add_init_script(checker)
    person.enter("reviewer", "operator")
    open_inbox(person, f"approvals/{asked[0].id}")
    found = []
    for theme in ("light", "dark"):
        look_at(person, theme, "wide")
        found += axe_findings(person.page, RULES)
    assert found == []
