"""Passkeys in a real browser with a virtual authenticator: one that signs in, one that is enrolled for approvals."""

from __future__ import annotations

from typing import Any

import pytest

from approvals.voting.queries import approvers
from ledger.db import tenancy
from tests.browser.chromium import axe, axe_findings
from tests.browser.test_accessible import RULES
from tests.support.scenes import PASSWORD

SECURE = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


def with_authenticator(page: Any, **changes: Any) -> tuple[Any, str]:
    session = page.context.new_cdp_session(page)
    session.send("WebAuthn.enable")
    made = session.send("WebAuthn.addVirtualAuthenticator", {"options": SECURE | changes})
    return session, made["authenticatorId"]


def credentials(session: Any, authenticator: str) -> list[Any]:
    found = session.send("WebAuthn.getCredentials", {"authenticatorId": authenticator})
    return list(found["credentials"])


def keys(site: Any) -> list[Any]:
    with tenancy(site.stage.tenant):
        return approvers.approver_keys(site.stage.tenant)


def show_who_one_is(page: Any) -> None:
    if "/sign-in/again" in page.url:
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Continue").click()
        page.wait_for_load_state()


def test_an_approver_enrols_a_key_and_another_person_confirms_it(people, site):
    rita = people().sign_in("reviewer")
    session, authenticator = with_authenticator(rita.page)
    rita.go("me")
    rita.page.get_by_role("link", name="Enrol a passkey").click()
    show_who_one_is(rita.page)
    rita.page.get_by_label("Name of this key").fill("Blue key")
    rita.page.get_by_role("button", name="Enrol this passkey").click()
    rita.page.wait_for_url("**/me")
    rita.page.get_by_text("needs confirmation by another person").wait_for()
    (made,) = credentials(session, authenticator)
    assert made["isResidentCredential"]
    assert made["rpId"] == "localhost"
    ada = people().enter("administrator")
    ada.go("people")
    ada.page.get_by_role("button", name="Confirm this key of").click()
    ada.page.wait_for_load_state()
    (key,) = keys(site)
    assert (key.state, key.confirmed_by) == ("ACTIVE", site.stage.person("administrator").actor_id)


def test_the_same_authenticator_is_not_enrolled_twice_and_the_page_says_so(people, site):
    rita = people().sign_in("reviewer")
    with_authenticator(rita.page)
    for _ in range(2):
        rita.go("me/keys/enrol")
        show_who_one_is(rita.page)
        rita.page.get_by_role("button", name="Enrol this passkey").click()
        rita.page.get_by_text("needs confirmation by another person").or_(
            rita.page.get_by_text("already enrolled")
        ).wait_for()
    rita.page.get_by_text("This passkey is already enrolled.").wait_for()
    assert len(keys(site)) == 1


def test_a_sign_in_passkey_replaces_the_password_but_cannot_approve(people, site):
    rita = people().sign_in("reviewer")
    session, authenticator = with_authenticator(rita.page)
    rita.page.goto(f"{site.url}/account/passkeys/add")
    show_who_one_is(rita.page)
    rita.page.get_by_role("button", name="Add this passkey").click()
    rita.page.wait_for_url(lambda url: "/account" in url and "add" not in url)
    assert len(credentials(session, authenticator)) == 1
    assert keys(site) == []
    rita.page.context.clear_cookies()
    rita.page.goto(f"{site.url}/sign-in")
    rita.page.get_by_role("button", name="Use a passkey instead").click()
    rita.page.wait_for_url(f"**/t/{site.stage.slug}/")


def test_a_sign_in_passkey_and_an_approval_passkey_coexist_on_one_authenticator(people, site):
    """Resident keys of one site and handle overwrite each other; the handles differ, so none is lost."""
    rita = people().sign_in("reviewer")
    session, authenticator = with_authenticator(rita.page)
    rita.page.goto(f"{site.url}/account/passkeys/add")
    show_who_one_is(rita.page)
    rita.page.get_by_role("button", name="Add this passkey").click()
    rita.page.wait_for_url(lambda url: "/account" in url and "add" not in url)
    rita.go("me/keys/enrol")
    rita.page.get_by_role("button", name="Enrol this passkey").click()
    rita.page.wait_for_url("**/me")
    assert len({each["userHandle"] for each in credentials(session, authenticator)}) == 2


def test_members_and_their_keys_are_managed_by_keyboard_alone(people, site):
    row = site.stage.person("operator", name="otto@corp.example")
    ada = people().enter("administrator").go()
    page = ada.page
    page.keyboard.press("g")
    page.keyboard.press("p")
    page.wait_for_url("**/people")
    page.locator("#members ~ *, [data-part=members] a.open").first.wait_for()
    reach(page, "Otto")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/people/{row.id}")
    reach(page, "", name="groups")
    page.keyboard.type("night-shift")
    reach(page, "Change roles and groups")
    page.keyboard.press("Enter")
    page.get_by_text("Roles changed.").wait_for()
    row.refresh_from_db()
    assert row.groups == ["night-shift"]


def reach(page: Any, text: str, *, name: str = "") -> None:
    """Tab until the focus is on what says this."""
    for _ in range(120):
        page.keyboard.press("Tab")
        said = page.evaluate("[document.activeElement.textContent.trim(), document.activeElement.name || '']")
        if (name and said[1] == name) or (text and said[0].startswith(text)):
            return
    pytest.fail(f"the keyboard does not reach {text or name}")


@pytest.mark.parametrize(("look", "size"), [("light", (1440, 900)), ("dark", (390, 844))])
def test_axe_finds_no_fault_on_the_passkey_pages(people, site, look, size):
    row = site.stage.person("operator")
    person = people(bypass_csp=True, color_scheme=look, reduced_motion="reduce")
    page = person.page
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.add_init_script(axe())
    person.sign_in("administrator", "reviewer")
    found = []
    for path in ("people", f"people/{row.id}", "me", "me/keys/enrol"):
        person.go(path)
        show_who_one_is(page)
        found += axe_findings(page, RULES)
    for path in ("account", "account/app", "account/passkeys/add", "account/password"):
        page.goto(f"{site.url}/{path}")
        found += axe_findings(page, RULES)
    assert found == []
