"""The writes about actions, runs, freezes, and the work on approvals."""

from __future__ import annotations

from tests.support.probes import Day
from tests.web.writes.write import REASON, Ids, Write, post

LINE = {"text": "Does anybody link to it?"}


def _approval(day: Day, *steps: str) -> Ids:
    """An approval that somebody asked for, after these steps by a reviewer."""
    ids = {"approval_id": str(day.shop.approval_of(day.shop.propose(path="old/asked.md"))["approval_id"])}
    for step in steps:
        assert day.own["reviewer"].post(f"/approvals/{ids['approval_id']}/{step}").status_code == 200
    return ids


def _reviewer(day: Day) -> str:
    everybody = day.own["administrator"].get("/members").json()["items"]
    return str(next(each["actor"] for each in everybody if each["email"] == "p-reviewer@orchid"))


ASSIGNMENT = (
    Write(
        operation="approvals_assignment_claim",
        path="/approvals/{approval_id}/claim",
        page="approval-claim",
        events=("approval_claimed",),
        said="",
        begin=_approval,
    ),
    Write(
        operation="approvals_assignment_release",
        path="/approvals/{approval_id}/release",
        page="approval-release",
        events=("approval_released",),
        said="",
        begin=lambda day: _approval(day, "claim"),
    ),
    Write(
        operation="approvals_assignment_assign",
        path="/approvals/{approval_id}/assign",
        page="approval-assign",
        events=("approval_assigned",),
        said="Assigned to P-Reviewer.",
        begin=_approval,
        body={"to": _reviewer},
        form={"to": _reviewer},
    ),
    Write(
        operation="approvals_assignment_comment",
        path="/approvals/{approval_id}/comments",
        page="approval-comment",
        events=("commented",),
        said="",
        begin=_approval,
        body=LINE,
        form=LINE,
        faults=({}, {"text": "t" * 4001}),
    ),
    Write(
        operation="approvals_assignment_ask",
        path="/approvals/{approval_id}/questions",
        page="approval-ask",
        events=("question_asked", "clock_stopped"),
        said="",
        begin=_approval,
        body=LINE,
        form=LINE,
        faults=({}, {"text": "t" * 4001}),
    ),
)


def _emergency(day: Day) -> Ids:
    """An action that an operator let through alone."""
    rule = {"enabled": True, "step_up": "C", "reviewers": 1}
    day.shop.operator_key.release("approval", {"version": "fire", "document": {"break_glass": rule}})
    approval = day.shop.approval_of(day.shop.propose(path="old/on-fire.md"))
    answer = day.shop.vote(approval, day.shop.operator, verdict="break_glass", reason="It is on fire.")
    assert answer.status_code == 201, answer.content
    used = day.own["reviewer"].get("/emergencies").json()["items"][0]
    return {"emergency_id": used["emergency_id"]}


FINDING = {"finding": "justified", "reason": "It was on fire."}
BREAK_GLASS = (
    Write(
        operation="break_glass_review",
        path="/emergencies/{emergency_id}/reviews",
        page="emergency-review",
        events=("break_glass_reviewed",),
        said="Recorded: your review of this use of break-glass.",
        begin=_emergency,
        body=FINDING,
        form=FINDING,
        faults=({}, {"finding": "justified", "reason": ""}, {"finding": "neither", "reason": "r" * 4001}),
    ),
)


def _freeze(day: Day) -> Ids:
    freeze = {"scope": "tool", "value": "write_document", "reason": "Something is wrong with it."}
    return post(day, "/freezes", freeze, "freeze_id")


FREEZES = (
    Write(
        operation="approvals_lift",
        path="/freezes/{freeze_id}/lift",
        page="freeze-lift",
        events=("freeze_lifted",),
        said="Lifted. New actions can start again. No related case or incident is open.",
        begin=_freeze,
        body=REASON,
        form=REASON,
        faults=({}, {"reason": "r" * 4001}),
    ),
)


def _action(day: Day) -> Ids:
    return {"action_id": day.shop.propose(path="old/unwanted.md")}


def _run(day: Day) -> Ids:
    action = day.shop.propose(path="old/unwanted.md")
    return {"run_id": day.own["audit"].get(f"/actions/{action}").json()["entry"]["workflow_run_id"]}


ACTIONS = (
    Write(
        operation="actions_cancel",
        path="/actions/{action_id}/cancel",
        page="action-cancel",
        events=("cancelled", "approval_voided"),
        said="Action cancelled. Nothing was executed.",
        begin=_action,
        body=REASON,
        form=REASON,
        faults=({}, {"reason": "r" * 4001}),
    ),
    Write(
        operation="workflows_cancel_run",
        path="/runs/{run_id}/cancel",
        page="run-cancel",
        events=("unwinding_began",),
        said="Rollback started. New steps are blocked in this run.",
        makes=True,
        begin=_run,
        body=REASON,
        form=REASON,
        faults=({}, {"reason": "r" * 4001}),
    ),
)
