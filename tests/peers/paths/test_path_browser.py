"""Pages, from the proposal to the decision: what a form on a real tracker did, and what is made of it."""

from __future__ import annotations

import hashlib

import pytest

from tests.peers.support.errand import Errand
from tests.peers.support.path import fired, not_asked, succeeded

pytestmark = pytest.mark.long

CSS = hashlib.sha256(b"p { color: black }").hexdigest()


def submitting(tracker, number, *, address=None, **part):
    usual = {
        "page": "'/issue' + sr.issue",
        "url": "'/issue' + sr.issue",
        "element": "input[name=title]",
        "text": "sr.title",
        "shown": {"subject": "input[name=title]"},
        "error": "p.error-message",
        "account": {"selector": "p.userblock b", "name": "'reader'"},
        "download": {"path": "'/@@file/page.css'", "sha256": "sr.sha256"},
        "confirmation": {"path": "'/rest/data/issue/' + sr.issue", "where": {"data/attributes/title": "sr.title"}},
        "target_field": "subject",
    }
    lookup = {name: value for name, value in (usual | part).items() if value is not None}
    return Errand(
        pattern="browser_automation",
        settings={"url": address or tracker.url},
        credential={"user": "reader", "password": "word"},
        arguments={"title": "Refund o-17", "issue": number, "sha256": CSS},
        lookup={"effects": {"submit": lookup}},
        predicates=(
            "sa.confirmed",
            "sa.subject == sr.title && sa.title.contains(sr.title)",
            "sa.error_text == ''",
            "sa.account_name.contains('reader')",
            "sa.download_sha256 == sr.sha256",
        ),
        target="issue/{title}",
    )


@pytest.fixture
def issue(tracker):
    """An issue whose title an automation is about to change."""
    return tracker.make("issue", title="Refund")


@pytest.mark.req("R-CP-09", "R-VD-04")
def test_a_submitted_form_is_a_success(office, tracker, issue):
    ended = office.carry_out(submitting(tracker, issue), lambda work: tracker.rename(issue, "Refund o-17"))
    succeeded(ended)
    assert not_asked(ended) == set()


@pytest.mark.req("R-CP-09", "R-CP-13", "R-CP-16")
@pytest.mark.parametrize(
    ("indicator", "part"),
    [
        ("selector_timeout", {"element": "div.done", "text": None}),
        ("captcha", {"page": "'/@@file/challenge.html'", "url": None, "account": None}),
        ("navigation_mismatch", {"url": "'/done'"}),
        ("wrong_account_context", {"account": {"selector": "p.userblock b", "name": "'ann'"}}),
        ("file_hash_mismatch", {"download": {"path": "'/@@file/style.css'", "sha256": "sr.sha256"}}),
    ],
)
def test_a_wrong_page_raises_its_indicator(office, tracker, issue, indicator, part):
    ended = office.carry_out(submitting(tracker, issue, **part), lambda work: tracker.rename(issue, "Refund o-17"))
    fired(ended, indicator)


@pytest.mark.req("R-CP-09", "R-DC-02")
def test_a_refused_form_raises_its_indicator(office, tracker, issue):
    page = "'/issue' + sr.issue + '?@error_message=Invalid%20title'"
    errand = submitting(tracker, issue, page=page, url=page)
    fired(office.carry_out(errand, lambda work: None), "form_validation_failure")


@pytest.mark.req("R-CP-09", "R-VD-09")
def test_a_page_without_a_confirmation_stays_pending(office, tracker, issue):
    errand = submitting(tracker, issue, confirmation=None)
    ended = office.carry_out(errand, lambda work: tracker.rename(issue, "Refund o-17"))
    assert (ended.discrepancy, ended.row, ended.state) == ("UNVERIFIABLE_STATE", "RT-02", "PENDING")
