"""Many cases at once, in a browser: what is ticked outlives paging, and steps are ticked with one click."""

from __future__ import annotations


def test_selected_cases_stay_selected_across_pages_and_form_one_batch(people, site):
    for _ in range(2):
        site.stage.case()
    operator = people().sign_in("operator")
    page = operator.page
    operator.go("cases")
    page.get_by_role("checkbox").first.check()
    page.get_by_text("1 selected").wait_for()
    operator.go("cases?sort=newest")
    page.get_by_text("1 selected").wait_for()
    assert page.get_by_role("checkbox").last.is_checked()
    operator.go("cases?tab=snoozed")
    page.get_by_text("1 selected").wait_for()
    page.get_by_role("button", name="Apply").click()
    page.wait_for_url("**/cases/batches/*")
    page.get_by_role("heading", name="Claim 1 case").wait_for()
    operator.go("cases")
    page.get_by_text("None selected").wait_for()


def test_the_bar_asks_only_for_what_is_needed(people, site):
    site.stage.case()
    operator = people().sign_in("operator")
    operator.go("cases")
    why = operator.page.get_by_label("Reason or comment")
    assert not why.is_visible()
    operator.page.get_by_label("What to do").select_option("SNOOZE")
    assert why.is_visible()


def test_a_step_is_ticked_with_one_click(people, site):
    case = site.stage.case()
    operator = people().sign_in("operator")
    operator.go(f"cases/{case.id}")
    operator.page.get_by_role("button", name="Mark done: Open the newest readback").click()
    operator.page.get_by_text("1 of 6 steps").wait_for()
