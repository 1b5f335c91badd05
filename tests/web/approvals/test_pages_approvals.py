"""Approvals: what the inbox holds, what the page shows before a vote, and which votes count."""

from __future__ import annotations

import re

import pytest

from tests.support.api_tenant import document
from tests.support.browser_users import ballot, visitor, words
from tests.support.erasing import forget_key


def vote(stage, action_id, verdict, *, roles=("reviewer",), **changes):
    approval = stage.approval(action_id)
    return visitor(stage, *roles).post(f"approvals/{approval.id}/vote", **ballot(stage, action_id, verdict, **changes))


@pytest.mark.req("R-UI-01")
def test_the_inbox_lists_exactly_the_waiting_approvals(stage):
    first, second, gone = (stage.propose() for _ in range(3))
    stage.approve(gone)
    page = visitor(stage, "reviewer").page("approvals")
    assert str(stage.approval(first).id) in page
    assert str(stage.approval(second).id) in page
    assert str(stage.approval(gone).id) not in page
    said = words(page)
    for part in (
        "Refund 125.00 EUR to order",
        "High-risk external",
        "Irreversible",
        "support",
        "left",
        "You can decide.",
    ):
        assert part in said


def test_an_empty_inbox_says_so_and_shows_the_intake(stage):
    said = words(visitor(stage, "reviewer").page("approvals"))
    assert "No approval is waiting" in said
    assert "no calls yet" in said


def test_decided_requests_have_their_own_list(stage):
    action_id = stage.propose()
    vote(stage, action_id, "reject")
    page = visitor(stage, "operator").page("approvals", tab="decided")
    assert str(stage.approval(action_id).id) in page
    assert "Rejected" in words(page)


@pytest.mark.req("R-UI-02")
def test_the_page_shows_everything_that_a_vote_covers(stage):
    action_id = stage.propose(goal="Refund the broken lamp.", order_id="EX-LAMP0001")
    approval = stage.approval(action_id)
    page = visitor(stage, "reviewer").page(f"approvals/{approval.id}")
    said = words(page)
    for part in (
        "Refund 125.00 EUR to order EX-LAMP0001",
        "Refund the broken lamp.",
        "12,500",
        "125.00 EUR",
        "damaged",
        "sa.amount == sr.amount",
        "Irreversible",
        "irreversible",
        "issue_refund 1.0.0",
        "Approval policy version 1",
        "Eligible reviewers:",
        "Approve refund",
        "Reject refund",
    ):
        assert part in said, part
    for exact in (approval.payload_hash, approval.rendering_digest, approval.contract_digest):
        assert exact in page
    assert "{&quot;amount&quot;:12500,&quot;currency&quot;:&quot;EUR&quot;" in page


def test_a_hidden_character_in_the_goal_is_made_visible(stage):
    action_id = stage.propose(goal="Refund it\u202e now")
    page = visitor(stage, "reviewer").page(f"approvals/{stage.approval(action_id).id}")
    assert '<span class="glyph" title="Right-to-left override">U+202E</span>' in page


def test_an_earlier_action_on_the_same_target_is_visible(stage):
    earlier = stage.case(amount=1)
    with_same_target = stage.propose(order_id=earlier.target.removeprefix("order/"), reason="late")
    page = visitor(stage, "reviewer").page(f"approvals/{stage.approval(with_same_target).id}")
    assert "check for duplicates" in page
    assert str(earlier.action_id) in page
    assert "Refund 125.00 EUR to order" in words(page.split('data-part="kin"')[1].split("</section>")[0])


def test_another_tools_change_to_the_target_is_visible(shop):
    written = shop.propose("write_document", **document("policies/draft.md", "Quiet."))
    asked = shop.approval_of(shop.propose(path="policies/draft.md"))
    page = shop.reviewer.client.get(f"/t/orchid/approvals/{asked['approval_id']}").content.decode()
    kin = page.split('data-part="kin"')[1].split("</section>")[0]
    assert "Other actions on the target" in kin
    assert f"/actions/{written}" in kin


@pytest.mark.req("R-UI-26", "R-UI-03")
def test_an_approval_can_be_given_with_a_plain_form(stage):
    action_id = stage.propose()
    answer = vote(stage, action_id, "approve")
    assert (answer.status_code, stage.approval(action_id).state) == (302, "APPROVED")
    said = words(visitor(stage, "reviewer").page(f"approvals/{stage.approval(action_id).id}"))
    assert "Approved, not yet executed" in said
    assert "signed with session and password (class C)" in said


@pytest.mark.req("R-UI-03")
def test_a_rejection_requires_a_reason(stage):
    action_id = stage.propose()
    answer = vote(stage, action_id, "reject", reason="")
    assert answer.status_code == 422
    assert "Enter a reason to reject" in words(answer.content.decode())
    assert stage.approval(action_id).state == "REQUESTED"
    assert vote(stage, action_id, "reject").status_code == 302
    assert stage.approval(action_id).state == "REJECTED"
    assert stage.state(action_id) == "FAILED"


