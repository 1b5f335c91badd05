"""Time-boxed passes through the product: given by one person, counted, over after their time, revoked."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from threading import Barrier
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import DatabaseError, connection

from approvals.models import StandingApproval, StandingPass
from approvals.requests.queries import approvals
from approvals.standing import queries
from approvals.standing.operations import time_boxes
from approvals.standing.rules import standing
from approvals.voting.operations import eligibility
from approvals.voting.queries import approvers
from approvals.voting.rules import binding
from console import tasks
from console.notifications import queries as notifications
from ledger.db import execute, insert, savepoint, tenancy
from ledger.management.commands import verify_ledger
from ledger.record.operations import Actor
from ledger.record.queries import events
from ledger.record.rules.refusals import ProofNeeded
from tests.support.api_tenant import PASSWORD, workshop
from tests.support.browser_users import Visitor, words
from tests.support.refund_shop import TOOL, Counter, counter, refund_contract
from tests.web.actions.test_effect_receipts import checked

BOXES = {"most_minutes": 30, "most_count": 3}
POLICY = {
    "require": [{"tool": TOOL}],
    "standing_approvals": {"irreversible": True, "time_boxes": BOXES},
}


def opened(counter: Counter, secrets_dir: Any, document: dict[str, Any]) -> Counter:
    """A cashier whose refunds people approve, under this policy."""
    counter.open(secrets_dir, refund_contract())
    counter.person("reviewer", name="second")
    counter._made(counter.operator_key.release("approval", {"version": "2", "document": document}))
    return counter


@pytest.fixture
def desk(counter: Counter, secrets_dir: Any, clock: Any) -> Counter:
    return opened(counter, secrets_dir, POLICY)


def refund(desk: Counter, number: int, *, amount: int = 1250) -> dict[str, Any]:
    order_id = f"EX-{2000 + number}"
    desk.till.order(order_id)
    answer: dict[str, Any] = desk.call(TOOL, {"order_id": order_id, "amount": amount, "currency": "EUR"})
    return answer


def request_of(desk: Counter, number: int = 1) -> UUID:
    """The approval of a refund that waits for people."""
    answer = refund(desk, number)
    assert answer["approval"]["required"] is True, answer
    with tenancy(desk.tenant):
        found = approvals.approval_of(desk.tenant, UUID(answer["action_id"]))
    assert found is not None
    return found.id


def reviewer(desk: Counter) -> Actor:
    with tenancy(desk.tenant):
        return Actor("person", approvers.approvers(desk.tenant)[0].actor_id)


def given(desk: Counter, approval_id: UUID, *, at: datetime, by: Actor | None = None, **changes: Any) -> UUID:
    wanted: dict[str, Any] = {"minutes": 30, "count": 3, "reason": "The lamps came broken.", "evidence_class": "C"}
    by = by or reviewer(desk)
    with tenancy(desk.tenant):
        return time_boxes.give(tenant_id=desk.tenant, approval_id=approval_id, by=by, at=at, **wanted | changes).id


def box(desk: Counter, standing_id: UUID) -> StandingApproval:
    with tenancy(desk.tenant):
        row = queries.standing_approval(desk.tenant, standing_id)
    assert row is not None
    return row


def passes(desk: Counter, number: int, **changes: Any) -> bool:
    return refund(desk, number, **changes)["approval"]["required"] is False


def test_a_policy_without_time_boxes_lets_nobody_give_one(counter, secrets_dir, clock):
    desk = opened(counter, secrets_dir, POLICY | {"standing_approvals": {"irreversible": True}})
    approval_id = request_of(desk)
    with pytest.raises(standing.TimeBoxNotAllowed, match="The approval policy has no time-boxed passes"):
        given(desk, approval_id, at=clock.now())
    page = words(Visitor(desk.reviewer.client, desk.slug).page(f"approvals/{approval_id}"))
    assert "Let calls like this through" not in page


def test_calls_of_the_shape_pass_until_the_count_is_used_and_the_request_itself_still_waits(desk, clock):
    approval_id = request_of(desk)
    standing_id = given(desk, approval_id, at=clock.now())
    assert not passes(desk, 2, amount=1251)
    assert [passes(desk, number) for number in range(3, 7)] == [True, True, True, False]
    row = box(desk, standing_id)
    assert (row.state, row.ended_because, row.used_count, row.used_minor) == ("ENDED", "BUDGET", 3, 3750)
    with tenancy(desk.tenant):
        waiting = approvals.approval(desk.tenant, approval_id)
        told = [event.kind for event, _, _ in events.history(desk.tenant, standing_id)]
    assert waiting is not None
    assert waiting.state == "REQUESTED"
    assert told == ["time_boxed_pass_given", *["standing_approval_used"] * 3, "standing_approval_ended"]
    orders = desk.claim()
    assert len(orders) == 3
    assert desk.start(orders[0]).status_code == 201
    verify_ledger.verify(desk.tenant, events.tenant_by_id(desk.tenant).origin)


def test_the_receipt_of_an_action_that_passed_names_the_pass(desk, clock):
    standing_id = given(desk, request_of(desk), at=clock.now())
    action_id = refund(desk, 2)["action_id"]
    allowed = checked(desk, action_id)["predicate"]["allowed"]
    passed = allowed["standing_approval"]
    assert (allowed["by"], allowed["decision"], allowed["votes"]) == ("standing_approval", "APPROVED", [])
    assert (passed["id"], passed["time_boxed"], passed["number"], passed["of"]) == (str(standing_id), True, 1, 3)
    assert passed["by"] == [str(reviewer(desk).id)]


def test_limits_of_the_policy_bind_and_a_proof_as_for_a_vote_is_needed(desk, clock):
    approval_id = request_of(desk)
    with pytest.raises(standing.BudgetOutsidePolicy) as refused:
        given(desk, approval_id, at=clock.now(), minutes=31, count=4)
    assert [each["detail"] for each in refused.value.errors] == [
        "It lasts between 1 and 30 minutes.",
        "Between 1 and 3 actions may pass.",
    ]
    with pytest.raises(ProofNeeded):
        given(desk, approval_id, at=clock.now(), evidence_class="")


def test_only_somebody_whose_vote_would_be_enough_gives_a_pass(counter, secrets_dir, clock):
    desk = opened(counter, secrets_dir, POLICY)
    approval_id, by = request_of(desk), reviewer(desk)
    with tenancy(desk.tenant):
        row = approvals.approval(desk.tenant, approval_id)
        assert row is not None
        requester = Actor("person", row.requester)
    with pytest.raises((binding.NotEligible, binding.SelfApproval)):
        given(desk, approval_id, at=clock.now(), by=requester)
    with pytest.raises(binding.NotEligible):
        given(desk, approval_id, at=clock.now(), by=Actor("person", uuid4()))
    with tenancy(desk.tenant), savepoint():
        execute("UPDATE approvals_agent SET owner = $2 WHERE tenant_id = $1", desk.tenant, by.id)
    with pytest.raises(eligibility.NotIndependent, match="You own this agent"):
        given(desk, approval_id, at=clock.now(), by=by)


@pytest.mark.parametrize(
    ("terms", "why"),
    [
        ({"thresholds": [{"group": "reviewers", "count": 2}]}, "Your vote alone would not approve such a call"),
        ({"step_up": "A"}, "It takes the signature of a passkey each time."),
        (
            {"standing_approvals": {"irreversible": False, "time_boxes": BOXES}},
            "It cannot be taken back, and the approval policy lets a person approve that each time.",
        ),
        (
            {"standing_approvals": {"irreversible": True, "always_ask": [TOOL], "time_boxes": BOXES}},
            "The approval policy always asks a person about this tool.",
        ),
    ],
)
def test_what_takes_more_than_one_simple_vote_each_time_is_not_let_through(counter, secrets_dir, clock, terms, why):
    desk = opened(counter, secrets_dir, POLICY | terms)
    with pytest.raises(standing.TimeBoxNotAllowed, match=why):
        given(desk, request_of(desk), at=clock.now())


def test_one_pass_for_such_calls_at_a_time(desk, clock):
    approval_id = request_of(desk)
    given(desk, approval_id, at=clock.now())
    with pytest.raises(standing.TimeBoxNotAllowed, match="is there already"):
        given(desk, approval_id, at=clock.now())


def test_concurrent_calls_never_pass_beyond_the_count(committed_db: Any, secrets_dir: Any, till: Any, clock: Any):
    desk = opened(counter(workshop("orchid"), till), secrets_dir, POLICY)
    standing_id = given(desk, request_of(desk), at=clock.now(), count=2)
    sessions, ready = [desk.session() for _ in range(4)], Barrier(4)

    def call(number: int) -> bool:
        session, arguments = sessions[number], {"order_id": f"EX-300{number}", "amount": 1250, "currency": "EUR"}
        body = {"call_id": f"call-{number}", "tool": TOOL, "arguments": arguments, "pin_hash": session["pin"]["hash"]}
        try:
            ready.wait(30)
            answer = desk.agent.post(f"/sessions/{session['session_id']}/calls", {"calls": [body]})
            assert answer.status_code == 200, answer.content
            return bool(answer.json()["results"][0]["approval"]["required"])
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as threads:
        asked = list(threads.map(call, range(4)))
    assert sorted(asked) == [False, False, True, True]
    assert box(desk, standing_id).used_count == 2


def test_nothing_passes_or_starts_after_its_end(desk, clock):
    standing_id = given(desk, request_of(desk), at=clock.now(), minutes=10)
    passed = [refund(desk, 2)["action_id"]]
    clock.forward(minutes=9)
    passed.append(refund(desk, 3)["action_id"])
    assert not any(desk.waiting(each) for each in passed)
    clock.forward(minutes=1)
    assert not passes(desk, 4)
    assert desk.claim() == []
    assert all(desk.waiting(each) for each in passed)
    tasks.watch_standing_approvals()
    row = box(desk, standing_id)
    assert (row.state, row.ended_because) == ("ENDED", "DATE")
    assert desk.claim() == []


def test_the_clock_of_the_database_ends_it_too(desk, clock):
    begun = clock.now() - timedelta(minutes=31)
    approval_id = request_of(desk)
    standing_id = given(desk, approval_id, at=begun)
    late = {"tenant_id": desk.tenant, "standing_id": standing_id, "number": 1, "action_id": uuid4(), "minor": 0}
    with tenancy(desk.tenant), pytest.raises(DatabaseError, match="is not in force"), savepoint():
        insert(StandingPass(**late, approval_id=uuid4(), at=begun))


def test_revoking_stops_at_once_what_passed_and_has_not_started(desk, clock):
    approval_id = request_of(desk)
    standing_id = given(desk, approval_id, at=clock.now())
    action_id = refund(desk, 2)["action_id"]
    assert not desk.waiting(action_id)
    answer = desk.reviewer.post(f"/standing-approvals/{standing_id}/revoke", {})
    assert (answer.status_code, answer.json()["stopped"]) == (200, "A person revoked it.")
    assert desk.claim() == []
    assert desk.waiting(action_id)
    assert not passes(desk, 3)
    again = desk.reviewer.post(f"/standing-approvals/{standing_id}/revoke", {})
    assert again.status_code == 409
    verify_ledger.verify(desk.tenant, events.tenant_by_id(desk.tenant).origin)


def test_a_claimed_action_does_not_start_once_its_pass_is_revoked(desk, clock):
    standing_id = given(desk, request_of(desk), at=clock.now())
    action_id = refund(desk, 2)["action_id"]
    (order,) = desk.claim()
    assert desk.reviewer.post(f"/standing-approvals/{standing_id}/revoke", {}).status_code == 200
    assert desk.start(order).json()["code"] == "STANDING_APPROVAL_STOPPED"
    assert desk.waiting(action_id)


def test_a_policy_change_pauses_it_and_it_is_never_resumed(desk, clock):
    standing_id = given(desk, request_of(desk), at=clock.now())
    desk._made(desk.operator_key.release("approval", {"version": "3", "document": POLICY}))
    assert not passes(desk, 2)
    # Nothing passed, so no case is opened about the request that still waits.
    assert tasks.watch_standing_approvals() == 0
    assert (box(desk, standing_id).state, box(desk, standing_id).pause_reason) == ("PAUSED", "POLICY")
    refused = desk.reviewer.post(
        f"/standing-approvals/{standing_id}/resume", {"reason": "As before.", "password": PASSWORD}
    )
    assert refused.json()["detail"] == (
        "A time-boxed pass is not resumed. End it; another can be given from a request that waits."
    )
    clock.forward(minutes=31)
    assert tasks.watch_standing_approvals() == 0
    assert box(desk, standing_id).state == "ENDED"


def test_the_database_refuses_rows_and_changes_beyond_the_bounds(desk, clock):
    approval_id = request_of(desk)
    row = box(desk, given(desk, approval_id, at=clock.now()))
    with tenancy(desk.tenant):
        here = "UPDATE approvals_standingapproval SET {} WHERE tenant_id = $1 AND id = $2"
        for change in (
            "is_time_boxed = false",
            "ends_at = ends_at + interval '1 minute'",
            "max_count = 9",
            "reason = 'Another.'",
            "policies = '{}'",
            "answered_by = proposed_by",
            "state = 'PROPOSED'",
            "state = 'DECLINED'",
        ):
            with pytest.raises(DatabaseError), savepoint():
                execute(here.format(change), desk.tenant, row.id)
        with savepoint():
            execute(here.format("state = 'PAUSED'"), desk.tenant, row.id)
        for change in ("state = 'PROPOSED'", "state = 'ACTIVE'"):
            with pytest.raises(DatabaseError), savepoint():
                execute(here.format(change), desk.tenant, row.id)
        soon = row.proposed_at + timedelta(hours=2)
        for forged in (
            {"max_count": 4},
            {"max_count": 0},
            {"ends_at": row.proposed_at + timedelta(minutes=31)},
            {"ends_at": row.proposed_at},
            {"proposed_at": soon, "ends_at": soon + timedelta(minutes=30)},
            {"used_count": 1},
            {"state": "PROPOSED"},
            {"answered_by": uuid4(), "answered_person": uuid4(), "answered_at": row.proposed_at},
            {"is_time_boxed": False},
        ):
            with pytest.raises(DatabaseError), savepoint():
                insert(like(row, **forged))
        with savepoint():
            insert(like(row))


def like(row: StandingApproval, **changes: Any) -> StandingApproval:
    """A new row as this one was when it began, of another tool, with these changes."""
    names = [each.attname for each in StandingApproval._meta.concrete_fields]
    values = {name: getattr(row, name) for name in names} | {"id": uuid4(), "tool": "other"}
    return StandingApproval(**values | changes)


def test_a_reviewer_lets_calls_through_on_the_page_and_revokes_with_one_click(desk, clock):
    approval_id = request_of(desk)
    ada = Visitor(desk.person("reviewer", name="ada").client, desk.slug)
    page = words(ada.page(f"approvals/{approval_id}"))
    shape = "alls of refund_order by agent cashier: amount up to 12.50 EUR, any order id"
    assert "Let calls like this through for a while…" in page
    assert f"C{shape} pass without a vote, for at most 30 minutes and 3 calls." in page
    path = f"approvals/{approval_id}/time-boxed-pass"
    fields = {"minutes": 20, "count": 2, "reason": "The lamps came broken.", "password": PASSWORD, "otp": ""}
    for wrong, why in (
        ({"password": ""}, "Confirm with your password"),
        ({"password": "no"}, "This is not your password."),
        ({"minutes": 31}, "It lasts between 1 and 30 minutes."),
        ({"count": 4}, "Between 1 and 3 actions may pass."),
        ({"reason": ""}, "Enter a reason. It is kept in the audit log."),
    ):
        answer = ada.post(path, **fields | wrong)
        assert answer.status_code in (403, 422)
        assert why in words(answer.content.decode())
    assert ada.post(path, **fields).status_code == 302
    with tenancy(desk.tenant):
        (row,) = queries.time_boxes(desk.tenant, at=clock.now())
    until = f"until {row.ends_at:%H:%M} UTC on"
    banner = f"Ada lets c{shape} pass without a vote {until}"
    for where in ("approvals", f"approvals/{approval_id}"):
        assert banner in words(ada.page(where)), where
    passed = refund(desk, 2)["action_id"]
    with tenancy(desk.tenant):
        under = approvals.approval_of(desk.tenant, UUID(passed))
    assert under is not None
    said = f"Passed under a time-boxed pass, 1 of 2, by Ada {until}"
    for where in (f"actions/{passed}", f"approvals/{under.id}", "approvals?tab=approved"):
        assert said in words(ada.page(where)), where
    assert "Passed under a time-boxed pass" in words(ada.page(f"actions/{passed}"))
    told = f"it passed under a time-boxed pass of exactly its shape, by Ada until {row.ends_at:%Y-%m-%d %H:%M}"
    assert told in words(ada.page(f"actions/{passed}/narrative"))
    shown = words(ada.page(f"standing-approvals/{row.id}"))
    assert "One person gave it from one request that was waiting. It rests on no verified approvals." in shown
    assert "time-boxed pass, given by Ada" in words(ada.page("standing-approvals"))
    assert ada.post(f"standing-approvals/{row.id}/revoke").status_code == 302
    assert "A person revoked it." in words(ada.page(f"standing-approvals/{row.id}"))
    assert "lets calls" not in words(ada.page("approvals"))


def test_reviewers_and_operators_are_told_of_a_pass_and_of_its_end_except_the_one_who_did_it(desk, clock):
    giver = reviewer(desk)
    others = [Visitor(desk.person(role, name=role[:3]).client, desk.slug) for role in ("reviewer", "operator")]
    standing_id = given(desk, request_of(desk), at=clock.now(), by=giver)
    tasks.tell_people()
    for person in others:
        said = words(person.page("notices"))
        assert "A time-boxed pass was given" in said, said
        assert f"{TOOL} by agent cashier" in said, said
        assert f"/standing-approvals/{standing_id}" in person.page("notices")
    with tenancy(desk.tenant):
        time_boxes.revoke(tenant_id=desk.tenant, standing_id=standing_id, reason="", by=giver, at=clock.now())
    tasks.tell_people()
    for person in others:
        assert "A time-boxed pass was revoked" in words(person.page("notices"))
    with tenancy(desk.tenant):
        told = notifications.messages(desk.tenant, giver.id, limit=50)
    assert "time_boxed_pass" not in "".join(each.kind for each in told)
