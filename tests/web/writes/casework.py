"""The writes about cases and their batches."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from django.utils import timezone

from tests.support import settling
from tests.support.probes import Day
from tests.web.writes.write import REASON, Ids, Write, post


def _open_case(day: Day, reason: str) -> Ids:
    found = day.own["operator"].get("/reviews").json()["items"]
    return {"case_id": next(each["case_id"] for each in found if each["reason"] == reason)}


def _case(day: Day, *steps: str) -> Ids:
    """A case that nobody works on, after these steps by an operator."""
    operator, ids = day.own["operator"], _open_case(day, "TAKEN_UP")
    for step in steps:
        body = {"until": _in_hours(4), "reason": "The owner is asleep."} if step == "snooze" else {}
        assert operator.post(f"/reviews/{ids['case_id']}/{step}", body).status_code == 200
    return ids


def _in_hours(hours: int) -> str:
    return (timezone.now() + timedelta(hours=hours)).isoformat()


def _settled_case(day: Day) -> Ids:
    ids = _open_case(day, "REOPENED")
    operator, reviewer = day.own["operator"].again(), day.own["reviewer"].again()
    settling.settle(operator, ids["case_id"], resolution="ATTEST_ABSENT", reason="I looked.", evidence=["It is gone."])
    settling.confirm(reviewer, ids["case_id"])
    return ids


def _operator(day: Day) -> str:
    everybody = day.own["administrator"].get("/members").json()["items"]
    return str(next(each["actor"] for each in everybody if each["email"] == "p-operator@orchid"))


COMMENT = {"text": "I asked the owner."}
CASEWORK = (
    Write(
        operation="approvals_claim_case",
        path="/reviews/{case_id}/claim",
        page="case-claim",
        events=("case_claimed",),
        said="",
        begin=_case,
    ),
    Write(
        operation="approvals_release_case",
        path="/reviews/{case_id}/release",
        page="case-release",
        events=("case_released",),
        said="",
        begin=lambda day: _case(day, "claim"),
    ),
    Write(
        operation="approvals_comment",
        path="/reviews/{case_id}/comments",
        page="case-comment",
        events=("commented",),
        said="",
        begin=_case,
        body=COMMENT,
        form=COMMENT,
        faults=({}, {"text": "t" * 4001}),
    ),
    Write(
        operation="cases_assign",
        path="/reviews/{case_id}/assign",
        page="case-assign",
        events=("case_assigned",),
        said="Assigned to P-Operator.",
        begin=_case,
        body={"to": _operator},
        form={"to": _operator},
        faults=({}, {"to": "somebody"}),
    ),
    Write(
        operation="cases_snooze",
        path="/reviews/{case_id}/snooze",
        page="case-snooze",
        events=("case_snoozed",),
        said="Snoozed. It returns automatically.",
        begin=_case,
        body={"until": lambda day: _in_hours(4), "reason": "The owner is asleep."},
        form={"hours": "4", "reason": "The owner is asleep."},
        faults=({}, {"hours": "4"}, {"hours": "5", "reason": "The owner is asleep."}),
    ),
    Write(
        operation="cases_wake",
        path="/reviews/{case_id}/wake",
        page="case-wake",
        events=("case_woken",),
        said="",
        begin=lambda day: _case(day, "snooze"),
    ),
    Write(
        operation="cases_reopen",
        path="/reviews/{case_id}/reopen",
        page="case-reopen",
        events=("case_reopened",),
        said="Reopened. Until it is resolved again, the action is not reported as completed.",
        begin=_settled_case,
        body=REASON,
        form=REASON,
        faults=({}, {"reason": "r" * 4001}),
    ),
)


def _batch(day: Day, *steps: str) -> Ids:
    """A batch, after these steps by whoever started it."""
    operator, cases = day.own["operator"], [_case(day)["case_id"]]
    ids = post(day, "/batches", {"kind": "COMMENT", "cases": cases, "text": "We look."}, "batch_id", operator)
    for step in steps:
        assert operator.post(f"/batches/{ids['batch_id']}/{step}").status_code == 200
    return ids


def _claim(day: Day) -> Ids:
    body = {
        "system": "documents",
        "effect": "deletion",
        "lookup": {"path": "'policies/returns.md'", "expect": "absent"},
        "said_by": "a night job",
        "wait_s": 0,
    }
    return post(day, "/verify", body, "claim_id", day.own["operator"])


CLAIMS = (
    Write(
        operation="claims_read_again",
        path="/claims/{claim_id}/verify",
        page="claim-read",
        events=("claim_reading_ordered",),
        said="The claim is read again now.",
        begin=_claim,
    ),
)


def _turn(step: str, event: str, begin: Callable[[Day], Ids]) -> Write:
    return Write(
        operation=f"cases_batches_{step}",
        path=f"/batches/{{batch_id}}/{step}",
        page="batch-turn",
        events=(event,),
        said="",
        begin=begin,
        form={"to": step},
    )


BATCHES = (
    _turn("pause", "batch_paused", _batch),
    _turn("resume", "batch_resumed", lambda day: _batch(day, "pause")),
    _turn("cancel", "batch_cancelled", _batch),
)
