"""Keys, the inspector, and rows that change while somebody looks at them."""

from __future__ import annotations

import pytest


def focused(page):
    return page.evaluate("document.activeElement.textContent.trim() || document.activeElement.name")


def test_the_keyboard_opens_a_page_selects_a_row_and_focuses_the_reason(people, site):
    first = site.stage.propose(goal="The first of two.")
    site.stage.propose(goal="The second of two.")
    page = people().enter("reviewer").go().page
    page.keyboard.press("g")
    page.keyboard.press("a")
    page.wait_for_url("**/approvals")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/approvals/{site.stage.approval(first).id}?beside=approvals*")
    page.keyboard.press("r")
    assert focused(page) == "reason"
    page.keyboard.press("Escape")
    page.locator("h1").first.click()
    page.keyboard.press("a")
    assert focused(page) == "password"
    assert site.stage.approval(first).state == "REQUESTED"


def test_the_keyboard_map_turns_single_keys_off(people, site):
    page = people().enter("reviewer").go().page
    page.keyboard.press("?")
    page.get_by_role("button", name="Turn them off").click()
    page.wait_for_load_state()
    page.keyboard.press("?")
    assert page.locator("dialog[open]").count() == 0
    page.keyboard.press("/")
    assert focused(page) != "q"


def test_the_palette_opens_a_page_and_finds_an_action_by_keyboard(people, site):
    action_id = site.stage.propose(order_id="EX-4242")
    page = people().enter("operator").go().page
    page.keyboard.press("Control+k")
    page.keyboard.type("freez")
    page.locator("#palette [data-found=freez]").wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url("**/freezes")
    page.keyboard.press("Control+k")
    page.keyboard.type("ex-4242")
    page.locator("#palette [data-found=ex-4242]").get_by_role("heading", name="Actions").wait_for()
    for _ in range(2):
        page.keyboard.press("ArrowDown")
    assert "EX-4242" in focused(page)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/actions/{action_id}")


def test_an_entry_opens_beside_the_page_and_closes_again(people, site):
    action_id = site.stage.done()
    person = people().enter("compliance")
    person.go(f"actions/{action_id}")
    person.page.get_by_role("link", name="event 2").click()
    person.page.get_by_role("complementary", name="Inspector").get_by_text("Envelope, as hashed").wait_for()
    assert focused(person.page) == "Entry 2"
    person.page.keyboard.press("Escape")
    assert focused(person.page) == "event 2"


def test_a_hash_is_copied_whole(people, site):
    action_id = site.stage.propose()
    person = people(permissions=["clipboard-read", "clipboard-write"]).enter("reviewer")
    person.go(f"approvals/{site.stage.approval(action_id).id}")
    person.page.get_by_text("what your decision covers:").click()
    person.page.get_by_role("button", name="Copy the payload hash").first.click()
    person.wait_until("document.getElementById('announcer').textContent === 'Copied'")
    assert person.page.evaluate("navigator.clipboard.readText()") == site.stage.approval(action_id).payload_hash


@pytest.mark.req("R-UI-11")
def test_new_rows_announce_themselves_and_known_ones_change_in_place(people, site):
    action_id = site.stage.propose()
    operator = people().enter("operator")
    page = operator.page
    operator.go_live("actions")
    site.stage.propose()
    page.get_by_role("button", name="1 new").wait_for()
    assert page.locator("tr[data-item]").count() == 1
    site.stage.approve(action_id)
    site.stage.execute(action_id)
    page.locator("tr[data-item]").get_by_text("Verifying").wait_for()
    page.get_by_role("button", name="1 new").click()
    operator.wait_until("document.querySelectorAll('tr[data-item]').length === 2")


def test_a_reviewer_is_warned_when_somebody_else_has_already_decided(people, site):
    action_id = site.stage.propose()
    person = people().enter("reviewer", name=f"slow@{site.stage.slug}")
    person.go_live(f"approvals/{site.stage.approval(action_id).id}")
    person.page.get_by_label("Reason").fill("Still thinking")
    site.stage.approve(action_id)
    decide = person.page.get_by_role("region", name="Decide")
    decide.get_by_text("This changed while you were reading.").wait_for()
    person.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    decide.get_by_text("Read it again; your reason is kept.").wait_for()
    assert decide.get_by_text("This changed while you were reading.").count() == 1
    assert person.page.get_by_label("Reason").input_value() == "Still thinking"
    assert person.page.get_by_role("button", name="Approve refund").is_disabled()
