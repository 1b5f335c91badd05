"""Many cases at once, in a browser: what is ticked outlives paging, and steps are ticked with one click."""

from __future__ import annotations


def test_selected_cases_stay_selected_across_pages_and_form_one_batch(people, site):
    for _ in range(2):
        site.stage.case()
    operator = people().enter("operator")
    page = operator.page
    operator.go("cases")
    bar = page.get_by_role("form", name="Apply to several cases")
    assert not bar.is_visible()
    page.get_by_role("checkbox", name="Select Refund").first.check()
    page.get_by_text("1 selected").wait_for()
    operator.go("cases?sort=newest")
    page.get_by_text("1 selected").wait_for()
    assert page.get_by_role("checkbox", name="Select Refund").last.is_checked()
    operator.go("cases?tab=snoozed")
    page.get_by_text("1 selected").wait_for()
    page.get_by_role("button", name="Apply").click()
    page.wait_for_url("**/cases/batches/*")
    page.get_by_role("heading", name="Claim 1 case").wait_for()
    operator.go("cases")
    page.get_by_role("checkbox", name="Select Refund").first.wait_for()
    assert not bar.is_visible()


def test_all_rows_of_a_page_are_selected_and_let_go_with_one_click(people, site):
    for _ in range(2):
        site.stage.case()
    operator = people().enter("operator")
    operator.go("cases")
    whole = operator.page.get_by_role("checkbox", name="Select all on this page")
    whole.check()
    count = len(operator.page.get_by_role("checkbox", name="Select Refund").all())
    operator.page.get_by_text(f"{count} selected").wait_for()
    whole.uncheck()
    assert not operator.page.get_by_role("form", name="Apply to several cases").is_visible()


def test_filters_are_set_in_a_menu_and_removed_one_by_one(people, site):
    site.stage.case()
    operator = people().enter("operator")
    page = operator.page
    operator.go("cases")
    assert not page.get_by_label("Discrepancy", exact=True).is_visible()
    page.get_by_text("Filter", exact=True).click()
    page.get_by_label("Discrepancy", exact=True).select_option("NO_OP_FAILURE")
    chip = page.get_by_role("link", name="Discrepancy: No-op failure")
    chip.wait_for()
    # The menu stays open for the next choice.
    page.get_by_label("Age", exact=True).select_option("72")
    page.get_by_role("link", name="Age: Older than 3 days").wait_for()
    page.get_by_text("Filter", exact=True).click()
    page.get_by_role("link", name="Age: Older than 3 days").click()
    page.wait_for_url("**/cases?discrepancy=NO_OP_FAILURE")
    chip.click()
    page.wait_for_url("**/cases")
    assert page.get_by_label("Filters in force").count() == 0


def test_the_bulk_bar_shows_only_the_fields_that_the_chosen_action_needs(people, site):
    site.stage.case()
    operator = people().enter("operator")
    operator.go("cases")
    operator.page.get_by_role("checkbox", name="Select Refund").first.check()
    why = operator.page.get_by_label("Reason or comment")
    assert not why.is_visible()
    operator.page.get_by_label("What to do").select_option("SNOOZE")
    assert why.is_visible()


def test_a_step_is_ticked_with_one_click(people, site):
    case = site.stage.case()
    operator = people().enter("operator")
    operator.go(f"cases/{case.id}")
    operator.page.get_by_role("button", name="Mark done: Open the newest readback").click()
    operator.page.get_by_text("1 of 6 steps").wait_for()


def test_the_next_step_of_a_case_stands_on_the_first_screen_of_a_phone_and_nothing_covers_it(people, site):
    case = site.stage.case()
    operator = people("phone").enter("operator")
    operator.go(f"cases/{case.id}")
    step = operator.page.locator("[data-part=next] .button")
    assert step.count() == 1
    covering = """button => {
        const box = button.getBoundingClientRect();
        const hit = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
        return button.contains(hit) ? "" : hit?.outerHTML ?? "out of sight";
    }"""
    assert step.evaluate(covering) == ""
