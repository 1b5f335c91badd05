"""A refusal is seen: on a phone the page moves to what was wrong, and it can be read again and stays live."""

from __future__ import annotations

from tests.support.scenes import PASSWORD

SEEN = """(() => {
  const refusal = document.querySelector("[data-refused]");
  const box = refusal?.getBoundingClientRect();
  return refusal !== null && document.activeElement === refusal && box.top >= 0 && box.bottom <= innerHeight;
})()"""


def test_on_a_phone_a_refused_form_shows_its_reason_and_leads_to_the_field(people, site):
    case = site.stage.case()
    operator = people("phone").enter("operator")
    operator.expects_complaint("422")
    page = operator.page
    operator.go(f"cases/{case.id}")
    page.evaluate("document.querySelector('form[action$=comments] textarea').removeAttribute('required')")
    with page.expect_response(lambda answer: answer.url.endswith("/comments")) as posted:
        page.get_by_role("button", name="Comment").click()
    assert posted.value.status == 422
    operator.wait_until(SEEN)
    # Reading this address again sends nothing.
    assert page.url.endswith(f"/cases/{case.id}")
    assert page.get_by_role("alert").first.inner_text().startswith("Nothing was saved.")
    page.locator("[data-refused] a").click()
    assert page.evaluate("document.activeElement.name") == "text"


def test_a_refused_page_can_be_reloaded_and_still_receives_live_updates(people, site):
    case = site.stage.case()
    operator = people("phone").enter("operator")
    operator.expects_complaint("422")
    page = operator.page
    operator.go(f"cases/{case.id}")
    page.evaluate("document.querySelector('form[action$=comments] textarea').removeAttribute('required')")
    with page.expect_response(lambda answer: "/api/v1/stream" in answer.url):
        page.get_by_role("button", name="Comment").click()
    operator.wait_until(SEEN)
    with page.expect_response(lambda answer: answer.url.endswith(f"/cases/{case.id}") and answer.status == 200):
        claim(site, case)
    page.goto(page.url)
    assert page.url.endswith(f"/cases/{case.id}")


def claim(site, case):
    from datetime import UTC, datetime

    from ledger.db import tenancy
    from ledger.record import operations as ledger
    from reviews.cases.operations import casework

    by = ledger.Actor("person", site.stage.person("operator").actor_id)
    with tenancy(site.stage.tenant):
        casework.claim(tenant_id=site.stage.tenant, case_id=case.id, by=by, at=datetime.now(UTC))


def test_on_a_phone_a_refusal_by_the_rules_is_scrolled_into_view(people, site):
    operator = people("phone").enter("operator")
    operator.expects_complaint("status of 4")
    page = operator.page
    operator.go("freezes")
    page.get_by_label("What to freeze").select_option("tenant:")
    page.get_by_role("textbox", name="Reason").last.fill("A drill.")
    page.get_by_role("button", name="Freeze", exact=True).click()
    page.get_by_text("Frozen. New actions are blocked").wait_for()
    page.get_by_label("What to freeze").select_option("tenant:")
    page.get_by_role("textbox", name="Reason").last.fill("A drill.")
    page.get_by_role("button", name="Freeze", exact=True).click()
    page.get_by_text("This is already frozen.").wait_for()
    operator.wait_until(SEEN)


def test_a_refusal_that_is_swapped_in_takes_the_focus(people, site):
    operator = people("phone").enter("operator")
    operator.expects_complaint("422")
    page = operator.page
    operator.go("actions")
    page.route("**/actions?*", lambda route: route.fulfill(status=422, body=FRAGMENT, content_type="text/html"))
    page.evaluate("htmx.ajax('GET', location.pathname + '?q=x', {target: '#results', swap: 'innerHTML'})")
    operator.wait_until(SEEN)


TALLER_THAN_THE_WINDOW = "<p>Nothing to see.</p>" * 200
FRAGMENT = TALLER_THAN_THE_WINDOW + '<p class="notice" data-refused role="alert">Nothing was changed.</p>'


def test_what_was_typed_is_back_where_it_stood_after_a_session_that_had_ended(people, site):
    case = site.stage.case(amount=99)
    operator = people().enter("operator")
    page = operator.page
    operator.go(f"cases/{case.id}")
    way = page.locator("details.way", has_text="Close unresolved")
    way.locator("summary").click()
    way.get_by_label("Reason").fill("Finance keeps the difference.")
    way.get_by_label("Evidence").fill("FIN-204")
    way.get_by_label("Confirm with your password").fill(PASSWORD)
    end_session(page)
    page.get_by_role("button", name="Propose: close unresolved").click()
    sign_in_again(page, site, "operator")
    told = "Nothing was recorded: this was sent after your session had ended. What you typed is back in the form."
    page.get_by_role("alert").get_by_text(told).wait_for()
    assert page.url.endswith(f"/cases/{case.id}")
    assert way.get_by_label("Reason").input_value() == "Finance keeps the difference."
    assert way.get_by_label("Evidence").input_value() == "FIN-204"
    assert way.get_by_label("Confirm with your password").input_value() == ""
    # Once only, and not to somebody else.
    operator.go(f"cases/{case.id}")
    assert way.get_by_label("Reason").input_value() == ""


def test_an_approval_page_says_that_its_reader_is_signed_out_and_keeps_the_reason(people, site):
    approval = site.stage.approval(site.stage.propose())
    reviewer = people().enter("reviewer")
    page = reviewer.page
    reviewer.go(f"approvals/{approval.id}")
    page.locator("form[data-confirmed=yes]").wait_for()
    page.get_by_label("Reason").fill("The photo shows the damage.")
    end_session(page)
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    page.get_by_text("You are signed out. Sign in again; your reason is kept.").wait_for()
    assert page.get_by_role("button", name="Approve refund").is_disabled()
    page.get_by_role("link", name="Sign in again").click()
    sign_in_again(page, site, "reviewer")
    page.locator("form[data-confirmed=yes]").wait_for()
    assert page.get_by_label("Reason").input_value() == "The photo shows the damage."


def end_session(page):
    page.context.clear_cookies(name="sessionid")


def sign_in_again(page, site, role):
    page.get_by_label("Email").fill(site.stage.person(role).user.username)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
