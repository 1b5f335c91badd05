"""Votes on several approvals at once: each item shown, bound and counted by itself (B39); floods held back (B38)."""

from __future__ import annotations

import re
from typing import Any
from uuid import uuid4

import pytest

from ledger.record.rules.canonical import digest
from tests.support.api_tenant import PASSWORD, Workshop, document
from tests.support.browser_users import words

RULES = {
    "version": "2",
    "require": [{"tool": "write_document"}],
    "batch": {"most": 3, "side_effect_classes": ["EPHEMERAL_WRITE"]},
}


def rule(shop: Workshop, **changes: Any) -> None:
    answer = shop.operator_key.release("approval", {"version": "2", "document": RULES | changes})
    assert answer.status_code in (200, 201), answer.content


def notes(shop: Workshop, count: int = 2) -> list[dict[str, Any]]:
    """Approvals of so many notes, which are of low risk."""
    return [shop.approval_of(shop.propose("write_document", **note(number))) for number in range(count)]


def note(number: int) -> dict[str, str]:
    return document(f"notes/n{number}.md", f"Quiet {number}.")


def item(approval: dict[str, Any], **changes: Any) -> dict[str, Any]:
    shown = {name: approval[name] for name in ("approval_id", "payload_hash", "rendering_digest")}
    shown |= {"covers": approval["covers_digest"], "without_reading": approval["target_unread"]}
    return shown | changes


def vote(shop: Workshop, items: list[dict[str, Any]], verdict: str = "approve", **changes: Any) -> Any:
    body = {"verdict": verdict, "items": items, "password": PASSWORD, "reason": "I read them."}
    return shop.reviewer.post("/votes", body | changes)


def state(shop: Workshop, approval: dict[str, Any]) -> str:
    return str(shop.reviewer.get(f"/approvals/{approval['approval_id']}").json()["state"])


def test_each_item_gets_a_vote_and_a_statement_over_its_own_hash(shop):
    """B39, 21 CFR 11.200: one statement for each hash."""
    rule(shop)
    asked = notes(shop, 3)
    answer = vote(shop, [item(each) for each in asked])
    assert answer.status_code == 200, answer.content
    told = answer.json()
    assert (told["voted"], told["decided"], told["refused"]) == (3, 0, 0)
    assert len({each["statement_hash"] for each in told["items"]}) == 3
    for each in asked:
        shown = shop.reviewer.get(f"/approvals/{each['approval_id']}").json()
        assert (shown["state"], len(shown["votes"])) == ("APPROVED", 1)


def test_requests_decided_meanwhile_are_skipped_and_counted(shop):
    rule(shop)
    first, second = notes(shop)
    shop.vote(first, by=shop.person("reviewer", name="faster@orchid"))
    told = vote(shop, [item(first), item(second)]).json()
    assert [each["result"] for each in told["items"]] == ["DECIDED", "VOTED"]
    assert (told["voted"], told["decided"]) == (1, 1)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("payload_hash", "PAYLOAD_CHANGED"),
        ("rendering_digest", "RENDERING_CHANGED"),
        ("covers", "STATEMENT_CHANGED"),
    ],
)
def test_an_item_that_differs_from_its_display_gets_no_vote_and_does_not_affect_others(shop, name, code):
    """B39: an item that was not displayed as it is cannot be in the batch."""
    rule(shop)
    first, second = notes(shop)
    told = vote(shop, [item(first, **{name: digest(b"something else")}), item(second)]).json()
    assert [each["result"] for each in told["items"]] == ["REFUSED", "VOTED"]
    assert told["items"][0]["code"] == code
    assert (state(shop, first), state(shop, second)) == ("REQUESTED", "APPROVED")


def test_an_item_without_its_digests_is_refused(shop):
    """B39: the form carries what was shown of each, and the server asks for it."""
    rule(shop)
    first, _ = notes(shop)
    bare = {"approval_id": first["approval_id"]}
    assert vote(shop, [bare]).status_code == 422


def test_the_digests_of_one_item_are_not_accepted_for_another(shop):
    """B8: equal or not, each item stands for itself."""
    rule(shop)
    first, second = notes(shop)
    told = vote(shop, [item(first, approval_id=second["approval_id"])]).json()
    assert told["items"][0]["result"] == "REFUSED"


def test_high_risk_actions_are_never_in_a_batch_whatever_the_policy(shop):
    classes = ["EPHEMERAL_WRITE", "CRITICAL_MUTATION", "HIGH_RISK_EXTERNAL"]
    rule(shop, batch={"most": 10, "side_effect_classes": classes})
    grave = shop.approval_of(shop.propose())
    answer = vote(shop, [item(grave)])
    assert (answer.status_code, answer.json()["code"]) == (422, "NOT_BATCHABLE")


def test_items_of_two_kinds_are_refused_in_a_batch(shop):
    rule(shop)
    (first,) = notes(shop, 1)
    rule_three = RULES | {"version": "3", "decide_within_s": 4000}
    shop.operator_key.release("approval", {"version": "3", "document": rule_three})
    second = shop.approval_of(shop.propose("write_document", **note(7)))
    answer = vote(shop, [item(first), item(second)])
    assert answer.status_code == 422, answer.content
    assert answer.json()["code"] in ("BATCH_MIXED", "NOT_BATCHABLE")


def test_a_batch_is_limited_by_the_policy(shop):
    rule(shop)
    answer = vote(shop, [item(each) for each in notes(shop, 4)])
    assert (answer.status_code, answer.json()["code"]) == (422, "TOO_MANY_SELECTED")


