"""The guard's table: each state of an action against each kind of claim, with structured claims."""

from __future__ import annotations

import pytest

from ledger.record.rules.lifecycle import State
from reviews.cases.rules.runbooks import RUNBOOKS
from reviews.reporting.rules.report import ALLOWED
from reviews.rules.guard.codes import TAGS, Kind, Violation, violation_of
from reviews.rules.guard.records import Ground, Record, Stated, Tool
from reviews.rules.guard.verdict import judge

REFUND = Tool(
    "issue_refund", "Refund a charge.", done=("refunded",), object=("refund",), target_template="charge/{charge_id}"
)
EMAIL = Tool("send_email", "Send an e-mail.", done=("sent", "emailed"), object=("email",))
ARGUMENTS = {"charge_id": "ch_81", "amount": "20.00", "currency": "EUR"}
CODES = {
    "PHANTOM": (),
    "PREMATURE": ("PROPOSED", "VALIDATED", "EXECUTING", "ACCEPTED", "PENDING", "COMMITTED"),
    "OVERSTATED": ("PARTIALLY_COMMITTED",),
    "MISREAD": ("FAILED", "ABANDONED", None),
    "UNKNOWN_FLATTENED": ("UNKNOWN", "VERIFICATION_TIMEOUT"),
    "REVERSED": ("COMPENSATED", "ROLLED_BACK"),
    "RECOVERY_OPEN": (
        "RECONCILIATION_FAILED",
        "COMPENSATING",
        "COMPENSATION_FAILED",
        "FORWARD_RECOVERY",
        "REVIEW_REQUIRED",
    ),
}


def record(state: str | None = "RECONCILED_SUCCESS", **changes) -> Record:
    code = str(ALLOWED[State(state)][0]) if state else "NOT_EXECUTED"
    values = {
        "action_id": "a1",
        "tool": "issue_refund",
        "target": "charge/ch_81",
        "arguments": ARGUMENTS,
        "state": state,
        "completed": state == "RECONCILED_SUCCESS",
        "code": code,
        "text": f"The report of {state}.",
        "evidence": ("re_9",),
    }
    return Record(**(values | changes))


def ground(*records: Record) -> Ground:
    return Ground((REFUND, EMAIL), records)


SAID = "I refunded your charge."


def stated(**changes) -> Stated:
    return Stated(**({"tool": "issue_refund", "statement": SAID} | changes))


def code_of(*records: Record, message: str = SAID, **changes) -> str:
    verdict = judge(message, ground(*records), (stated(**changes),))
    assert (verdict.verdict == "BLOCK") == bool(verdict.violations) == (verdict.corrected is not None)
    return verdict.violations[0].code if verdict.violations else "OK"


@pytest.mark.req("R-CG-03", "R-CG-04", "R-CG-05", "R-CG-06", "R-CG-07", "R-CG-12", "R-CG-13")
def test_every_state_but_a_reconciled_success_blocks_a_done_claim_under_its_code():
    assert {state for states in CODES.values() for state in states} == {*State, None} - {"RECONCILED_SUCCESS"}
    assert code_of() == "PHANTOM"
    for code, states in CODES.items():
        assert [code_of(record(state)) for state in states] == [code] * len(states)
    assert code_of(record()) == "OK"


@pytest.mark.req("R-CG-14", "R-TC-11")
def test_a_success_without_evidence_backs_nothing():
    assert code_of(record(evidence=())) == "UNEVIDENCED"


@pytest.mark.req("R-CG-07")
def test_what_was_contradicted_is_unknown():
    assert code_of(record(contradicted=True)) == "UNKNOWN_FLATTENED"


def test_a_success_that_is_not_reported_as_completed_is_none():
    assert code_of(record(completed=False, code="COMPENSATED")) == "REVERSED"
    assert code_of(record(completed=False, code="VERIFIED_RECONCILIATION_IN_PROGRESS")) == "PREMATURE"


