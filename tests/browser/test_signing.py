"""A real passkey ceremony in a real browser: signed, refused when anything changes, and walked by keyboard alone."""

from __future__ import annotations

import base64
import secrets
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.browser.conftest import acknowledge_unread
from tests.support.scenes import PASSWORD

VIRTUAL = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


class Passkey:
    """A virtual authenticator of Chromium that holds a key which a second person has confirmed."""

    def __init__(self, person: Any, name: str = "") -> None:
        from tests.support.outside.authenticators import Authenticator
        from tests.support.signing import enrolled

        stage = person.site.stage
        self.person = person
        self.key = Authenticator("p256", rp_id="localhost", origin=person.site.url)
        enrolled(stage.tenant, stage.people[name or f"reviewer@{stage.slug}"].actor_id, self.key)
        self.cdp = person.page.context.new_cdp_session(person.page)
        self.cdp.send("WebAuthn.enable")
        added = self.cdp.send("WebAuthn.addVirtualAuthenticator", {"options": VIRTUAL})
        self.id = added["authenticatorId"]
        private = self.key.p256.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        credential = {
            "credentialId": base64.b64encode(self.key.credential_id).decode(),
            "isResidentCredential": True,
            "rpId": "localhost",
            "privateKey": base64.b64encode(private).decode(),
            "userHandle": base64.b64encode(secrets.token_bytes(16)).decode(),
            "signCount": 1,
        }
        self.cdp.send("WebAuthn.addCredential", {"authenticatorId": self.id, "credential": credential})

    def unverified(self) -> None:
        """From now on the person is not recognised."""
        self.cdp.send("WebAuthn.setUserVerified", {"authenticatorId": self.id, "isUserVerified": False})


def at_approval(people: Any, site: Any, **options: Any) -> tuple[Any, Any, Any]:
    """A reviewer with a passkey at the page of an approval: the person, the key, the approval."""
    action_id = site.stage.propose()
    person = people(**options).enter("reviewer")
    key = Passkey(person)
    approval = site.stage.approval(action_id)
    person.go(f"approvals/{approval.id}")
    person.page.locator("form[data-confirmed=yes]").wait_for()
    acknowledge_unread(person.page)
    return person, key, approval


def vote_of(site: Any, approval: Any) -> Any:
    from approvals.voting.queries import votes
    from ledger.db import tenancy

    with tenancy(site.stage.tenant):
        found = votes.votes_of(site.stage.tenant, approval.id)
    return found[0] if found else None


def change(site: Any, approval: Any, **columns: Any) -> None:
    from approvals.models import Approval
    from ledger.db import tenancy

    with tenancy(site.stage.tenant):
        Approval.objects.filter(tenant_id=site.stage.tenant, id=approval.id).update(**columns)


def test_a_passkey_signs_a_vote_on_a_phone(people, site):
    """Chromium's own authenticator signs the same statement; the counter that it sends is kept with the key."""
    person, key, approval = at_approval(people, site, width="phone", is_mobile=True, has_touch=True)
    person.page.get_by_label("Reason").fill("The photo shows the damage.")
    person.page.get_by_role("button", name="Approve refund").click()
    person.page.get_by_text("Decision recorded: you approved.").wait_for()
    vote = vote_of(site, approval)
    assert (vote.evidence_class, vote.credential_id) == ("A", key.key.name)
    assert "passkey (class A)" in person.page.locator(".votes").inner_text()
    assert site.stage.approval(approval.action_id).state == "APPROVED"


def test_a_phone_may_install_the_console(people, site):
    """What Chromium itself says of the manifest and its icons; a window without a memory may install nothing."""
    person = people("phone").enter("reviewer").go()
    browser = person.page.context.new_cdp_session(person.page)
    found = browser.send("Page.getAppManifest")
    assert (found["url"], found["errors"]) == (f"{site.url}/static/console/console.webmanifest", [])
    assert found["manifest"]["startUrl"] == f"{site.url}/"
    hindered = browser.send("Page.getInstallabilityErrors")["installabilityErrors"]
    assert {each["errorId"] for each in hindered} <= {"in-incognito"}


