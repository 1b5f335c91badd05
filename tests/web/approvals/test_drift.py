"""Drift: the target changes in a real PostgreSQL between the request and the start, and nothing runs on what was."""

from __future__ import annotations

from uuid import UUID

import pytest

from approvals.requests.operations import target_drift
from approvals.requests.queries import approvals
from ledger.db import tenancy
from ledger.record import operations as ledger
from ledger.record.queries import events
from tests.support.preparing import asked, prepared_contract, read, tick

CHANGED = "UPDATE orders SET version = version + 1"
DOOMED = "UPDATE orders SET status = 'refunded', version = version + 1"


@pytest.fixture
def ready(counter, secrets_dir):
    return counter.open(secrets_dir, prepared_contract())


def newest(counter, action_id):
    with tenancy(counter.tenant):
        return approvals.approval_of(counter.tenant, UUID(action_id))


def states(counter, action_id):
    with tenancy(counter.tenant):
        return [each.state for each in approvals.approvals_of(counter.tenant, UUID(action_id))]


def opened(counter, action_id, clock):
    """A reviewer opens the page, and the reading that it asks for is taken."""
    clock.forward(seconds=30)
    with tenancy(counter.tenant):
        target_drift.request_reading(approval=newest(counter, action_id), by=ledger.SYSTEM, at=clock.now())
    read(clock)


def approved(counter, clock):
    action_id = asked(counter, clock)
    counter._made(counter.vote(counter.approval_of(action_id)))
    return action_id


def ordered(counter, action_id, clock):
    """The order of an approved action, with the reading that is taken before it may start."""
    clock.forward(seconds=1)
    assert counter.claim() == []
    read(clock)
    return next((each for each in counter.claim() if each["action_id"] == action_id), None)


def test_a_target_that_changed_before_the_vote_refuses_it_and_approval_is_requested_again(ready, till, clock):
    """B31: changed between the reading that people were shown and the vote."""
    action_id = asked(ready, clock)
    before = ready.approval_of(action_id)
    till.till.execute(CHANGED)
    opened(ready, action_id, clock)
    refused = ready.vote(before)
    assert (refused.status_code, refused.json()["code"]) == (409, "PRECONDITION_DRIFT")
    assert refused.json()["errors"] == [{"field": "target.version", "then": "1", "now": "2", "material": True}]
    assert states(ready, action_id) == ["VOIDED", "REQUESTED"]
    again = newest(ready, action_id)
    assert again.baseline_digest != before["covers"]["precondition"]
    assert ready.vote(ready.approval_of(action_id)).status_code == 201


def test_the_reason_for_a_new_request_is_recorded(ready, till, clock):
    action_id = asked(ready, clock)
    till.till.execute(CHANGED)
    opened(ready, action_id, clock)
    old = ready.approval_of(action_id)
    ready.vote(old)
    last = ready.history(action_id)[-1]
    assert last["event"] == "approval_asked_again"
    assert last["detail"]["instead_of"] == old["approval_id"]
    assert last["detail"]["changed"][0]["field"] == "target.version"
    assert last["entry"]["approval"]["approval_id"] == str(newest(ready, action_id).id)
    with tenancy(ready.tenant):
        kinds = [event.kind for event, _, _ in events.history(ready.tenant, UUID(old["approval_id"]))]
    assert kinds[-2:] == ["vote_refused", "approval_voided"]


@pytest.mark.parametrize("verdict", ["reject", "request_changes"])
def test_a_rejection_is_possible_although_the_target_has_changed(ready, till, clock, verdict):
    action_id = asked(ready, clock)
    till.till.execute(CHANGED)
    opened(ready, action_id, clock)
    assert ready.vote(ready.approval_of(action_id), verdict=verdict).status_code == 201


def test_a_target_that_changed_after_the_vote_is_not_released(ready, till, clock):
    """B31: between vote and use; the claim reads the target again and hands nothing out."""
    action_id = approved(ready, clock)
    till.till.execute(CHANGED)
    assert ordered(ready, action_id, clock) is None
    assert states(ready, action_id) == ["VOIDED", "REQUESTED"]
    assert ready.state(action_id) == "VALIDATED"
    assert ready.vote(ready.approval_of(action_id)).status_code == 201
    assert ordered(ready, action_id, clock) is not None


def test_a_reading_from_before_the_vote_is_not_sufficient_for_a_release(ready, clock):
    """However fresh it is: what happened since is what the start asks about."""
    action_id = approved(ready, clock)
    clock.forward(seconds=1)
    assert ready.claim() == []
    waits = ready.executor.get("/executions/ready?tools=refund_order").json()["items"]
    assert [each["waiting_for"] for each in waits if each["action_id"] == action_id] == [["reading"]]


def test_claim_and_start_both_check_the_target_for_drift(ready, till, clock):
    """The trap of two code paths: a grant that was minted before the change is refused at the start as well."""
    action_id = approved(ready, clock)
    order = ordered(ready, action_id, clock)
    till.till.execute(CHANGED)
    with tenancy(ready.tenant):
        head = ledger.lock_subject(tenant_id=ready.tenant, subject_id=UUID(action_id), kind="action")
        ledger.append(head, ledger.NewEvent(kind="reading_wanted"), actor=ledger.SYSTEM, at=clock.now())
    read(clock)
    refused = ready.start(order)
    assert (refused.status_code, refused.json()["code"]) == (409, "PRECONDITION_DRIFT")
    assert states(ready, action_id) == ["VOIDED", "REQUESTED"]
    assert ready.start(order).json()["code"] == "GRANT_INVALID"
    assert "EXECUTING" not in ready.path(action_id)