def test_without_a_batch_rule_batches_are_refused(shop):
    shop.operator_key.release("approval", {"version": "2", "document": {"version": "2", "require": RULES["require"]}})
    answer = vote(shop, [item(each) for each in notes(shop)])
    assert answer.json()["code"] == "NOT_BATCHABLE"


def test_a_policy_that_requires_passkeys_refuses_batches(shop):
    rule(shop, step_up="A")
    answer = vote(shop, [item(each) for each in notes(shop)])
    assert answer.json()["code"] == "NOT_BATCHABLE"


def test_a_wrong_password_signs_no_item_of_a_batch(shop):
    rule(shop)
    asked = notes(shop)
    told = vote(shop, [item(each) for each in asked], password="not mine").json()
    assert told["voted"] == 0
    assert {state(shop, each) for each in asked} == {"REQUESTED"}


def test_an_unknown_item_refuses_the_whole_batch(shop):
    rule(shop)
    (first,) = notes(shop, 1)
    assert vote(shop, [item(first), item(first, approval_id=str(uuid4()))]).status_code == 404
    assert state(shop, first) == "REQUESTED"


# The page


def page(shop: Workshop, asked: list[dict[str, Any]]) -> str:
    chosen = "&".join(f"item={each['approval_id']}" for each in asked)
    answer = shop.reviewer.client.get(f"/t/orchid/approvals/batch?{chosen}")
    assert answer.status_code == 200
    return str(answer.content.decode())


def fields(text: str) -> dict[str, Any]:
    """What the browser would send of the page's form."""
    hidden = dict(re.findall(r'<input type="hidden" name="([^"]+-[^"]+)" value="([0-9a-f]{64})">', text))
    return hidden | {"item": re.findall(r'name="item" value="([^"]+)" checked', text)}


def test_the_page_shows_every_item_in_full_and_the_result_item_by_item(shop):
    rule(shop)
    asked = notes(shop)
    listed = shop.reviewer.client.get("/t/orchid/approvals").content.decode()
    assert listed.count('name="item"') == 2
    assert "Low-risk items of one kind, max 3. Each is shown first and decided separately." in listed
    text = page(shop, asked)
    assert "Or a code of your authenticator app" not in text
    for number, each in enumerate(asked):
        assert f"Quiet {number}." in text
        assert each["payload_hash"] in text
    compared = words(text.split('data-part="compared"')[1].split("</section>")[0])
    assert "How they differ" in compared
    assert "2 values: Quiet 0. Quiet 1." in compared
    assert "2 values: notes/n0.md notes/n1.md" in compared
    form = fields(text) | {"verdict": "approve", "reason": "Read.", "password": PASSWORD}
    answer = shop.reviewer.client.post("/t/orchid/approvals/batch", form)
    said = words(answer.content.decode())
    assert "2 recorded, 0 decided by others meanwhile, 0 not accepted" in said
    assert {state(shop, each) for each in asked} == {"APPROVED"}


def test_an_item_that_was_not_on_the_page_is_refused(shop):
    """B39: the server takes no item without what was displayed of it."""
    rule(shop)
    first, hidden = notes(shop)
    form = fields(page(shop, [first])) | {"verdict": "approve", "reason": "Read.", "password": PASSWORD}
    form["item"] = [first["approval_id"], hidden["approval_id"]]
    answer = shop.reviewer.client.post("/t/orchid/approvals/batch", form)
    assert answer.status_code == 422
    assert "An item was not displayed" in words(answer.content.decode())
    assert {state(shop, each) for each in (first, hidden)} == {"REQUESTED"}


def test_requests_that_cannot_be_batched_are_listed_separately(shop):
    rule(shop)
    (first,) = notes(shop, 1)
    grave = shop.approval_of(shop.propose())
    said = words(page(shop, [first, grave]))
    assert "Not in this batch" in said
    assert "It cannot be undone." in said
    assert "Decide 1 of one kind" in said


# Floods


def test_an_agent_with_too_many_waiting_requests_is_refused_until_they_are_decided(shop):
    """B38: its next call is refused with a reason, and none of what waits is lost."""
    rule(shop, limits={"waiting_per_agent": 2})
    first, _ = notes(shop)
    refused = shop.call("write_document", note(5))
    assert (refused["accepted"], refused["result"]["error"]["code"]) == (False, "BUDGET_EXCEEDED")
    assert "2 of this agent's calls wait for people" in refused["result"]["error"]["message"]
    shop.vote(first)
    assert shop.call("write_document", note(6))["state"] == "VALIDATED"


def test_actions_that_need_no_approval_do_not_count_as_waiting(shop):
    rule(shop, limits={"waiting_per_agent": 1}, require=[])
    shop.propose()
    assert shop.call("write_document", note(1))["state"] == "VALIDATED"


def test_votes_faster_than_the_policy_allows_are_refused(shop):
    """B38: 429 with the seconds to wait; in a batch the rest is left as it was."""
    rule(shop, limits={"votes_per_minute": 2})
    asked = notes(shop, 3)
    told = vote(shop, [item(each) for each in asked]).json()
    assert [each["result"] for each in told["items"]] == ["VOTED", "VOTED", "REFUSED"]
    assert told["items"][2]["code"] == "RATE_LIMITED"
    answer = shop.vote(asked[2])
    assert (answer.status_code, answer.json()["code"], answer["Retry-After"]) == (429, "RATE_LIMITED", "60")
    assert shop.vote(asked[2], by=shop.person("reviewer", name="calm@orchid")).status_code == 201
