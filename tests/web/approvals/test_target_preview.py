"""The target on the approval page: what is there, what will be, what is lost, and approving without a reading of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from approvals.requests.operations import target_drift
from approvals.requests.queries import approvals
from approvals.voting.queries import votes
from approvals.voting.rules import binding
from ledger.catalogue.rules.previews import read_preview
from ledger.db import tenancy
from ledger.record import operations as ledger
from ledger.record.rules.canonical import parse
from tests.support.api_tenant import DELETE, PASSWORD, Clock, Workshop, contract, document
from tests.support.browser_users import visitor, words
from tests.support.preparing import TARGET, asked, prepared_contract, read
from tests.support.refund_shop import Counter, refund_contract
from tests.support.signing import actor_of, ask, cast, enrolled, sign, wanted

PREVIEW = {
    "fields": [
        {"read": "target.status", "label": "Status", "after": "refunded"},
        {"read": "target.amount", "label": "Refunded", "unit": "minor", "after": "sr.amount"},
        {"read": "target.colour", "label": "Colour"},
        {"read": "effects.refund.amount", "label": "This refund", "unit": "minor", "after": "sr.amount"},
    ],
    "lost": ["The voucher of the customer."],
}
TICK = "I know that the target has not been read. Needed to approve. It is part of the signed statement."
REFUSAL = "The target has not been read. Acknowledge that to approve without a reading."


def target_panel(shop: Workshop, action_id: str) -> str:
    approval = shop.approval_of(action_id)["approval_id"]
    page = shop.reviewer.client.get(f"/t/{shop.slug}/approvals/{approval}").content.decode()
    return words(re.split('data-part="target"', page)[1].split("</section>")[0])


def previewed(counter: Counter, secrets_dir: Path, preview: dict[str, Any]) -> Counter:
    return counter.open(secrets_dir, prepared_contract() | {"preview": preview})


def test_a_preview_shows_each_field_now_and_after(counter: Counter, secrets_dir: Path, clock: Clock):
    shop = previewed(counter, secrets_dir, PREVIEW)
    said = target_panel(shop, asked(shop, clock))
    assert "Field Now After Status paid refunded" in said
    assert "Refunded not in the reading 12.50 EUR" in said
    assert "Colour not in the reading not stated" in said
    assert "This refund not there yet 12.50 EUR" in said
    assert "Will be lost: The voucher of the customer." in said
    assert "has not been read" not in said


def test_a_decided_request_no_longer_speaks_of_now_or_of_what_will_run(
    counter: Counter, secrets_dir: Path, clock: Clock
):
    shop = previewed(counter, secrets_dir, PREVIEW)
    action_id = asked(shop, clock)
    approval = shop.approval_of(action_id)
    page = f"/t/{shop.slug}/approvals/{approval['approval_id']}"
    before = words(shop.reviewer.client.get(page).content.decode())
    assert "exactly this payload runs if it is approved" in before
    assert shop.vote(approval, verdict="reject", reason="Not owed.").status_code == 201
    shown = words(shop.reviewer.client.get(page).content.decode())
    assert "exactly this payload" not in shown
    assert "as stored; nothing was executed" in shown
    assert "Field Before After" in shown
    assert "Lost once carried out: The voucher of the customer." in shown


def test_what_is_lost_is_told_line_by_line_from_an_argument(counter: Counter, secrets_dir: Path, clock: Clock):
    shop = previewed(counter, secrets_dir, {"lost": ["sr.order_id", "The voucher."]})
    assert "Will be lost: EX-1001 The voucher." in target_panel(shop, asked(shop, clock, order_id="EX-1001"))
    preview = read_preview({"lost": ["sr.loses", "The voucher."]})
    assert preview.losses({"loses": "2 commits\nab12 Add a lamp"}) == ("2 commits\nab12 Add a lamp", "The voucher.")
    assert preview.losses({}) == ("not known", "The voucher.")


def test_a_system_that_is_not_registered_is_named_before_anybody_approves(stage):
    from ledger.db import tenancy
    from ledger.models import System

    address = f"approvals/{stage.approval(stage.propose()).id}"
    assert "Nothing can be verified" not in visitor(stage, "reviewer").page(address)
    with tenancy(stage.tenant):
        System.objects.filter(tenant_id=stage.tenant).update(name="elsewhere")
    said = words(visitor(stage, "reviewer").page(address))
    assert "Nothing can be verified. The system shop, which would be read back, is not registered" in said


@pytest.mark.parametrize(
    ("preview", "place", "said"),
    [
        ({"fields": [{"read": "target.status", "label": "Status", "after": "sr.colour"}]}, "/after", "`colour`"),
        ({"lost": []}, "/preview/lost", ""),
        ({"lost": ["sr.colour"]}, "/preview/lost/0", "`colour`"),
    ],
)
def test_an_invalid_preview_is_refused(counter: Counter, preview: Any, place: str, said: str):
    refused = counter.operator_key.post("/contracts", prepared_contract() | {"preview": preview})
    assert refused.status_code == 422
    assert any(place in each["path"] and said in each["detail"] for each in refused.json()["errors"])


def test_an_existing_document_is_not_shown_as_gone_and_an_unread_target_is_named(shop: Workshop, clock: Clock):
    action_id = shop.propose()
    unread = target_panel(shop, action_id)
    assert "The target has not been read. What is there now is not known" in unread
    with tenancy(shop.tenant):
        [approval] = approvals.approvals_of(shop.tenant, UUID(action_id))
        target_drift.request_reading(approval=approval, by=ledger.SYSTEM, at=clock.now())
    read(clock)
    said = target_panel(shop, action_id)
    size = (shop.root or Path()).joinpath("policies", "returns.md").stat().st_size
    assert f"Size {size} bytes deleted" in said
    assert "Will be lost: The document: nothing keeps a copy." in said
    assert "has not been read" not in said
    assert not re.search(r"false|[Ee]xists|\[", said)


def read_target(shop: Workshop, action_id: str, clock: Clock) -> None:
    with tenancy(shop.tenant):
        [approval] = approvals.approvals_of(shop.tenant, UUID(action_id))
        target_drift.request_reading(approval=approval, by=ledger.SYSTEM, at=clock.now())
    read(clock)


def signed(shop: Workshop, approval: dict[str, Any]) -> dict[str, Any]:
    """The vote in the newest statement."""
    with tenancy(shop.tenant):
        row = votes.votes_of(shop.tenant, UUID(approval["approval_id"]))[-1]
    return dict(parse(bytes(row.statement))["vote"])


def votes_of(shop: Workshop, approval: dict[str, Any]) -> list[dict[str, Any]]:
    return list(shop.reviewer.get(f"/approvals/{approval['approval_id']}").json()["votes"])


def form(approval: dict[str, Any], verdict: str = "approve", **more: str) -> dict[str, str]:
    held = {name: approval[name] for name in ("payload_hash", "rendering_digest")}
    return held | {"verdict": verdict, "reason": "It is old.", "password": PASSWORD} | more


def page(shop: Workshop, approval: dict[str, Any]) -> str:
    return words(shop.reviewer.client.get(f"/t/{shop.slug}/approvals/{approval['approval_id']}").content.decode())


def test_the_api_refuses_to_approve_an_unread_target_unless_the_voter_says_so(shop: Workshop):
    approval = shop.approval_of(shop.propose())
    assert approval["target_unread"] is True
    refused = shop.vote(approval, without_reading=None)
    assert (refused.status_code, refused.json()["code"], refused.json()["detail"]) == (422, "TARGET_UNREAD", REFUSAL)
    assert shop.vote(approval, without_reading=True).status_code == 201
    said = signed(shop, approval)
    assert said["without_reading"] is True
    assert said["meaning"] == f"{binding.MEANING[binding.VoteChoice.APPROVE]} {binding.WITHOUT_READING}"
    [vote] = votes_of(shop, approval)
    assert vote["without_reading"] is True


def test_the_page_asks_for_the_tick_and_keeps_what_was_typed_where_it_is_missing(shop: Workshop):
    approval = shop.approval_of(shop.propose())
    assert TICK in page(shop, approval)
    path = f"/t/{shop.slug}/approvals/{approval['approval_id']}/vote"
    refused = shop.reviewer.client.post(path, form(approval))
    assert refused.status_code == 422
    said = words(refused.content.decode())
    assert REFUSAL in said
    assert "It is old." in said
    assert shop.reviewer.client.post(path, form(approval, without_reading="on")).status_code == 302
    [code] = [each["confirmation_code"] for each in votes_of(shop, approval)]
    told = f"(class C), code {code} , knowing that the target had not been read: It is old."
    assert told in page(shop, approval)


@pytest.mark.parametrize("verdict", ["reject", "request_changes"])
def test_saying_no_takes_no_tick_and_signs_none(shop: Workshop, verdict: str):
    approval = shop.approval_of(shop.propose())
    assert shop.vote(approval, verdict=verdict, without_reading=True).status_code == 201
    assert signed(shop, approval)["without_reading"] is False


def test_a_target_that_was_read_is_approved_without_a_tick_and_not_with_one(shop: Workshop, clock: Clock):
    action_id = shop.propose()
    read_target(shop, action_id, clock)
    approval = shop.approval_of(action_id)
    assert approval["target_unread"] is False
    assert TICK not in page(shop, approval)
    refused = shop.vote(approval, without_reading=True)
    assert (refused.status_code, refused.json()["code"]) == (409, "STATEMENT_CHANGED")
    assert shop.vote(approval).status_code == 201
    assert signed(shop, approval)["without_reading"] is False


def test_a_target_that_no_check_reads_takes_no_tick(shop: Workshop):
    approval = shop.approval_of(unreadable(shop))
    assert approval["target_unread"] is False
    assert shop.vote(approval, without_reading=None).status_code == 201


def unreadable(shop: Workshop) -> str:
    rules = {"version": "2", "document": {"version": "2", "require": [{"tool": "write_document"}]}}
    shop.operator_key.release("approval", rules)
    return shop.propose("write_document", **document("notes/a.md", "Quiet."))


def test_what_was_read_before_an_attempt_leaves_the_target_unread_for_the_next_one(shop: Workshop, clock: Clock):
    action_id = shop.propose()
    read_target(shop, action_id, clock)
    approval = shop.approval_of(action_id)
    shop.vote(approval)
    shop.start(shop.claim()[0])
    with tenancy(shop.tenant):
        [row] = approvals.approvals_of(shop.tenant, UUID(action_id))
        facts = approvals.approval_facts(shop.tenant, row.id)
        assert facts is not None
        assert target_drift.is_unread(row, facts.target)


def test_a_passkey_signs_the_tick(shop: Workshop):
    blue = enrolled(shop.tenant, actor_of(shop.tenant, shop.reviewer))
    approval = shop.approval_of(shop.propose())
    refused = ask(shop.reviewer, approval, without_reading=False)
    assert (refused.status_code, refused.json()["code"]) == (422, "TARGET_UNREAD")
    assert sign(shop.reviewer, approval, blue).status_code == 201
    assert signed(shop, approval)["without_reading"] is True


def test_a_vote_may_not_take_back_the_tick_that_was_signed(shop: Workshop, clock: Clock):
    blue = enrolled(shop.tenant, actor_of(shop.tenant, shop.reviewer))
    action_id = shop.propose()
    approval = shop.approval_of(action_id)
    challenge = ask(shop.reviewer, approval).json()
    read_target(shop, action_id, clock)
    refused = cast(shop.reviewer, approval, challenge, blue.answer(wanted(challenge)), without_reading=False)
    assert (refused.status_code, refused.json()["code"]) == (409, "STATEMENT_CHANGED")


def test_the_narrative_tells_that_the_target_had_not_been_read(shop: Workshop):
    action_id = shop.propose()
    shop.vote(shop.approval_of(action_id))
    told = words(shop.reviewer.client.get(f"/t/{shop.slug}/actions/{action_id}/narrative").content.decode())
    assert ", by session and password, knowing that the target had not been read; the statement has SHA-256" in told


def test_the_statement_and_the_lists_show_a_target_without_its_escapes(shop: Workshop):
    push = contract("delete_document") | {"name": "drop_branch", "target_resource": "git/{path}/main"}
    shop._made(shop.operator_key.post("/contracts", push))
    agent = {"agent_id": "librarian", "version": "2", "tools": ["drop_branch"]}
    shop._made(shop.operator_key.post("/agents", agent))
    action_id = str(shop.call("drop_branch", DELETE)["action_id"])
    approval = shop.approval_of(action_id)
    assert approval["covers"]["target_resource"] == "git/policies/returns.md/main"
    for path in ("actions.csv", "approvals.csv", f"approvals/{approval['approval_id']}"):
        told = words(shop.reviewer.client.get(f"/t/{shop.slug}/{path}").content.decode())
        assert "git/policies/returns.md/main" in told
        assert "%2F" not in told


def test_a_reading_that_fails_is_on_record_once_and_the_target_stays_unread(shop: Workshop, clock: Clock):
    action_id = shop.propose()
    assert shop.root is not None
    shop.root.rename(shop.root.with_name("away"))
    for _ in range(2):
        read_target(shop, action_id, clock)
        clock.forward(minutes=5)
    kinds = [each["event"] for each in shop.history(action_id)]
    assert kinds[-2:] == ["reading_wanted", "reading_missed"]
    missed = shop.history(action_id)[-1]["detail"]
    assert (missed["for"], missed["retryable"]) == ("drift", True)
    assert missed["reason"]
    told = page(shop, shop.approval_of(action_id))
    assert "The target has not been read. What is there now is not known: its system gave no reading" in told
    assert "What changes no reading; asked again" in told
    shop.root.with_name("away").rename(shop.root)
    read(clock)
    taken = shop.history(action_id)[-1]
    assert taken["event"] == "reading_taken"
    assert (taken["detail"]["consistency"], taken["detail"]["trusted_as"]) == ("PRIMARY", "PRIMARY")
    assert taken["detail"]["indicators"] == []
    assert taken["detail"]["observed_at"].startswith(str(clock.now().date()))
    assert shop.approval_of(action_id)["target_unread"] is False


def test_a_target_is_read_for_a_reviewer_also_where_the_lookup_names_the_idempotency_key(
    counter: Counter, secrets_dir: Path, clock: Clock
):
    """Nothing has reserved the key before somebody opens the page."""
    document = refund_contract()
    document["verification"]["lookup"] |= {"target": TARGET}
    assert "scope.idempotency_key" in str(document["verification"]["lookup"])
    shop = counter.open(secrets_dir, document)
    action_id = shop.propose()
    read_target(shop, action_id, clock)
    assert [each["event"] for each in shop.history(action_id)][-1] == "reading_taken"
    assert shop.approval_of(action_id)["target_unread"] is False
