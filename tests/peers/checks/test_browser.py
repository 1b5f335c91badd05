"""Pages of a real Roundup looked at again, and confirmed through its own API."""

from __future__ import annotations

import pytest

from reviews.checks.interface import CheckFailed, Consistency
from tests.peers.support import environment
from tests.peers.support.tracker import look

pytestmark = pytest.mark.long


@pytest.mark.req("R-CP-09")
def test_a_page_that_its_server_confirms_is_present(tracker, issue):
    found = look(tracker, issue)
    (effect,) = found.effects
    assert (effect.present, effect.count) == (True, 1)
    assert effect.fields["subject"] == "Refund o-17"
    assert effect.fields["title"].startswith(f"Issue {issue}: Refund o-17")
    assert effect.fields["account_name"] == "Hello, reader"
    assert effect.fields["confirmed"]
    assert effect.scope == {"target": ("Refund o-17",)}
    assert found.consistency is Consistency.STRONG
    assert found.indicators == ()


def test_a_page_without_its_confirmation_is_a_weak_reading(tracker, issue):
    found = look(tracker, issue, confirmation=None)
    assert found.effects[0].present
    assert found.consistency is Consistency.UNDECLARED
    assert not found.is_strong
    assert look(tracker, issue, confirmation=None, settings={"consistency": "STRONG"}).is_strong


@pytest.mark.req("R-CP-09")
def test_a_missing_element_leaves_presence_undetermined(tracker, issue):
    found = look(tracker, issue, element="div.ok-message", text=None, confirmation=None)
    assert found.effects[0].present is None
    assert found.indicators == ("selector_timeout",)


def test_the_confirmation_of_the_server_outweighs_the_page(tracker, issue):
    found = look(tracker, issue, title="Refund o-18")
    assert found.effects[0].present is False
    assert found.effects[0].fields["confirmed"] is False


def test_a_missing_issue_is_absent(tracker):
    assert look(tracker, "9999").effects[0].present is False
    assert look(tracker, "9999", confirmation=None).effects[0].present is False
    assert look(tracker, "9999", confirmation=None, expect="absent").effects[0].present


@pytest.mark.req("R-CP-09")
def test_a_captcha_is_reported(tracker, issue):
    found = look(tracker, issue, page="'/@@file/challenge.html'", confirmation=None, account=None)
    assert found.effects[0].present is None
    assert found.indicators == ("captcha",)


@pytest.mark.req("R-CP-09")
def test_a_redirect_is_not_followed(tracker, issue):
    found = look(tracker, issue, page="'/issue?@action=show&@type=issue&@number=' + sr.issue", confirmation=None)
    assert found.effects[0].present is None
    assert found.effects[0].fields["status"] in {301, 302, 303}
    assert found.indicators == ("navigation_mismatch",)


@pytest.mark.req("R-CP-09")
def test_an_unexpected_address_is_a_mismatch(tracker, issue):
    assert look(tracker, issue, url="'/issue' + sr.issue").indicators == ()
    assert look(tracker, issue, url="'/done'").indicators == ("navigation_mismatch",)


@pytest.mark.req("R-CP-09")
def test_a_refused_form_is_reported(tracker, issue):
    found = look(tracker, issue, page="'/issue' + sr.issue + '?@error_message=Invalid%20title'", confirmation=None)
    assert found.effects[0].present is False
    assert found.effects[0].fields["error_text"] == "Invalid title"
    assert found.indicators == ("form_validation_failure",)


@pytest.mark.req("R-CP-09")
def test_another_account_is_detected(tracker, issue):
    found = look(tracker, issue, account={"selector": "p.userblock b", "name": "'ader'"})
    assert found.indicators == ("wrong_account_context",)


@pytest.mark.req("R-CP-09")
def test_a_downloaded_file_is_compared_by_its_digest(tracker, issue):
    download = {"path": "'/@@file/page.css'", "sha256": "sr.sha256"}
    assert look(tracker, issue, download=download).indicators == ()
    assert look(tracker, issue, download={**download, "path": "'/@@file/style.css'"}).indicators == (
        "file_hash_mismatch",
    )
    gone = look(tracker, issue, download={**download, "path": "'/@@file/none.css'"}, confirmation=None)
    assert gone.effects[0].present is False


@pytest.mark.req("R-VD-16")
def test_an_unreachable_server_or_a_refused_password_is_an_outage(tracker, issue):
    dead = f"http://127.0.0.1:{environment.free_port()}"
    for changes in ({"settings": {"url": dead}}, {"user": "nobody"}):
        with pytest.raises(CheckFailed) as failed:
            look(tracker, issue, **changes)
        assert failed.value.retryable


@pytest.mark.parametrize("page", ["http://127.0.0.2/x", "//127.0.0.2/x", "/../x", "\\\\host", "x"])
def test_a_page_outside_the_system_is_not_opened(tracker, page):
    with pytest.raises(CheckFailed) as failed:
        look(tracker, "1", page=repr(page), settings={"url": f"{tracker.url}/below"}, confirmation=None)
    assert not failed.value.retryable