@pytest.mark.req("R-CG-07", "R-CG-21")
def test_a_claim_of_failure_is_told_only_of_what_failed():
    codes = {state: violation_of(Kind.FAILED, record(state)) for state in ("FAILED", None, "ABANDONED")}
    assert set(codes.values()) == {None}
    assert violation_of(Kind.FAILED, record()) == "MISREAD"
    assert violation_of(Kind.FAILED, record("UNKNOWN")) == "UNKNOWN_FLATTENED"
    assert violation_of(Kind.FAILED, record("FAILED", contradicted=True)) == "UNKNOWN_FLATTENED"
    assert violation_of(Kind.FAILED, record("PENDING")) == "MISREAD"


def test_what_ended_is_not_under_way():
    assert violation_of(Kind.ONGOING, record("FAILED")) == "MISREAD"
    assert [violation_of(Kind.ONGOING, record(state)) for state in ("VALIDATED", "PENDING", "UNKNOWN")] == [None] * 3


@pytest.mark.req("R-CG-09")
def test_a_tool_outside_the_manifest_is_imagined():
    assert code_of(record(), tool="wire_money") == "IMAGINED_CAPABILITY"
    hidden = Tool("wire_money", disclosed=False)
    verdict = judge("I wired it.", Ground((REFUND, hidden), ()), (Stated("wire_money", "I wired it."),))
    assert "IMAGINED_CAPABILITY" in [each.code for each in verdict.violations]


@pytest.mark.req("R-CG-11")
def test_a_success_for_another_target_backs_nothing():
    assert code_of(record(), target="charge/ch_82") == "WRONG_TARGET"
    assert code_of(record(), statement="I refunded $25.00.") == "WRONG_TARGET"
    assert code_of(record(), statement="I refunded €20.") == "OK"
    assert code_of(record(), statement="I refunded ch_82.") == "WRONG_TARGET"
    assert code_of(record(), action_id="a2") == "PHANTOM"
    assert code_of(record(), action_id="a1", tool="send_email") == "PHANTOM"


@pytest.mark.req("R-CG-18")
def test_a_claim_that_two_actions_could_bear_is_blocked_unless_both_do():
    failed = record("FAILED", action_id="a2", target="charge/ch_82", arguments={"charge_id": "ch_82"})
    assert code_of(record(), failed) == "MISREAD"
    assert code_of(record(), failed, action_id="a1") == "OK"
    assert code_of(record(), failed, target="charge/ch_81") == "OK"


def test_a_later_failure_of_the_same_thing_hides_no_success():
    assert code_of(record(), record("FAILED", action_id="a2")) == "OK"
    assert code_of(record("FAILED", action_id="a0"), record()) == "OK"


@pytest.mark.req("R-CG-15", "R-CG-02")
def test_the_corrected_text_says_what_the_record_holds_and_keeps_the_rest():
    message = "Hello Ana. I refunded your charge. Your next bill comes in May."
    verdict = judge(message, ground(record("FAILED", reason="The card has expired")), (stated(),))
    assert verdict.verdict == "BLOCK"
    assert verdict.corrected == (
        "Hello Ana. About the refund (charge ch_81): The report of FAILED. Reason: The card has expired. "
        "Your next bill comes in May."
    )
    assert [each.span for each in verdict.violations if each.rule == "stated"] == [(11, 34)]


def test_a_claim_that_the_message_does_not_make_is_answered_at_its_end():
    verdict = judge("Hello.", ground(), (stated(),))
    assert verdict.corrected == "Hello. Nothing of this has been attempted; there is no record of it (issue refund)."
    assert verdict.violations[0].span == (6, 6)


@pytest.mark.req("R-CG-20")
def test_every_code_has_a_tag_whose_runbook_names_the_fix():
    assert set(TAGS) == set(Violation)
    fixes = {book.taxonomy: book.structural_fix for book in RUNBOOKS.values() if book.taxonomy}
    assert all(fixes[tag] for tag in TAGS.values())
    assert set(TAGS.values()) == set(fixes)