def test_the_signature_is_checked_again_from_an_exported_bundle(people, site):
    """B30: offline, by the file that an outsider has, and by nothing else."""
    from tests.support import exported

    person, _, _ = at_approval(people, site)
    person.page.get_by_role("button", name="Approve refund").click()
    person.page.get_by_text("Decision recorded: you approved.").wait_for()
    tenant = site.stage.tenant
    report = exported.judged(exported.bundle(tenant), exported.policy(tenant))
    assert (report.document()["verdict"], report.findings) == ("verified", [])
    assert report.looked["signatures"] == "1 passkey signatures"


def test_a_vote_is_cast_by_keyboard_alone(people, site):
    person, _, approval = at_approval(people, site)
    page = person.page
    page.keyboard.press("a")
    page.keyboard.type("The photo shows the damage.")
    for _ in range(3):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.value") == "approve":
            break
    assert page.evaluate("document.activeElement.value") == "approve"
    page.keyboard.press("Enter")
    page.get_by_text("Decision recorded: you approved.").wait_for()
    assert vote_of(site, approval).evidence_class == "A"


def press(page: Any, name: str) -> None:
    """Presses as a person does; where that is too late, the page saw the change by itself and disabled the button."""
    from playwright.sync_api import TimeoutError as TooLate

    button = page.get_by_role("button", name=name)
    try:
        button.click(timeout=15_000)
    except TooLate:
        assert button.is_disabled()


def test_a_change_while_the_page_is_open_stops_the_vote_and_keeps_the_reason(people, site):
    """B1, B37: a stale tab; nothing that was typed is lost."""
    person, _, approval = at_approval(people, site)
    person.expects_complaint("409")
    page = person.page
    page.get_by_label("Reason").fill("The photo shows the damage.")
    change(site, approval, baseline_digest="0" * 64)
    press(page, "Approve refund")
    page.get_by_text("This changed while you were reading.").wait_for()
    assert page.get_by_role("button", name="Approve refund").is_disabled()
    assert vote_of(site, approval) is None
    page.get_by_role("link", name="Read it again").click()
    page.locator("form[data-confirmed=yes]").wait_for()
    assert page.get_by_label("Reason").input_value() == "The photo shows the damage."
    acknowledge_unread(page)
    page.get_by_role("button", name="Approve refund").click()
    page.get_by_text("Decision recorded: you approved.").wait_for()


def test_a_changed_payload_stops_the_vote(people, site, owner_connection):
    """B1: the payload is another one than the page shows."""
    person, _, approval = at_approval(people, site)
    person.expects_complaint("409")
    owner_connection.execute("SELECT set_config('app.tenant', %s, false)", [str(site.stage.tenant)])
    changed = owner_connection.execute(
        "UPDATE ledger_action SET payload_hash = %s WHERE id = %s", ["0" * 64, str(approval.action_id)]
    )
    assert changed.rowcount == 1
    press(person.page, "Approve refund")
    person.page.get_by_text("This changed while you were reading.").wait_for()
    assert vote_of(site, approval) is None


def test_a_page_that_differs_from_the_record_cannot_vote(people, site):
    """B34, B36: the digest is taken from what stands on the page, so a page that was altered cannot vote."""
    action_id = site.stage.propose()
    person = people().enter("reviewer")
    Passkey(person)
    approval = site.stage.approval(action_id)
    page = person.page
    page.route("**/approvals/*", lambda route: _altered(route))
    person.go(f"approvals/{approval.id}")
    page.get_by_text("This changed while you were reading.").wait_for()
    assert page.get_by_role("button", name="Approve refund").is_disabled()
    assert vote_of(site, approval) is None


