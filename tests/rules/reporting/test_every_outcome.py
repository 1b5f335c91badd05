"""Every outcome on every surface, sentence by sentence: what stands here is what people and programs are told."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from console.web import labels
from ledger.record.rules.lifecycle import State
from ledger.record.rules.outcomes import Outcome
from reviews.reconciliation.rules.shown import Shown
from reviews.reporting.rules.context import ReportedAction, SessionScene
from reviews.reporting.rules.facts import Authorization, Facts, Permission, Word
from reviews.reporting.rules.report import StatusReport, build_report
from reviews.reporting.rules.sentences import axes, headline
from reviews.reporting.rules.summary import build_summary
from tests.rules.reporting.test_report import in_state
from tests.support.pure.facts import attempt, doubt, facts_in, reading
from tests.support.pure.histories import START


def word(discrepancy: str = "") -> Word:
    return Word(seq=7, discrepancy=discrepancy, by="p-1", second="", at=START)


def decided(how: Permission) -> dict[str, Any]:
    return {"authorization": Authorization(how=how, seqs=(2,))}


def ended(how: Permission, kind: str) -> Facts:
    return facts_in(State.FAILED, reached_by=kind, attempts=(), readings=(), **decided(how))


def by_word(state: State, kind: str, **more: Any) -> Facts:
    return facts_in(state, **{"reached_by": kind, "word": word(), "readings": ()} | more)


NO_OP = {"discrepancy": "NO_OP_SUCCESS", "readings": (reading(Shown.AS_REQUESTED, "NO_OP_SUCCESS"),)}
TEN = (reading(Shown.DIFFERENT, "VALUE_MISMATCH", difference="quantity 10 instead of 1"),)
FACTS: dict[str, Facts] = {
    "PROPOSED": facts_in(State.PROPOSED, **decided(Permission.UNCHECKED)),
    "WAITING_FOR_APPROVAL": facts_in(State.VALIDATED, reached_by="validated", **decided(Permission.WAITING)),
    "READY": facts_in(State.VALIDATED, **decided(Permission.NOT_NEEDED)),
    "APPROVED": facts_in(State.VALIDATED),
    "EXECUTING": facts_in(State.EXECUTING, attempts=(attempt(),)),
    "VERIFYING": facts_in(State.PENDING),
    "VERIFIED": facts_in(State.RECONCILED_SUCCESS),
    "UNCHANGED": facts_in(State.RECONCILED_SUCCESS, **NO_OP),
    "ANSWERED": facts_in(State.RECONCILED_SUCCESS, reached_by="answered", side_effect_class="READ_ONLY", readings=()),
    "ATTESTED": by_word(State.RECONCILED_SUCCESS, "attested_present"),
    "ACCEPTED_AS_IT_IS": by_word(
        State.RECONCILED_SUCCESS, "accepted_as_it_is", word=word("VALUE_MISMATCH"), readings=TEN
    ),
    "ATTESTED_ABSENT": by_word(State.FAILED, "attested_absent"),
    "PARTIALLY_APPLIED": facts_in(State.PARTIALLY_COMMITTED),
    "COMPENSATING": facts_in(State.COMPENSATING),
    "ROLLING_BACK": facts_in(State.RECONCILIATION_FAILED),
    "RECOVERING": facts_in(State.FORWARD_RECOVERY),
    "COMPENSATED": facts_in(State.COMPENSATED),
    "COMPENSATED_AS_ATTESTED": by_word(State.COMPENSATED, "attested_absent", reversal=None),
    "ROLLED_BACK": facts_in(State.ROLLED_BACK),
    "UNKNOWN": facts_in(State.UNKNOWN, attempts=(attempt(silent=4),), readings=()),
    "NEEDS_REVIEW": facts_in(State.REVIEW_REQUIRED),
    "CONTRADICTED": facts_in(State.RECONCILED_SUCCESS, doubt=doubt()),
    "REJECTED": ended(Permission.REJECTED, "rejected"),
    "CHANGES_REQUESTED": ended(Permission.CHANGES_REQUESTED, "changes_requested"),
    "REPLACED": ended(Permission.REPLACED, "superseded"),
    "EXPIRED": ended(Permission.EXPIRED, "approval_expired"),
    "BLOCKED": ended(Permission.BLOCKED, "validation_failed"),
    "CANCELLED": ended(Permission.CANCELLED, "cancelled"),
    "FAILED": facts_in(State.FAILED),
    "SETTLED_AS_FAILED": by_word(State.FAILED, "failed_by_review"),
    "CLOSED_UNRESOLVED": facts_in(State.ABANDONED, reached_by="abandoned", word=word()),
}

# Badge, list and CSV; headline; the three axes; the report's text; its code, `completed`, the planner's result, and the
# line of a session's summary that it stands in.
TOLD: dict[str, tuple[str, str, str, str, tuple[str, bool, str, str]]] = {
    "PROPOSED": (
        "Proposed",
        "Being checked",
        "Being checked by the gate | Not started | Not read yet",
        "Not executed. Nothing has been attempted.",
        ("NOT_EXECUTED", False, "NOT_STARTED", "Pending"),
    ),
    "WAITING_FOR_APPROVAL": (
        "Waiting for approval",
        "Waiting for approval",
        "Waiting for approval | Not started | Not read yet",
        "Not executed. Nothing has been attempted.",
        ("NOT_EXECUTED", False, "NOT_STARTED", "Pending"),
    ),
    "READY": (
        "Ready to run",
        "Ready to run",
        "No approval needed | Not started | Not read yet",
        "Not executed. Nothing has been attempted.",
        ("NOT_EXECUTED", False, "NOT_STARTED", "Pending"),
    ),
    "APPROVED": (
        "Approved, ready to run",
        "Ready to run",
        "Approved | Not started | Not read yet",
        "Not executed. Nothing has been attempted.",
        ("NOT_EXECUTED", False, "NOT_STARTED", "Pending"),
    ),
    "EXECUTING": (
        "Executing",
        "Executing",
        "Approved | Started; no answer yet | Not read yet",
        "Attempted. What came of it is not known yet.",
        ("ATTEMPTED_RESULT_UNKNOWN", False, "PENDING", "Pending"),
    ),
    "VERIFYING": (
        "Verifying",
        "Verifying",
        "Approved | Reported success (unverified) | Verifying",
        "The tool has answered. Whether it is so is still being checked.",
        ("RESPONSE_RECEIVED_VERIFICATION_PENDING", False, "PENDING", "Pending"),
    ),
    "VERIFIED": (
        "Verified",
        "Verified",
        "Approved | Reported success (unverified) | Confirmed",
        "Done, and confirmed in the system of record.",
        ("COMPLETED", True, "SUCCESS", "Completed so far"),
    ),
    "UNCHANGED": (
        "No change needed",
        "No change needed",
        "Approved | Reported success (unverified) | As requested before it ran; changed nothing",
        "No change was needed: the system of record was as requested before the action ran, and still is.",
        ("COMPLETED", True, "SUCCESS", "Completed so far"),
    ),
    "ANSWERED": (
        "Answered",
        "Answered",
        "Approved | Reported success (unverified) | Read; changes nothing",
        "Read; changes nothing.",
        ("ANSWERED", False, "ANSWERED", "Completed so far: nothing. Read"),
    ),
    "ATTESTED": (
        "Attested (not verified)",
        "Attested by a person: it took effect; no reading",
        "Approved | Reported success (unverified) | Attested by a person, no reading",
        "A person has attested that it took effect; it was not verified by a reading.",
        ("ATTESTED", False, "ATTESTED", "Completed so far: nothing. Attested by people, not verified"),
    ),
    "ACCEPTED_AS_IT_IS": (
        "Accepted (not as requested)",
        "Accepted as it is by a person: quantity 10 instead of 1",
        "Approved | Reported success (unverified) | Accepted by a person: quantity 10 instead of 1",
        "Not as requested: the system of record shows quantity 10 instead of 1. A person has accepted this.",
        ("ACCEPTED_AS_IT_IS", False, "ACCEPTED_AS_IT_IS", "Not fully completed"),
    ),
    "ATTESTED_ABSENT": (
        "Attested as not done (not verified)",
        "Attested by a person: nothing happened; no reading",
        "Approved | Reported success (unverified) | No effect, attested by a person, no reading",
        "A person has attested that nothing happened; it was not verified by a reading.",
        ("FAILED", False, "FAILURE", "Failures"),
    ),
    "PARTIALLY_APPLIED": (
        "Partially applied",
        "Partially applied",
        "Approved | Reported success (unverified) | In part",
        "Done in part; which parts is not on record.",
        ("PARTIALLY_COMPLETED", False, "PARTIAL_SUCCESS", "Not fully completed"),
    ),
    "COMPENSATING": (
        "Compensating",
        "Compensating: values differ from the request",
        "Approved | Reported success (unverified) | Being reversed",
        "It did not go as planned.",
        ("RECOVERY_IN_PROGRESS", False, "RECOVERING", "Not fully completed"),
    ),
    "ROLLING_BACK": (
        "Rolling back",
        "Rolling back: values differ from the request",
        "Approved | Reported success (unverified) | Values differ from the request",
        "Failed. No completion was confirmed.",
        ("FAILED", False, "RECOVERING", "Not fully completed"),
    ),
    "RECOVERING": (
        "Recovering",
        "Partially applied, recovering",
        "Approved | Reported success (unverified) | In part",
        "Done in part; which parts is not on record.",
        ("PARTIALLY_COMPLETED", False, "RECOVERING", "Not fully completed"),
    ),
    "COMPENSATED": (
        "Compensated",
        "Compensated",
        "Approved | Reported success (unverified) | Reversed",
        "It was done and then reversed; the reversal is confirmed.",
        ("COMPENSATED", False, "COMPENSATED", "Not fully completed"),
    ),
    "COMPENSATED_AS_ATTESTED": (
        "Compensated (attested, not verified)",
        "Reversed, as a person has attested; not verified by a reading",
        "Approved | Reported success (unverified) | Reversal attested by a person, not verified",
        "It was reversed, as a person has attested; no reading verified all of that.",
        ("COMPENSATED", False, "COMPENSATED", "Not fully completed"),
    ),
    "ROLLED_BACK": (
        "Rolled back",
        "Rolled back, no effect is there",
        "Approved | Reported success (unverified) | Rolled back",
        "Rolled back; the system of record shows no effect.",
        ("ROLLED_BACK", False, "ROLLED_BACK", "Not fully completed"),
    ),
    "UNKNOWN": (
        "Unknown",
        "Unknown",
        "Approved | Started; the executor never answered | Not known",
        "The final state is not known. It must be reviewed before anything is tried again.",
        ("FINAL_STATE_UNKNOWN", False, "UNKNOWN", "Unknown"),
    ),
    "NEEDS_REVIEW": (
        "Needs review",
        "Needs review: nothing changed",
        "Approved | Reported success (unverified) | Nothing changed",
        "Not settled. It waits for a person to review it.",
        ("REVIEW_REQUIRED", False, "REVIEW_REQUIRED", "Pending"),
    ),
    "CONTRADICTED": (
        "Contradicted",
        "Settled, then contradicted by a later reading: outcome unknown",
        "Approved | Reported success (unverified) | Contradicted by a later reading",
        "It was settled, but a later reading of the system of record contradicts that. The final state is not known.",
        ("FINAL_STATE_UNKNOWN", False, "UNKNOWN", "Unknown"),
    ),
    "REJECTED": (
        "Rejected",
        "Rejected: not executed",
        "Rejected | Not started | Nothing was executed",
        "Not executed. Nothing has been attempted.",
        ("NOT_EXECUTED", False, "FAILURE", "Failures: none known. Ended before a start"),
    ),
    "CHANGES_REQUESTED": (
        "Changes requested",
        "Changes requested: not executed",
        "Changes requested | Not started | Nothing was executed",
        "Not executed. Nothing has been attempted.",
        ("NOT_EXECUTED", False, "FAILURE", "Failures: none known. Ended before a start"),
    ),
    "REPLACED": (
        "Replaced",
        "Replaced by another version: not executed",
        "Replaced by another version | Not started | Nothing was executed",
        "Not executed. Nothing has been attempted.",
        ("NOT_EXECUTED", False, "FAILURE", "Failures: none known. Ended before a start"),
    ),
    "EXPIRED": (
        "Expired",
        "Approval expired: not executed",
        "Approval expired | Not started | Nothing was executed",
        "Not executed. Nothing has been attempted.",
        ("NOT_EXECUTED", False, "FAILURE", "Failures: none known. Ended before a start"),
    ),
    "BLOCKED": (
        "Blocked by the gate",
        "Blocked by the gate: not executed",
        "Blocked by the gate | Not started | Nothing was executed",
        "Not executed. Nothing has been attempted.",
        ("NOT_EXECUTED", False, "FAILURE", "Failures: none known. Ended before a start"),
    ),
    "CANCELLED": (
        "Cancelled",
        "Cancelled: not executed",
        "Cancelled | Not started | Nothing was executed",
        "Not executed. Nothing has been attempted.",
        ("NOT_EXECUTED", False, "FAILURE", "Failures: none known. Ended before a start"),
    ),
    "FAILED": (
        "Failed",
        "Failed",
        "Approved | Reported success (unverified) | No effect, confirmed",
        "Failed. The system of record shows that nothing happened.",
        ("FAILED", False, "FAILURE", "Failures"),
    ),
    "SETTLED_AS_FAILED": (
        "Settled as failed",
        "Settled as failed by a person; no reading",
        "Approved | Reported success (unverified) | Settled by a person, no reading",
        "A person settled it as failed; it was not verified by a reading.",
        ("FAILED", False, "FAILURE", "Failures"),
    ),
    "CLOSED_UNRESOLVED": (
        "Closed unresolved",
        "Closed unresolved: nothing changed",
        "Approved | Reported success (unverified) | Closed by a person, unresolved",
        "A person stopped it. What was found wrong is on record and unresolved.",
        ("ABANDONED_UNRESOLVED", False, "ABANDONED", "Not fully completed"),
    ),
}


def report_on(facts: Facts) -> StatusReport:
    entry = in_state(facts.state, execution=None if facts.attempts else "NOT_EXECUTED")
    entry["side_effect_class"] = facts.side_effect_class
    if not facts.readings:
        entry["verification"]["verified_state_pointer"] = None
    if facts.answer is None:
        entry["execution"]["observation_pointer"] = None
    return build_report(facts, entry, trust_level=4)


@pytest.mark.req("R-RI-01", "R-RI-09", "R-RI-10")
@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_is_told_in_the_same_sense_on_every_surface(outcome: Outcome) -> None:
    facts = FACTS[outcome]
    shown, told = axes(facts), report_on(facts)
    item = ReportedAction(
        action_id="a-1",
        tool="refund",
        target="order/1",
        state=facts.state,
        report=told,
        as_of=START + timedelta(days=1),
        contradicted=facts.contradicted,
        discrepancy=facts.discrepancy,
    )
    [line] = [each for each in build_summary([item], SessionScene()).lines if "refund on order/1" in each]
    badge, head, sides, text, (code, completed, result, title) = TOLD[outcome]
    assert facts.outcome is outcome
    assert (labels.outcome_label(facts), headline(facts).text, told.text) == (badge, head, text)
    assert " | ".join((shown.decision.text, shown.execution.text, shown.effect.text)) == sides
    assert (told.code, told.completed, item.result) == (code, completed, result)
    assert line == f"{title}: refund on order/1: {text}"


def test_no_two_outcomes_are_told_alike() -> None:
    """But those that wait for an executor, with and without an approval, have one headline."""
    assert set(TOLD) == set(FACTS) == set(Outcome)
    assert len({badge for badge, *_ in TOLD.values()}) == len(TOLD)
    assert {name for name, (*_, (_, completed, _, _)) in TOLD.items() if completed} == {"VERIFIED", "UNCHANGED"}
