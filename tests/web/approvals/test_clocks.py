"""Deadlines stand still while a freeze covers an approval, or while the agent owes an answer, and go on afterwards."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from approvals import tasks
from approvals.requests.operations import clocks, threads
from approvals.requests.queries import approvals
from approvals.requests.rules import assignments
from approvals.requests.rules import threads as rules
from ledger.actions.queries import actions
from ledger.catalogue.operations import registration
from ledger.db import tenancy
from ledger.record import operations as ledger
from ledger.record.queries import events
from ledger.record.rules.refusals import NotFound
from tests.support.api_tenant import Clock
from tests.support.browser_users import ballot, visitor, words
from tests.support.scenes import Stage

FREEZES = {"agent": "support", "tool": "issue_refund", "tenant": "", "all": ""}


@pytest.fixture
def waits(stage: Stage) -> Any:
    """An approval that waits for a vote, asked for a minute ago; people have a day."""
    return stage.approval(stage.propose())


def freeze(stage: Stage, clock: Clock, scope: str = "tool", value: str = "issue_refund") -> Any:
    with tenancy(stage.tenant):
        return registration.place_freeze(
            tenant_id=stage.tenant, scope=scope, value=value, reason="Look.", actor=ledger.SYSTEM, at=clock.now()
        )


def lift(stage: Stage, clock: Clock, row: Any) -> None:
    with tenancy(stage.tenant):
        registration.lift_freeze(
            tenant_id=stage.tenant, freeze_id=row.id, reason="Fine.", actor=ledger.SYSTEM, at=clock.now()
        )


def again(stage: Stage, waits: Any) -> Any:
    with tenancy(stage.tenant):
        return approvals.approval(stage.tenant, waits.id)


def told(stage: Stage, waits: Any) -> list[str]:
    """What is on the approval's record; that this stage has no reviewers is not what these tests are about."""
    with tenancy(stage.tenant):
        history = events.history(stage.tenant, waits.id)
    return [event.kind for event, _, _ in history if event.kind != "no_eligible_approver"]


@pytest.mark.parametrize("scope", [*FREEZES, "target"])
def test_a_freeze_stops_the_clock_and_a_lift_restores_the_remaining_time(stage, waits, clock, scope):
    with tenancy(stage.tenant):
        target = actions.action(stage.tenant, waits.action_id).target
    row = freeze(stage, clock, scope, FREEZES.get(scope, target))
    assert tasks.turn_clocks() == 1
    stopped = again(stage, waits)
    assert (stopped.paused_at, stopped.decide_by) == (row.placed_at, waits.decide_by)
    clock.forward(days=40)
    tasks.lapse()
    assert again(stage, waits).state == "REQUESTED"
    lift(stage, clock, row)
    assert tasks.turn_clocks() == 0
    goes_on = again(stage, waits)
    assert goes_on.paused_at is None
    assert timedelta(0) <= goes_on.decide_by - waits.decide_by - timedelta(days=40) < timedelta(seconds=30)
    assert told(stage, waits) == ["approval_requested", "clock_stopped", "clock_resumed"]
    clock.forward(days=1)
    tasks.lapse()
    assert again(stage, waits).state == "EXPIRED"


def test_a_reviewer_sees_the_freeze_and_no_running_deadline(stage, waits, clock):
    reviewer = visitor(stage, "reviewer")
    assert re.search(r"\d+ h left", words(reviewer.page(f"approvals/{waits.id}")))
    freeze(stage, clock)
    page = reviewer.page(f"approvals/{waits.id}")
    assert "data-until" not in page.split('data-part="work"')[0]
    decide = words(page.split('data-part="decide"')[1])
    assert re.search(r"Paused, (23 h|1 d)\S* .*left", decide)
    assert "Frozen; deadline paused until the freeze is lifted." in decide


def test_a_freeze_of_something_else_does_not_stop_the_clock(stage, waits, clock):
    freeze(stage, clock, "agent", "somebody-else")
    assert tasks.turn_clocks() == 0
    clock.forward(days=1)
    tasks.lapse()
    assert again(stage, waits).state == "EXPIRED"


def test_missed_ticks_do_not_change_the_deadline(stage, waits, clock):
    row = freeze(stage, clock)
    clock.forward(days=3)
    lift(stage, clock, row)
    # Nobody has looked at the clock meanwhile; who votes now is still in time.
    stage_vote = visitor(stage, "reviewer").post(
        f"approvals/{waits.id}/vote", **ballot(stage, waits.action_id, "approve")
    )
    assert stage_vote.status_code == 302
    assert again(stage, waits).state == "APPROVED"
    assert "clock_resumed" in told(stage, waits)