def _altered(route: Any) -> None:
    answer = route.fetch()
    route.fulfill(
        response=answer, body=answer.text().replace('<span class="value">damaged', '<span class="value">stolen')
    )


@pytest.mark.parametrize("verdict", ["Approve refund", "Reject refund"])
def test_without_user_verification_nothing_is_signed_but_a_rejection_is_still_possible(people, site, verdict):
    """B28: user verification is demanded by the browser too; whoever cannot sign can still refuse."""
    person, key, approval = at_approval(people, site)
    key.unverified()
    page = person.page
    page.get_by_label("Reason").fill("I am not sure about it.")
    page.get_by_role("button", name=verdict).click()
    page.get_by_text("Nothing was signed").wait_for()
    assert vote_of(site, approval) is None
    refuse = page.get_by_role("button", name="Refuse without a signature")
    if verdict.startswith("Approve"):
        assert refuse.count() == 0
        return
    refuse.click()
    page.get_by_text("Decision recorded: you rejected.").wait_for()
    assert vote_of(site, approval).evidence_class == "D"


def test_focus_stays_where_it_is_during_the_prompt(people, site):
    """The page takes no focus and replaces nothing while the passkey asks."""
    person, key, approval = at_approval(people, site)
    page = person.page
    key.cdp.send("WebAuthn.setAutomaticPresenceSimulation", {"authenticatorId": key.id, "enabled": False})
    button = page.get_by_role("button", name="Approve refund")
    button.focus()
    page.keyboard.press("Enter")
    page.get_by_text("Sign with your passkey.").wait_for()
    site.stage.propose()
    change(site, approval, policy_row="OTHER")
    page.wait_for_timeout(2500)
    assert page.evaluate("document.activeElement.value") == "approve"
    assert page.get_by_text("Sign with your passkey. Confirmation code").is_visible()
    assert vote_of(site, approval) is None


def test_a_password_signs_a_vote_where_the_policy_accepts_it(people, site):
    person, _, approval = at_approval(people, site)
    page = person.page
    page.get_by_label("Password", exact=True).check()
    page.get_by_label("Confirm with your password").fill(PASSWORD)
    page.get_by_role("button", name="Approve refund").dblclick()
    page.get_by_text("Decision recorded: you approved.").wait_for()
    assert vote_of(site, approval).evidence_class == "C"


def test_a_page_restored_from_the_browser_history_cannot_vote_again(people, site):
    """B37: the back button after a vote."""
    person, _, approval = at_approval(people, site)
    page = person.page
    page.get_by_role("button", name="Approve refund").click()
    page.get_by_text("Decision recorded: you approved.").wait_for()
    page.go_back()
    page.wait_for_load_state()
    page.wait_for_timeout(500)
    live = page.locator("form[data-vote][data-confirmed=yes]")
    assert live.count() == 0
    assert datetime.now(UTC) > vote_of(site, approval).at


def test_a_passkey_signs_the_settlement_of_a_case_and_its_confirmation(people, site):
    stage, case = site.stage, site.stage.case(amount=99)
    first = people().enter("operator")
    Passkey(first, f"operator@{stage.slug}")
    first.go(f"cases/{case.id}")
    way = first.page.locator("details.way", has_text="Close unresolved")
    way.locator("summary").click()
    way.get_by_label("Reason").fill("Finance keeps the difference.")
    way.get_by_label("Evidence").fill("FIN-204")
    first.page.get_by_role("button", name="Propose: close unresolved").click()
    first.page.get_by_text("A second approver must confirm it.").wait_for()
    second = people().enter("operator", name=f"second@{stage.slug}")
    Passkey(second, f"second@{stage.slug}")
    second.go(f"cases/{case.id}")
    second.page.get_by_role("button", name="Confirm: close unresolved").click()
    second.page.get_by_text("Confirmed. Case resolved.").wait_for()
    second.page.get_by_text("signed with passkey").wait_for()
    assert stage.state(case.action_id) == "ABANDONED"