def test_changes_can_be_requested(stage):
    action_id = stage.propose()
    vote(stage, action_id, "request_changes")
    assert "requested changes" in words(visitor(stage, "operator").page(f"approvals/{stage.approval(action_id).id}"))


def test_a_wrong_password_signs_nothing(stage):
    action_id = stage.propose()
    answer = vote(stage, action_id, "approve", password="not mine")
    assert answer.status_code == 403
    assert "This is not your password" in words(answer.content.decode())
    assert stage.approval(action_id).state == "REQUESTED"


@pytest.mark.req("R-UI-04")
@pytest.mark.parametrize("digest", ["payload_hash", "rendering_digest"])
def test_an_outdated_page_cannot_vote(stage, digest):
    action_id = stage.propose()
    answer = vote(stage, action_id, "approve", **{digest: "0" * 64})
    assert answer.status_code == 409
    assert "Your decision was not recorded" in words(answer.content.decode())
    assert "I looked at it.</textarea>" in answer.content.decode()
    assert stage.approval(action_id).state == "REQUESTED"


def test_a_page_without_its_digests_cannot_vote(stage):
    action_id = stage.propose()
    answer = vote(stage, action_id, "approve", payload_hash="")
    assert answer.status_code == 422
    assert "Reload it before you decide" in words(answer.content.decode())


def test_a_second_vote_is_refused_in_one_sentence(stage):
    action_id = stage.propose()
    vote(stage, action_id, "approve")
    answer = vote(stage, action_id, "approve", roles=("reviewer", "operator"))
    assert answer.status_code == 409
    assert "The request has already been decided." in words(answer.content.decode())


@pytest.mark.req("R-UI-07")
def test_a_person_who_may_not_vote_is_offered_no_form(stage):
    path = f"approvals/{stage.approval(stage.propose()).id}"
    page = visitor(stage, "operator").page(path)
    assert "Reviewers only." in page
    assert 'name="verdict"' not in page


def test_a_decided_approval_offers_no_form(stage):
    action_id = stage.propose()
    stage.approve(action_id)
    assert 'name="verdict"' not in visitor(stage, "reviewer").page(f"approvals/{stage.approval(action_id).id}")


def test_a_missing_reviewer_is_reported(stage):
    page = visitor(stage, "operator").page(f"approvals/{stage.approval(stage.propose()).id}")
    assert "No eligible approver." in page


def test_an_approved_request_shows_the_outcome_of_the_action(stage):
    case = stage.case()
    approval = stage.approval(case.action_id)
    page = visitor(stage, "reviewer")
    said = words(page.page(f"approvals/{approval.id}"))
    assert "Outcome Needs review" in said
    assert "Nothing changed" in said
    assert "Needs review" in words(page.page("approvals", tab="decided"))


def test_statements_that_contradict_the_payload_are_flagged_and_change_no_fact(stage):
    """B35: an agent that says 24.00 and sends 125.00 is contradicted by the page; the facts are the stored bytes."""
    action_id = stage.propose(goal="Refund 24.00 EUR, as promised.")
    honest = stage.propose(goal="Refund 125.00 EUR, as promised.")
    asked, other = stage.approval(action_id), stage.approval(honest)
    page = words(visitor(stage, "reviewer").page(f"approvals/{asked.id}"))
    assert "The agent's words contradict the payload" in page
    assert "In the pinned goal: The agent said 24.00 EUR, the payload says 125.00 EUR." in page
    assert "125.00 EUR" in page
    assert "contradict the payload" not in words(visitor(stage, "reviewer").page(f"approvals/{other.id}"))


def test_a_request_begins_with_its_risk_and_reason_and_the_preview_stands_before_the_payload(stage):
    page = visitor(stage, "reviewer").page(f"approvals/{stage.approval(stage.propose()).id}")
    head = page.split('data-part="why"')[1].split("<form")[0]
    assert "Approval required: irreversible; no tool undoes it." in words(head)
    assert '<span class="risk" data-risk="' in head
    assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}", words(head.split('data-part="facts"')[0]))
    assert "Refunded amount equals requested amount" in words(page)
    assert page.index('data-part="decide"') < page.index('data-part="payload"') < page.index('data-part="details"')


def test_a_request_whose_key_is_gone_says_that_nobody_can_decide_on_it_and_what_follows(stage, run):
    action_id = stage.propose()
    forget_key(stage.tenant, run, str(action_id))
    answer = visitor(stage, "reviewer").client.get(f"/t/{stage.slug}/approvals/{stage.approval(action_id).id}")
    assert answer.status_code == 410
    said = words(answer.content.decode())
    assert (
        "Not shown This request cannot be shown, so nobody can decide on it: its key is gone, or its bytes were"
        " altered. It expires by itself, and nothing of it is executed." in said
    )