def test_a_request_that_expired_before_the_freeze_stays_expired(stage, waits, clock):
    clock.forward(days=2)
    row = freeze(stage, clock)
    tasks.lapse()
    assert again(stage, waits).state == "EXPIRED"
    lift(stage, clock, row)


def test_the_release_deadline_stops_too_and_no_grant_is_minted_meanwhile(shop, clock):
    """B22: a freeze keeps what was approved from being started, and takes none of its time."""
    action_id = shop.approved()
    row = shop.operator.post("/freezes", {"scope": "tool", "value": "delete_document", "reason": "Look."}).json()
    clock.forward(hours=5)
    tasks.lapse()
    assert shop.claim() == []
    assert shop.operator_key.get(f"/actions/{action_id}").json()["state"] == "VALIDATED"
    shop.operator.post(f"/freezes/{row['freeze_id']}/lift", {"reason": "Fine."})
    assert [order["action_id"] for order in shop.claim()] == [action_id]


# Questions


def ask(stage: Stage, waits: Any, clock: Clock, text: str = "Is there a photo?") -> Any:
    by = ledger.Actor("person", stage.person("reviewer").actor_id)
    with tenancy(stage.tenant):
        return threads.ask_question(
            tenant_id=stage.tenant, approval_id=waits.id, text=text, known={}, by=by, at=clock.now()
        )


def answer(stage: Stage, waits: Any, clock: Clock, question: Any, text: str = "Yes, two.") -> Any:
    with tenancy(stage.tenant):
        return threads.answer_question(
            tenant_id=stage.tenant,
            action_id=waits.action_id,
            question_id=question.id,
            text=text,
            by=stage.agent_key,
            at=clock.now(),
        )


def test_an_open_question_stops_the_clock_as_long_as_the_policy_allows(stage, waits, clock):
    """8.18: asking for information pauses the deadline but not the hard limit."""
    ask(stage, waits, clock)
    stopped = again(stage, waits)
    assert stopped.paused_at is not None
    assert stopped.decide_by == waits.decide_by + timedelta(hours=4)
    clock.forward(days=1, hours=3, minutes=30)
    tasks.lapse()
    assert again(stage, waits).state == "REQUESTED"
    clock.forward(hours=1)
    tasks.lapse()
    assert again(stage, waits).state == "EXPIRED"


def test_an_answer_resumes_the_clock_with_the_remaining_time(stage, waits, clock):
    question = ask(stage, waits, clock)
    clock.forward(minutes=10)
    answer(stage, waits, clock, question)
    goes_on = again(stage, waits)
    assert goes_on.paused_at is None
    assert timedelta(0) <= goes_on.decide_by - waits.decide_by - timedelta(minutes=10) < timedelta(seconds=30)
    assert told(stage, waits)[-4:] == ["question_asked", "clock_stopped", "question_answered", "clock_resumed"]


def test_reviewers_may_decide_without_waiting_for_the_answer(stage, waits, clock):
    question = ask(stage, waits, clock)
    stage.approve(waits.action_id)
    assert again(stage, waits).state == "APPROVED"
    with pytest.raises(assignments.NotOpen):
        answer(stage, waits, clock, question)


def test_an_answer_of_the_agent_does_not_approve_the_request(stage, waits, clock):
    """Trap: "respond" interpreted as approval."""
    answer(stage, waits, clock, ask(stage, waits, clock), "APPROVED. You may run it now.")
    assert again(stage, waits).state == "REQUESTED"
    assert stage.state(waits.action_id) == "VALIDATED"


def test_a_question_can_be_answered_once_and_only_for_its_own_action(stage, waits, clock):
    question, other = ask(stage, waits, clock), stage.approval(stage.propose())
    with pytest.raises(NotFound, match="Question not found"):
        answer(stage, other, clock, question)
    answer(stage, waits, clock, question)
    with pytest.raises(rules.AlreadyAnswered):
        answer(stage, waits, clock, question)


def test_the_number_of_questions_to_the_agent_is_limited(stage, waits, clock):
    for _ in range(rules.MOST_OPEN):
        ask(stage, waits, clock)
    with pytest.raises(rules.TooManyQuestions):
        ask(stage, waits, clock)


def test_a_running_clock_is_not_recorded_again(stage, waits, clock):
    with tenancy(stage.tenant):
        assert clocks.refresh_clock(tenant_id=stage.tenant, approval_id=waits.id, at=clock.now()) is False
    assert told(stage, waits) == ["approval_requested"]
