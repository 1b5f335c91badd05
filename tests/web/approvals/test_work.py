"""Who looks after an approval: claims that lock nobody out, assignments, reminders and escalation."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from approvals import tasks
from approvals.requests.operations import assignment, threads
from approvals.requests.queries import approvals, deadlines
from approvals.requests.rules import assignments
from ledger.catalogue.operations import registration
from ledger.db import tenancy
from ledger.record import operations as ledger
from ledger.record.queries import events
from tests.support.api_tenant import Clock, Workshop
from tests.support.callers import key_for, put_in_force
from tests.support.scenes import Stage, now


@pytest.fixture
def waits(stage: Stage) -> Any:
    return stage.approval(stage.propose())


def person(stage: Stage, name: str) -> ledger.Actor:
    return ledger.Actor("person", stage.person("reviewer", name=f"{name}@{stage.slug}").actor_id)


def claim(stage: Stage, waits: Any, clock: Clock, by: ledger.Actor) -> Any:
    with tenancy(stage.tenant):
        return assignment.claim_approval(tenant_id=stage.tenant, approval_id=waits.id, by=by, at=clock.now())


def again(stage: Stage, waits: Any) -> Any:
    with tenancy(stage.tenant):
        return approvals.approval(stage.tenant, waits.id)


def details(stage: Stage, waits: Any, kind: str) -> list[dict[str, Any]]:
    with tenancy(stage.tenant):
        return [detail for event, _, detail in events.history(stage.tenant, waits.id) if event.kind == kind]


# Claims


def test_a_claim_is_recorded_and_expires(stage, waits, clock):
    mara = person(stage, "mara")
    claim(stage, waits, clock, mara)
    held = again(stage, waits)
    assert assignments.active_claim(held.claimed_by, held.claimed_until, at=clock.now()).by == mara.id
    clock.forward(minutes=31)
    assert assignments.active_claim(held.claimed_by, held.claimed_until, at=clock.now()) is None
    assert len(details(stage, waits, "approval_claimed")) == 1


def test_a_claim_does_not_prevent_votes_of_others(stage, waits, clock):
    claim(stage, waits, clock, person(stage, "mara"))
    stage.approve(waits.action_id)
    assert again(stage, waits).state == "APPROVED"


def test_taking_over_a_claim_is_recorded_with_its_former_holder(stage, waits, clock):
    mara, paul = person(stage, "mara"), person(stage, "paul")
    claim(stage, waits, clock, mara)
    claim(stage, waits, clock, paul)
    assert again(stage, waits).claimed_by == paul.id
    assert [said["from"] for said in details(stage, waits, "approval_claimed")] == [None, str(mara.id)]


def test_only_its_holder_can_release_a_claim(stage, waits, clock):
    mara, paul = person(stage, "mara"), person(stage, "paul")
    claim(stage, waits, clock, mara)
    with tenancy(stage.tenant), pytest.raises(assignments.NotClaimed):
        assignment.release_claim(tenant_id=stage.tenant, approval_id=waits.id, by=paul, at=clock.now())
    with tenancy(stage.tenant):
        assignment.release_claim(tenant_id=stage.tenant, approval_id=waits.id, by=mara, at=clock.now())
    assert again(stage, waits).claimed_by is None


def test_a_decided_approval_cannot_be_claimed(stage, waits, clock):
    stage.approve(waits.action_id)
    with pytest.raises(assignments.NotOpen):
        claim(stage, waits, clock, person(stage, "mara"))


# Assignment


def assign(stage: Stage, waits: Any, clock: Clock, to: UUID, among: list[UUID]) -> None:
    with tenancy(stage.tenant):
        assignment.assign_approval(
            tenant_id=stage.tenant, approval_id=waits.id, to=to, among=among, by=ledger.SYSTEM, at=clock.now()
        )


def test_an_approval_is_assigned_only_to_an_eligible_person(stage, waits, clock):
    mara = person(stage, "mara")
    with pytest.raises(assignments.AssigneeNotEligible):
        assign(stage, waits, clock, uuid4(), [mara.id])
    assign(stage, waits, clock, mara.id, [mara.id])
    assert again(stage, waits).assigned_to == mara.id
    assert details(stage, waits, "approval_assigned") == [{"to": str(mara.id), "from": None}]


def test_the_least_loaded_reviewer_is_suggested(stage, waits, clock):
    mara, paul = person(stage, "mara"), person(stage, "paul")
    with tenancy(stage.tenant):
        assert assignment.suggest_assignee(stage.tenant, [mara.id, paul.id], at=clock.now()) == mara.id
    assign(stage, waits, clock, mara.id, [mara.id])
    claim(stage, stage.approval(stage.propose()), clock, mara)
    claim(stage, stage.approval(stage.propose()), clock, paul)
    with tenancy(stage.tenant):
        assert approvals.workload(stage.tenant, at=clock.now()) == {mara.id: 2, paul.id: 1}
        assert assignment.suggest_assignee(stage.tenant, [mara.id, paul.id], at=clock.now()) == paul.id


# Threads


def test_comments_are_recorded_with_their_mentions(stage, waits, clock):
    mara, paul = person(stage, "mara"), person(stage, "paul")
    with tenancy(stage.tenant):
        row = threads.add_comment(
            tenant_id=stage.tenant,
            approval_id=waits.id,
            text="@paul, is this the same lamp?",
            known={"paul": paul.id},
            by=mara,
            at=clock.now(),
        )
    assert details(stage, waits, "commented") == [{"comment_id": str(row.id), "text": row.text}]
    assert details(stage, waits, "mentioned") == [{"comment_id": str(row.id), "actors": [str(paul.id)]}]


# Reminders and escalation


def pacing(stage: Stage, **document: Any) -> None:
    held = {"version": "2", "decide_within_s": 3600} | document
    with tenancy(stage.tenant):
        put_in_force(stage.tenant, "approval", "2", held, at=now())


def lapsed(clock: Clock, **amount: float) -> None:
    clock.forward(**amount)
    tasks.lapse()


def test_reviewers_are_reminded_once_before_the_deadline(stage, clock):
    pacing(stage, remind_before_s=600)
    waits = stage.approval(stage.propose())
    lapsed(clock, minutes=40)
    assert details(stage, waits, "approval_reminded") == []
    lapsed(clock, minutes=12)
    lapsed(clock, minutes=1)
    assert len(details(stage, waits, "approval_reminded")) == 1
    assert again(stage, waits).reminded_at is not None
    lapsed(clock, minutes=10)
    assert again(stage, waits).state == "EXPIRED"


def test_an_undecided_approval_is_escalated_and_then_recorded_as_overdue(stage, clock):
    """8.15: the breach of the last step is recorded; nothing is approved or denied by it."""
    pacing(stage, escalate_after_s=900, escalate_to="duty")
    waits = stage.approval(stage.propose())
    lapsed(clock, minutes=16)
    assert [said["to"] for said in details(stage, waits, "approval_escalated")] == ["duty"]
    assert again(stage, waits).escalated_at is not None
    lapsed(clock, minutes=16)
    assert len(details(stage, waits, "approval_overdue")) == 1
    assert again(stage, waits).state == "REQUESTED"
    stage.approve(waits.action_id)
    assert again(stage, waits).state == "APPROVED"


def test_decided_or_paused_approvals_cause_no_reminder(stage, clock):
    pacing(stage, remind_before_s=600, escalate_after_s=900, escalate_to="duty")
    decided, frozen = (stage.approval(stage.propose()) for _ in range(2))
    stage.approve(decided.action_id)
    with tenancy(stage.tenant):
        registration.place_freeze(
            tenant_id=stage.tenant,
            scope="tool",
            value="issue_refund",
            reason="Look.",
            actor=ledger.SYSTEM,
            at=clock.now(),
        )
    lapsed(clock, minutes=55)
    for waits in (decided, frozen):
        assert details(stage, waits, "approval_reminded") + details(stage, waits, "approval_escalated") == []
    assert again(stage, frozen).state == "REQUESTED"


def test_the_remaining_time_starts_when_approval_was_requested(stage, clock):
    waits = stage.approval(stage.propose())
    with tenancy(stage.tenant):
        read = deadlines.clock_of(waits, at=waits.requested_at + timedelta(hours=1))
    assert (read.ran, read.ends_at) == (timedelta(hours=1), waits.decide_by)


# Over HTTP


def asked(shop: Workshop) -> tuple[str, str, str]:
    """An action that waits, its approval, and the question that somebody put to its agent."""
    action = shop.propose()
    approval = shop.approval_of(action)["approval_id"]
    answer = shop.reviewer.post(f"/approvals/{approval}/questions", {"text": "Does anybody link to it?"})
    assert answer.status_code == 201, answer.content
    return action, approval, answer.json()["line_id"]


def test_the_agent_finds_a_question_with_its_action_and_its_session(shop):
    action, _, question = asked(shop)
    shown = shop.agent.get(f"/actions/{action}").json()
    assert [(one["question_id"], one["text"]) for one in shown["questions"]] == [(question, "Does anybody link to it?")]
    session = shop.agent.get(f"/sessions/{shown['session_id']}").json()
    assert session["questions"] == shown["questions"]
    body = {"question_id": question, "text": "No page links to it."}
    assert shop.agent.post(f"/actions/{action}/answers", body).status_code == 201
    assert shop.agent.get(f"/actions/{action}").json()["questions"] == []
    assert shop.agent.get(f"/sessions/{shown['session_id']}").json()["questions"] == []


def test_the_thread_names_the_author_of_each_line(shop):
    action, approval, question = asked(shop)
    shop.agent.post(f"/actions/{action}/answers", {"question_id": question, "text": "<b>Approved.</b>"})
    lines = shop.reviewer.get(f"/approvals/{approval}/thread").json()["items"]
    assert [(one["kind"], one["author_kind"]) for one in lines] == [("question", "person"), ("answer", "agent")]
    assert lines[1]["answers"] == question


def test_the_key_of_another_agent_can_neither_read_nor_answer(shop):
    action, _, question = asked(shop)
    other = key_for(shop.tenant, "agent")
    assert other.get(f"/actions/{action}").status_code == 404
    answer = other.post(f"/actions/{action}/answers", {"question_id": question, "text": "Yes."})
    assert answer.status_code == 404


def test_an_answer_that_is_too_long_is_refused(shop):
    action, _, question = asked(shop)
    answer = shop.agent.post(f"/actions/{action}/answers", {"question_id": question, "text": "x" * 2001})
    assert answer.status_code == 422


def test_an_agent_key_cannot_claim_assign_or_ask(shop):
    approval = shop.approval_of(shop.propose())["approval_id"]
    for step in ("claim", "release", "assign", "comments", "questions"):
        assert shop.agent.post(f"/approvals/{approval}/{step}", {"text": "I approve."}).status_code in (403, 422)
    assert shop.agent.get(f"/approvals/{approval}/thread").status_code == 403


def test_an_assignment_without_a_name_goes_to_the_least_loaded_reviewer(shop):
    approval = shop.approval_of(shop.propose())["approval_id"]
    given = shop.operator.post(f"/approvals/{approval}/assign").json()["assigned_to"]
    assert given == shop.reviewer.post(f"/approvals/{approval}/claim").json()["claimed_by"]
    nobody = shop.operator.post(f"/approvals/{approval}/assign", {"to": str(uuid4())})
    assert (nobody.status_code, nobody.json()["code"]) == (422, "NOT_ELIGIBLE")
