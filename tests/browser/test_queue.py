"""Working through the approvals: by keyboard alone, beside other people, and without rows that move."""

from __future__ import annotations

import pytest

from tests.browser.conftest import PHONE_IS_LONG, acknowledge_unread
from tests.support.scenes import PASSWORD


@pytest.fixture
def asked(site):
    return [site.stage.approval(site.stage.propose(goal=f"Number {number}.")) for number in (1, 2)]


def focused(page):
    return page.evaluate("document.activeElement.textContent.trim() || document.activeElement.name")


def test_a_reviewer_goes_through_the_queue_without_a_mouse(people, site, asked):
    page = people().enter("reviewer").go().page
    keys = page.keyboard
    keys.press("g")
    keys.press("a")
    page.wait_for_url("**/approvals")
    keys.press("j")
    keys.press("c")
    page.get_by_text("claimed by you").wait_for()
    page.wait_for_load_state()
    keys.press("j")
    keys.press("Enter")
    page.wait_for_url(f"**/approvals/{asked[0].id}?beside=approvals*")
    # Until then the buttons are switched off, and Tab passes them by.
    page.locator("form[data-confirmed=yes]").wait_for()
    acknowledge_unread(page)
    page.locator("h1").first.click()
    keys.press("a")
    assert focused(page) == "password"
    keys.type(PASSWORD)
    for _ in range(8):
        keys.press("Tab")
        if focused(page).startswith("Approve refund"):
            break
    keys.press("Enter")
    page.get_by_text("Decision recorded: you approved.").wait_for()
    assert site.stage.approval(asked[0].action_id).state == "APPROVED"
    assert f"/approvals/{asked[0].id}?beside=approvals" in page.url, "what becomes of it is shown"
    keys.press("Enter")
    page.wait_for_url(f"**/approvals/{asked[1].id}?beside=approvals*")


def test_shortcuts_do_nothing_where_they_are_switched_off(people, site, asked):
    page = people().enter("reviewer").page
    page.goto(site.page("approvals"))
    page.keyboard.press("?")
    page.get_by_role("button", name="Turn them off").click()
    page.wait_for_load_state()
    page.goto(site.page("approvals"))
    page.keyboard.press("j")
    page.keyboard.press("c")
    page.wait_for_timeout(300)
    assert page.get_by_text("claimed by you").count() == 0


def test_new_approvals_are_announced_without_moving_rows(people, site, asked):
    reviewer = people().enter("reviewer")
    page = reviewer.page
    reviewer.go_live("approvals")
    left = "each => each.getBoundingClientRect().x"
    before = page.locator("article[data-item]").first.evaluate(left)
    site.stage.propose(goal="Number 3.")
    page.get_by_role("button", name="1 new").wait_for()
    assert page.locator("article[data-item]").count() == 2
    assert page.locator("article[data-item]").first.evaluate(left) == before
    page.get_by_role("button", name="1 new").click()
    reviewer.wait_until("document.querySelectorAll('article[data-item]').length === 3")


def test_a_filter_is_kept_in_the_address_and_in_a_saved_view(people, site, asked):
    page = people().enter("reviewer").page
    page.goto(site.page("approvals"))
    page.get_by_text("Filter", exact=True).click()
    page.get_by_label("Risk").select_option("HIGH")
    page.wait_for_url("**/approvals?risk=HIGH")
    page.get_by_text("Save this view").first.click()
    page.get_by_label("Name of the view").fill("Grave ones")
    page.get_by_role("button", name="Save this view").click()
    page.get_by_text("Saved as Grave ones.").wait_for()
    page.goto(site.page("approvals"))
    page.get_by_role("link", name="Grave ones").click()
    page.wait_for_url("**/approvals?risk=HIGH")


@PHONE_IS_LONG
def test_a_question_to_the_agent_is_asked_and_shown(people, site, asked, width):
    person = people(width).enter("reviewer")
    person.go(f"approvals/{asked[0].id}")
    person.page.get_by_label("Add a comment").fill("Is there a photo of it?")
    person.page.get_by_role("button", name="Ask the agent").click()
    person.page.get_by_text("1 question open").wait_for()
    person.page.locator("#decide").get_by_text("deadline paused").wait_for()


def test_an_opened_approval_is_marked_as_seen_once_and_shows_who_else_is_looking(people, site, asked, broker):
    """The page itself only reads; its own small request marks what its reader was told as seen."""
    names = (f"{name}@{site.stage.slug}" for name in ("mara", "paul"))
    other, page = (people().enter("reviewer", name=name).page for name in names)
    address = site.page(f"approvals/{asked[0].id}")
    sent = []
    page.on("request", lambda request: sent.append((request.method, request.url, request.post_data)))
    for each in (other, page):
        with each.expect_response(lambda answer: answer.url.endswith("/looking")) as answer:
            each.goto(address)
        assert answer.value.status == 200
    page.get_by_text("Mara is looking at this").wait_for()
    # Those after it only say that the page is still open, every ten seconds.
    assert next(data for method, _, data in sent if method == "POST") == "opened=yes"
    assert [data for _, _, data in sent].count("opened=yes") == 1


def test_a_phone_sorts_a_list_and_the_top_bar_keeps_to_one_line(people, site, asked):
    page = people("phone").enter("reviewer").page
    page.goto(site.page("actions"))
    page.get_by_role("link", name="Agent", exact=True).click()
    page.wait_for_url("**/actions?sort=*")
    page.locator("thead th[aria-sort]").wait_for()
    page.set_viewport_size({"width": 1100, "height": 800})
    heights = "[...document.querySelectorAll('.topbar-facts > :not([hidden])')].map((each) => each.offsetHeight)"
    assert max(page.evaluate(heights)) < 30
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
