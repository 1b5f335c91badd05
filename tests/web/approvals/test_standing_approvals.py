"""Standing approvals through the product: earned, agreed to by two persons, used, counted, and stopped."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import DatabaseError, IntegrityError

from approvals.models import StandingApproval, StandingPass
from approvals.standing import queries
from approvals.standing.operations import agreement, offers
from approvals.standing.rules import shapes, standing
from approvals.voting.queries import approvers
from console import tasks
from ledger.db import execute, insert, savepoint, tenancy
from ledger.management.commands import verify_ledger
from ledger.record.operations import Actor
from ledger.record.queries import events
from tests.support.refund_shop import TOOL, Counter, refund_contract

POLICY = {"require": [{"tool": TOOL}], "standing_approvals": {"after": 3, "most_passes": 5, "irreversible": True}}


@pytest.fixture
def desk(counter: Counter, secrets_dir: Any, clock: Any) -> Counter:
    """A cashier whose refunds people approve, under a policy with standing approvals."""
    counter.open(secrets_dir, refund_contract())
    counter.person("reviewer", name="second")
    counter._made(counter.operator_key.post("/policies/approval", {"version": "2", "document": POLICY}))
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
        with pytest.raises(standing.SecondPersonWanted):
            agreement.answer(tenant_id=desk.tenant, standing_id=row.id, by=ada, **word)
        agreement.answer(tenant_id=desk.tenant, standing_id=row.id, by=ben, **word)
    return row.id


def standing_of(desk: Counter, standing_id: UUID) -> StandingApproval:
    with tenancy(desk.tenant):
        row = queries.standing_approval(desk.tenant, standing_id)
    assert row is not None
    return row


def test_it_is_earned_by_verified_approvals_in_a_row_and_says_what_it_rests_on(desk, clock):
    found = earned(desk, clock)
    assert [(len(each.evidence), each.approvers, each.system) for each in found] == [(3, 1, "till")]
    assert shapes.describe_bounds(found[0].shape) == ("amount up to 12.50 EUR", "any order id")
    refunded(desk, clock, 2004, paid=1200)
    with tenancy(desk.tenant):
        assert offers.standing_offers(desk.tenant, at=clock.now()) == []


def test_what_passes_under_it_is_asked_of_nobody_is_counted_and_ends_with_its_budget(desk, clock):
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


def test_what_is_of_another_shape_is_asked_about(desk, clock):
    in_force(desk, clock)
    for changes in ({"amount": 1251}, {"currency": "USD"}):
        answer = desk.call(TOOL, {"order_id": "EX-3001", "amount": 1250, "currency": "EUR"} | changes)
        assert answer["approval"]["required"] is True


def test_what_has_passed_does_not_start_once_it_is_paused_by_hand_and_people_are_asked(desk, clock):
    standing_id = in_force(desk, clock)
    action_id = desk.propose(order_id="EX-3001")
    ada, _ = people(desk)
    with tenancy(desk.tenant):
        agreement.pause(tenant_id=desk.tenant, standing_id=standing_id, reason="Wait.", by=ada, at=clock.now())
    assert desk.claim() == []
    assert desk.waiting(action_id)


def test_after_a_discrepancy_nothing_passes_even_before_the_tick_and_the_tick_pauses_it_with_a_case(desk, clock):
    standing_id = in_force(desk, clock)
    action_id = refunded(desk, clock, 3001, paid=1200)
    answer = desk.call(TOOL, {"order_id": "EX-3002", "amount": 1250, "currency": "EUR"})
    assert answer["approval"]["required"] is True
    assert tasks.watch_standing_approvals() == 1
    row = standing_of(desk, standing_id)
    assert (row.state, row.pause_reason, str(row.pause_action)) == ("PAUSED", "DISCREPANCY", action_id)
    assert str(row.case_id) == desk.case_of(action_id)["case_id"]
    assert tasks.watch_standing_approvals() == 0
    ada, _ = people(desk)
    with tenancy(desk.tenant), pytest.raises(standing.NotInThisState):
        agreement.propose_resume(
            tenant_id=desk.tenant, standing_id=standing_id, reason="", evidence_class="C", by=ada, at=clock.now()
        )


def test_a_policy_that_changes_pauses_it_and_two_persons_let_it_go_on(desk, clock):
    standing_id = in_force(desk, clock)
    desk._made(desk.operator_key.post("/policies/approval", {"version": "3", "document": POLICY}))
    assert tasks.watch_standing_approvals() == 1
    assert standing_of(desk, standing_id).pause_reason == "POLICY"
    ada, ben = people(desk)
    word: dict[str, Any] = {"tenant_id": desk.tenant, "standing_id": standing_id, "reason": "It is as it was."}
    word |= {"evidence_class": "C", "at": clock.now()}
    with tenancy(desk.tenant):
        agreement.propose_resume(**word, by=ben)
        with pytest.raises(standing.SecondPersonWanted):
            agreement.answer(**word, agrees=True, by=ben)
        agreement.answer(**word, agrees=True, by=ada)
    answer = desk.call(TOOL, {"order_id": "EX-3002", "amount": 1250, "currency": "EUR"})
    assert answer["approval"]["required"] is False


def test_its_end_date_ends_it(desk, clock):
    standing_id = in_force(desk, clock)
    clock.forward(days=8)
    assert tasks.watch_standing_approvals() == 0
    row = standing_of(desk, standing_id)
    assert (row.state, row.ended_because) == ("ENDED", "DATE")


def test_the_database_refuses_what_no_code_may_do(desk, clock):
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