def test_a_replaced_target_is_detected_although_the_payload_is_unchanged(ready, till, clock):
    """The trap of the unchanged argument hash: the order behind the same id was replaced by another one."""
    action_id = approved(ready, clock)
    hashes = {ready.history(action_id)[-1]["entry"]["requested_operation"]["validated_payload_hash"]}
    till.till.execute("DELETE FROM orders")
    till.till.execute("INSERT INTO orders (id, tenant, version) VALUES ('EX-1001', 'orchid', 7)")
    assert ordered(ready, action_id, clock) is None
    last = ready.history(action_id)[-1]
    hashes.add(last["entry"]["requested_operation"]["validated_payload_hash"])
    assert len(hashes) == 1
    assert [each["field"] for each in last["detail"]["changed"]] == ["target.version"]


def test_no_new_approval_is_requested_for_an_action_that_the_reading_rules_out(ready, till, clock):
    action_id = approved(ready, clock)
    till.till.execute(DOOMED)
    assert ordered(ready, action_id, clock) is None
    assert states(ready, action_id) == ["VOIDED"]
    last = ready.history(action_id)[-1]
    assert (last["state"], last["detail"]["code"]) == ("FAILED", "PREFLIGHT_REFUSED")


def test_a_volatile_field_may_change(counter, secrets_dir, till, clock):
    counter.open(secrets_dir, prepared_contract(approval={"volatile": ["target.version"]}))
    action_id = approved(counter, clock)
    till.till.execute(CHANGED)
    assert ordered(counter, action_id, clock) is not None


def test_an_approval_without_a_baseline_cannot_drift(ready, secrets_dir, till, clock):
    credential = secrets_dir / "systems" / ready.slug / "till.json"
    kept = credential.read_text()
    credential.unlink()
    action_id = ready.propose()
    clock.forward(seconds=6)
    tick(clock)
    credential.write_text(kept)
    till.till.execute(CHANGED)
    opened(ready, action_id, clock)
    assert ready.vote(ready.approval_of(action_id)).status_code == 201


def test_an_approval_near_its_deadline_has_a_full_release_window(counter, secrets_dir, clock):
    """The trap of the dead execution window: what was approved in the last second can still start."""
    ready = counter.open(secrets_dir, prepared_contract(approval={"decide_within_s": 120}))
    action_id = asked(ready, clock)
    approval = newest(ready, action_id)
    clock.forward(seconds=(approval.decide_by - clock.now()).total_seconds() - 2)
    ready._made(ready.vote(ready.approval_of(action_id)))
    released = newest(ready, action_id)
    assert (released.release_by - released.decided_at).total_seconds() >= 15 * 60
    assert released.release_by > approval.decide_by
    clock.forward(seconds=10)
    ready.claim()
    read(clock)
    assert ready.start(ready.claim()[0]).status_code == 201


# What people are shown of it


def page(counter, approval_id):
    answer = counter.reviewer.client.get(f"/t/{counter.slug}/approvals/{approval_id}")
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def test_opening_the_page_asks_for_a_reading_and_then_shows_what_changed(ready, till, clock, monkeypatch):
    action_id = asked(ready, clock)
    approval_id = ready.approval_of(action_id)["approval_id"]
    read(clock)
    till.till.execute(CHANGED)
    monkeypatch.setattr(target_drift, "SEEN_FOR", target_drift.SEEN_FOR * 0)
    assert "It is being read." not in page(ready, approval_id)
    ready.reviewer.client.post(f"/t/{ready.slug}/approvals/{approval_id}/looking", {"opened": "yes"})
    assert "It is being read." in page(ready, approval_id)
    read(clock)
    shown = page(ready, approval_id)
    assert "The target has changed since the request." in shown
    assert '<th scope="row" class="mono">target.version</th><td>1</td><td>2</td><td>material</td>' in shown


def test_the_api_shows_the_baseline_and_the_drift(ready, till, clock):
    action_id = asked(ready, clock)
    before = ready.approval_of(action_id)
    assert (before["baseline"]["known"], before["baseline"]["digest"]) == (True, before["covers"]["precondition"])
    assert {"field": "target.status", "value": "paid"} in before["baseline"]["fields"]
    assert before["drift"] is None
    till.till.execute(CHANGED)
    opened(ready, action_id, clock)
    drift = ready.approval_of(action_id)["drift"]
    assert drift["material"] is True
    assert drift["differences"] == [{"field": "target.version", "then": "1", "now": "2", "material": True}]


def test_the_page_of_a_superseded_request_links_to_the_newer_one(ready, till, clock):
    action_id = asked(ready, clock)
    old = ready.approval_of(action_id)
    till.till.execute(CHANGED)
    opened(ready, action_id, clock)
    assert ready.vote(old).status_code == 409
    new = ready.approval_of(action_id)["approval_id"]
    assert f'/approvals/{new}">newer request' in page(ready, old["approval_id"])
    assert f'/approvals/{old["approval_id"]}">an earlier request' in page(ready, new)


def test_opening_a_request_over_the_api_asks_for_a_reading(ready, clock):
    action_id = asked(ready, clock)
    clock.forward(seconds=30)
    approval_id = ready.approval_of(action_id)["approval_id"]
    count = len(ready.history(action_id))
    ready.reviewer.post(f"/approvals/{approval_id}/attention", {"visible_s": 1})
    assert [each["event"] for each in ready.history(action_id)[count:]] == ["reading_wanted"]


def test_a_person_who_may_not_vote_causes_no_reading_by_looking(ready, clock):
    action_id = asked(ready, clock)
    clock.forward(seconds=30)
    auditor = ready.person("compliance")
    approval_id = ready.approval_of(action_id)["approval_id"]
    count = len(ready.history(action_id))
    auditor.client.post(f"/t/{ready.slug}/approvals/{approval_id}/looking", {"opened": "yes"})
    assert len(ready.history(action_id)) == count
