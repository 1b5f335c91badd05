"""Standing approvals through the product: earned, agreed to by two persons, used, counted, and stopped."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import DatabaseError, IntegrityError, connection

from approvals.models import StandingApproval, StandingPass
from approvals.standing import queries
from approvals.standing.operations import agreement, offers
from approvals.standing.rules import shapes, standing
from approvals.voting.queries import approvers
from console import tasks
from ledger.db import execute, insert, savepoint, tenancy
from ledger.management.commands import verify_ledger
from ledger.people.rules.confirmation import SecondPersonNeeded
from ledger.record.operations import Actor
from ledger.record.queries import events
from tests.support.api_tenant import PASSWORD, workshop
from tests.support.browser_users import Visitor, words
from tests.support.refund_shop import TOOL, Counter, counter, refund_contract

POLICY = {"require": [{"tool": TOOL}], "standing_approvals": {"after": 3, "most_passes": 5, "irreversible": True}}


@pytest.fixture
def desk(counter: Counter, secrets_dir: Any, clock: Any) -> Counter:
    return opened(counter, secrets_dir)


def opened(counter: Counter, secrets_dir: Any) -> Counter:
    """A cashier whose refunds people approve, under a policy with standing approvals."""
    counter.open(secrets_dir, refund_contract())
    counter.person("reviewer", name="second")
    counter._made(counter.operator_key.release("approval", {"version": "2", "document": POLICY}))
    return counter


def refunded(desk: Counter, clock: Any, number: int, *, amount: int = 1250, paid: int | None = None) -> str:
    """A refund from its call to the verdict; `paid` is what the till really paid."""
    desk.till.order(f"EX-{number}")
    started = desk.begun(order_id=f"EX-{number}", amount=amount)
    desk.till.refund(started["idempotency_key"], order_id=f"EX-{number}", amount=paid or amount)
    desk.tell(started)
    clock.forward(seconds=60)
    desk.read_back(started["action_id"], clock)
    return str(started["action_id"])


def earned(desk: Counter, clock: Any) -> list[offers.StandingOffer]:
    for number in range(2001, 2004):
        assert desk.state(refunded(desk, clock, number)) == "RECONCILED_SUCCESS"
    with tenancy(desk.tenant):
        return offers.standing_offers(desk.tenant, at=clock.now())


def people(desk: Counter) -> tuple[Actor, Actor]:
    with tenancy(desk.tenant):
        first, second = (Actor("person", each.actor_id) for each in approvers.approvers(desk.tenant))
    return first, second


def in_force(desk: Counter, clock: Any, **budget: Any) -> UUID:
    """A standing approval that two persons agreed to."""
    offer = earned(desk, clock)[0]
    ada, ben = people(desk)
    wanted = {"count": 3, "sum_minor": 3750, "ends_at": clock.now() + timedelta(days=7)} | budget
    with tenancy(desk.tenant):
        row = agreement.propose(
            tenant_id=desk.tenant,
            shape_digest=offer.shape.digest,
            budget=standing.StandingBudget(**wanted),
            reason="The same each day.",
            evidence_class="C",
            by=ada,
            at=clock.now(),
        )
        word = {"agrees": True, "reason": "So it is.", "evidence_class": "C", "at": clock.now()}
        with pytest.raises(SecondPersonNeeded):
            agreement.answer(tenant_id=desk.tenant, standing_id=row.id, by=ada, **word)
        agreement.answer(tenant_id=desk.tenant, standing_id=row.id, by=ben, **word)
    return row.id


def standing_of(desk: Counter, standing_id: UUID) -> StandingApproval:
    with tenancy(desk.tenant):
        row = queries.standing_approval(desk.tenant, standing_id)
    assert row is not None
    return row


def test_a_standing_approval_is_offered_after_a_streak_of_verified_approvals_with_its_evidence(desk, clock):
    found = earned(desk, clock)
    assert [(len(each.evidence), each.approvers, each.system) for each in found] == [(3, 1, "till")]
    assert shapes.describe_bounds(found[0].shape) == ("amount up to 12.50 EUR", "any order id")
    refunded(desk, clock, 2004, paid=1200)
    with tenancy(desk.tenant):
        assert offers.standing_offers(desk.tenant, at=clock.now()) == []


def test_calls_under_a_standing_approval_need_no_vote_until_its_budget_is_used(desk, clock):
    standing_id = in_force(desk, clock)
    for number in range(3001, 3004):
        answer = desk.call(TOOL, {"order_id": f"EX-{number}", "amount": 1250, "currency": "EUR"})
        assert answer["approval"]["required"] is False
        assert not desk.waiting(answer["action_id"])
        kinds = [each["event"] for each in desk.history(answer["action_id"])]
        assert kinds == ["proposed", "validated", "approval_granted"]
    row = standing_of(desk, standing_id)
    assert (row.state, row.ended_because, row.used_count, row.used_minor) == ("ENDED", "BUDGET", 3, 3750)
    answer = desk.call(TOOL, {"order_id": "EX-3004", "amount": 1250, "currency": "EUR"})
    assert answer["approval"]["required"] is True
    verify_ledger.verify(desk.tenant, events.tenant_by_id(desk.tenant).origin)
    with tenancy(desk.tenant):
        told = [event.kind for event, _, _ in events.history(desk.tenant, standing_id)]
    assert told[2:] == [*["standing_approval_used"] * 3, "standing_approval_ended"]
    orders = desk.claim()
    assert len(orders) == 3
    assert desk.start(orders[0]).status_code == 201


def test_one_of_two_concurrent_calls_gets_the_last_place_of_a_budget(
    committed_db: Any, secrets_dir: Any, till: Any, clock: Any
):
    desk = opened(counter(workshop("orchid"), till), secrets_dir)
    standing_id = in_force(desk, clock, count=1, sum_minor=1250)
    sessions, ready = [desk.session() for _ in range(2)], Barrier(2)

    def call(number: int) -> dict[str, Any]:
        session, arguments = sessions[number], {"order_id": f"EX-300{number}", "amount": 1250, "currency": "EUR"}
        body = {"call_id": f"call-{number}", "tool": TOOL, "arguments": arguments, "pin_hash": session["pin"]["hash"]}
        try:
            ready.wait(10)
            answer = desk.agent.post(f"/sessions/{session['session_id']}/calls", {"calls": [body]})
            assert answer.status_code == 200, answer.content
            made: dict[str, Any] = answer.json()["results"][0]
            return made
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as threads:
        answers = list(threads.map(call, range(2)))
    assert sorted(each["approval"]["required"] for each in answers) == [False, True]
    asked = next(each for each in answers if each["approval"]["required"])
    assert desk.waiting(asked["action_id"])
    row = standing_of(desk, standing_id)
    assert (row.state, row.ended_because, row.used_count, row.used_minor) == ("ENDED", "BUDGET", 1, 1250)
    with tenancy(desk.tenant):
        assert [each.number for each in queries.passes(desk.tenant, standing_id)] == [1]
    verify_ledger.verify(desk.tenant, events.tenant_by_id(desk.tenant).origin)


def test_a_call_of_another_shape_needs_approval(desk, clock):
    in_force(desk, clock)
    for changes in ({"amount": 1251}, {"currency": "USD"}):
        answer = desk.call(TOOL, {"order_id": "EX-3001", "amount": 1250, "currency": "EUR"} | changes)
        assert answer["approval"]["required"] is True


def test_calls_that_passed_do_not_start_after_a_manual_pause(desk, clock):
    standing_id = in_force(desk, clock)
    action_id = desk.propose(order_id="EX-3001")
    ada, _ = people(desk)
    with tenancy(desk.tenant):
        agreement.pause(tenant_id=desk.tenant, standing_id=standing_id, reason="Wait.", by=ada, at=clock.now())
    assert desk.claim() == []
    assert desk.waiting(action_id)


def test_the_first_refund_that_differs_pauses_the_standing_approval_and_opens_a_case(desk, clock):
    standing_id = in_force(desk, clock, count=5, sum_minor=6250)
    for number in range(3001, 3004):
        assert desk.state(refunded(desk, clock, number)) == "RECONCILED_SUCCESS"
    action_id = refunded(desk, clock, 3004, paid=1200)
    # Even before the tick that pauses it.
    answer = desk.call(TOOL, {"order_id": "EX-3005", "amount": 1250, "currency": "EUR"})
    assert answer["approval"]["required"] is True
    assert tasks.watch_standing_approvals() == 1
    row = standing_of(desk, standing_id)
    assert (row.state, row.pause_reason, str(row.pause_action)) == ("PAUSED", "DISCREPANCY", action_id)
    assert str(row.case_id) == desk.case_of(action_id)["case_id"]
    assert tasks.watch_standing_approvals() == 0
    shown = words(Visitor(desk.reviewer.client, desk.slug).page(f"standing-approvals/{standing_id}"))
    assert "a new one can be proposed once there is new evidence. Open the action Open the case" in shown
    ada, _ = people(desk)
    with tenancy(desk.tenant), pytest.raises(standing.NotInThisState):
        agreement.propose_resume(
            tenant_id=desk.tenant, standing_id=standing_id, reason="", evidence_class="C", by=ada, at=clock.now()
        )


def test_a_policy_change_pauses_a_standing_approval_until_two_people_resume_it(desk, clock):
    standing_id = in_force(desk, clock)
    desk._made(desk.operator_key.release("approval", {"version": "3", "document": POLICY}))
    assert tasks.watch_standing_approvals() == 1
    assert standing_of(desk, standing_id).pause_reason == "POLICY"
    ada, ben = people(desk)
    word: dict[str, Any] = {"tenant_id": desk.tenant, "standing_id": standing_id, "reason": "It is as it was."}
    word |= {"evidence_class": "C", "at": clock.now()}
    with tenancy(desk.tenant):
        agreement.propose_resume(**word, by=ben)
        with pytest.raises(SecondPersonNeeded):
            agreement.answer(**word, agrees=True, by=ben)
        agreement.answer(**word, agrees=True, by=ada)
    answer = desk.call(TOOL, {"order_id": "EX-3002", "amount": 1250, "currency": "EUR"})
    assert answer["approval"]["required"] is False


def test_a_standing_approval_ends_on_its_end_date(desk, clock):
    standing_id = in_force(desk, clock)
    clock.forward(days=8)
    assert tasks.watch_standing_approvals() == 0
    row = standing_of(desk, standing_id)
    assert (row.state, row.ended_because) == ("ENDED", "DATE")


def test_the_database_refuses_invalid_changes_of_a_standing_approval(desk, clock):
    standing_id = in_force(desk, clock, count=1, sum_minor=1250)
    first = {"tenant_id": desk.tenant, "standing_id": standing_id, "action_id": uuid4(), "number": 1, "minor": 0}

    def passed(**changes: Any) -> None:
        with savepoint():
            insert(StandingPass(**first | {"approval_id": uuid4(), "at": clock.now()} | changes))

    with tenancy(desk.tenant):
        for beyond in ({"number": 2}, {"minor": 1251}, {"at": clock.now() + timedelta(days=8)}):
            with pytest.raises(DatabaseError):
                passed(**beyond)
        passed()
        with pytest.raises(DatabaseError):
            passed(number=2)
        here = "UPDATE approvals_standingapproval SET {} WHERE tenant_id = $1 AND id = $2"
        for change in (
            "max_count = 9",
            "ends_at = ends_at + interval '1 day'",
            "used_count = 0",
            "shape = '{}'",
            "answered_by = proposed_by",
            "answered_person = proposed_person",
            "state = 'PROPOSED'",
        ):
            with pytest.raises((DatabaseError, IntegrityError)), savepoint():
                execute(here.format(change), desk.tenant, standing_id)
        with savepoint():
            execute(here.format("state = 'PAUSED'"), desk.tenant, standing_id)
        with pytest.raises(DatabaseError):
            passed(number=2)
        row = queries.standing_approval(desk.tenant, standing_id)
        assert row is not None
        row.id, row.tool, row.state = uuid4(), "other", "ACTIVE"
        with pytest.raises(DatabaseError), savepoint():
            insert(row)


def test_two_people_agree_on_the_pages_and_passed_actions_name_the_standing_approval(desk, clock):
    tasks.tell_people()
    found = earned(desk, clock)[0]
    ada, ben = (Visitor(desk.person("reviewer", name=name).client, desk.slug) for name in ("ada", "ben"))
    page = ada.page("standing-approvals")
    listed = words(page)
    # The only format in which a browser shows a proposed day.
    week = (clock.now() + timedelta(days=6)).date().isoformat()
    assert f'<input type="date" name="ends_on" value="{week}"' in page
    assert "3 actions it is based on Refund order" in listed
    earned_by = (
        "3 of 3 calls of refund_order by agent cashier (amount up to 12.50 EUR, any order id)"
        " were approved by 1 person and confirmed in till."
    )
    assert earned_by in listed
    fields = {"shape_digest": found.shape.digest, "count": 2, "total": "25.00", "reason": "As ever.", "otp": ""}
    fields |= {"ends_on": (clock.now() + timedelta(days=3)).date().isoformat(), "password": PASSWORD}
    for wrong, why in (
        ({"password": ""}, "Confirm with your password"),
        ({"password": "no"}, "This is not your password."),
        ({"total": "25.01"}, "The sum is at least 1 and at most the count times the largest amount."),
        ({"count": 9}, "Between 1 and 5 actions may pass."),
        ({"reason": ""}, "Enter a reason. It is kept in the audit log."),
    ):
        answer = ada.post("standing-approvals/propose", **fields | wrong)
        assert answer.status_code in (403, 422)
        assert why in words(answer.content.decode())
    path = ada.post("standing-approvals/propose", **fields)["Location"].removeprefix(f"/t/{desk.slug}/")
    assert "It is waiting for a second person and not in force yet." in words(ada.page(path))
    assert "Agree" not in words(ada.page(path))
    tasks.tell_people()
    waits = {"ada": words(ada.page()), "ben": words(ben.page())}
    agree = "Agree to a standing approval: refund_order by cashier"
    assert {name: agree in said for name, said in waits.items()} == {"ada": False, "ben": True}
    assert "Standing approval requires a second person refund_order by agent cashier" in words(ben.page("notices"))
    assert ben.post(f"{path}/answer", to="agree", reason="So it is.", password=PASSWORD, otp="").status_code == 302
    action_id = desk.propose(order_id="EX-3001")
    approval_id = next(each for each in desk.reviewer.get("/approvals?state=APPROVED").json()["items"])
    assert approval_id["standing_approval_id"] in path
    said = "Passed under a standing approval, 1 of 2, by Ada and Ben until"
    for where in (f"actions/{action_id}", f"approvals/{approval_id['approval_id']}", "approvals?tab=approved"):
        assert said in words(ben.page(where)), where
    shown = words(ben.page(path))
    assert "1 of 2 passed, 12.50 EUR of 25.00 EUR." in shown
    assert earned_by in shown
    assert ada.post(f"{path}/stop", to="pause", reason="").status_code == 422
    assert ada.post(f"{path}/stop", to="pause", reason="Wait.").status_code == 302
    paused = words(ada.page(path))
    assert "Somebody paused it." in paused
    assert "Each call needs approval until two people resume it." in paused
