"""The checks of a read's own answer: answered, not to be used, or failed; never confirmed, and never unknown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ledger.catalogue.rules.effects import SideEffectClass
from ledger.record.rules import entry as entries
from ledger.record.rules.lifecycle import Ground, State
from ledger.record.rules.outcomes import Outcome, outcome_of_step
from reviews.observations.rules.observe import ParsedObservation, ReportedStatus
from reviews.reconciliation.rules.facts import AnswerFacts
from reviews.reconciliation.rules.shown import Shown
from reviews.reporting.rules.facts import Facts
from reviews.reporting.rules.report import build_report
from reviews.reporting.rules.results import PlannerResult, result_of
from reviews.reporting.rules.sentences import axes, headline
from reviews.verification.rules.steps import apply_changes
from reviews.verification.rules.verification import judge_run
from tests.support.pure.facts import facts_in, reading
from tests.support.verification_runs import LATER, MEDIUM, SLA, SUCCESS, entry, failed, fits, inputs

READS = replace(
    MEDIUM, side_effect_class=SideEffectClass.READ_ONLY, verifiable=False, required_effects=(), predicates=()
)
GIVEN = AnswerFacts(
    tenant="t-1",
    tool="look_up",
    request_hash="h" * 64,
    answer_digest="d" * 64,
    executor_id="runner",
    executor_tenant="t-1",
    executor_tools=("look_up",),
    has_schema=True,
)
ANSWERED = ["COMMITTED", "RECONCILED_SUCCESS"]
UNCERTAIN = "Where the answer came from is not certain"
UNFIT = "does not fit what the tool promises"
REFUSED = ["COMMITTED", "RECONCILIATION_FAILED", "FAILED"]


def read(state=State.PENDING, **changes):
    """A run over a read that was answered as it was asked."""
    snapshot = {**entry(state), "side_effect_class": "READ_ONLY"}
    snapshot = {name: block for name, block in snapshot.items() if name not in ("idempotency", "approval")}
    return inputs(**{"state": state, "facts": READS, "entry": snapshot, "answer": GIVEN, **changes})


def ended(given):
    """The outcome of a run, the states it went through, and the entry at its end, each entry checked on the way."""
    outcome, snapshot = judge_run(given), given.entry
    for step in outcome.steps:
        snapshot = apply_changes(snapshot, step.entry)
        fits(step.state, snapshot)
    entries.check_entry(snapshot)
    return outcome, [str(step.state) for step in outcome.steps], snapshot


def facts_of(outcome) -> Facts:
    """The facts of a read that ended as the steps of this run say."""
    run = replace(reading(Shown.NOT_READ), discrepancy=str(outcome.verdict.discrepancy or ""))
    last = outcome.steps[-1].kind
    return facts_in(outcome.state, reached_by=last, side_effect_class="READ_ONLY", readings=(run,), is_answer_only=True)


def told(outcome, snapshot):
    return build_report(facts_of(outcome), snapshot, trust_level=1)


def test_a_read_that_passes_four_checks_is_answered_and_not_verified():
    outcome, passed, snapshot = ended(read())
    assert passed == ANSWERED
    assert [one.made for one in outcome.verdict.checks] == ["CHECKED"] * 4
    assert told(outcome, snapshot).text == "Read; changes nothing."
    assert told(outcome, snapshot).code == "ANSWERED"
    assert headline(facts_of(outcome)).text == "Answered"
    assert axes(facts_of(outcome)).effect.text == "Read; changes nothing"
    assert result_of(outcome.state, told(outcome, snapshot)) is PlannerResult.ANSWERED
    assert not outcome.case
    assert outcome.next_read_at is None


def test_the_events_of_an_answered_read_state_that_nothing_was_read_back():
    outcome, _, snapshot = ended(read())
    assert [step.kind for step in outcome.steps] == ["answer_checked", "answered"]
    assert Ground.CHANGES_NOTHING in outcome.steps[0].grounds
    assert not any(Ground.DECISIVE_READ in step.grounds for step in outcome.steps)
    assert snapshot["verification"]["verified_state_pointer"] is None
    assert "nothing was read back" in snapshot["verification"]["source"]
    assert outcome_of_step("RECONCILED_SUCCESS", "answered") is Outcome.ANSWERED


@pytest.mark.req("R-VD-01")
@pytest.mark.parametrize(
    ("changes", "check", "said"),
    [
        ({"request_hash": "x" * 64}, "request_parameters_confirmed", UNCERTAIN),
        ({"executor_tenant": "t-2"}, "tenant_scope_confirmed", UNCERTAIN),
        ({"executor_tools": ("write",)}, "source_identity_confirmed", UNCERTAIN),
        (
            {"schema_fault": "/pages: 7 is no text"},
            "response_integrity_confirmed",
            "does not fit what the tool promises",
        ),
    ],
)
def test_an_answer_that_fails_a_check_is_not_used_and_the_check_is_named(changes, check, said):
    outcome, passed, snapshot = ended(read(answer=replace(GIVEN, **changes)))
    assert passed == REFUSED
    assert [one.check for one in outcome.verdict.checks if one.made == "FAILED"] == [check]
    assert said in told(outcome, snapshot).text
    assert told(outcome, snapshot).text.endswith("nothing was changed.")
    assert headline(facts_of(outcome)).text == "Answered, and the answer cannot be used"
    # Another tenant's answer is looked at by a person; the rest is simply not used.
    assert outcome.case is (check == "tenant_scope_confirmed")


def test_an_answer_of_unknown_origin_is_not_used():
    assert ended(read(answer=None))[1] == REFUSED


@pytest.mark.parametrize(
    "observation",
    [
        None,
        failed("NOPE"),
        ParsedObservation(status=ReportedStatus.TIMEOUT),
        ParsedObservation(status=ReportedStatus.PARTIAL),
        ParsedObservation(status=ReportedStatus.MALFORMED, fault="It is not an object."),
    ],
)
@pytest.mark.parametrize("state", [State.PENDING, State.UNKNOWN])
def test_a_read_without_an_answer_has_failed_and_opens_no_case(state, observation):
    outcome, passed, snapshot = ended(read(state, observation=observation))
    assert passed[-1] == "FAILED"
    assert told(outcome, snapshot).text == "The read failed; nothing was changed."
    assert headline(facts_of(outcome)).text == "Read failed"
    assert axes(facts_of(outcome)).effect.text == "No usable answer; changes nothing"
    assert snapshot["verification"]["status"] == "FAILED"
    assert snapshot["timestamps"]["verified_at"] is None
    assert not outcome.case
    assert outcome.freeze == ()


def test_a_read_still_in_progress_is_waited_for_until_its_deadline():
    working = ParsedObservation(status=ReportedStatus.ACCEPTED)
    waiting = judge_run(read(State.ACCEPTED, observation=working, at=LATER))
    assert waiting.state is State.PENDING
    assert waiting.next_read_at is not None
    assert ended(read(observation=working, at=SLA))[1] == ["FAILED"]


def test_an_unknown_read_is_never_reported_as_waiting_for_a_person():
    facts = facts_in(State.UNKNOWN, side_effect_class="READ_ONLY")
    text = build_report(facts, read(State.UNKNOWN).entry, trust_level=0).text
    assert text == "It is not known whether what was read can be relied on. It was a read: nothing was changed."


def test_only_a_read_may_commit_because_it_changes_nothing():
    assert entries.allows_grounds(read().entry, {Ground.CHANGES_NOTHING})
    assert not entries.allows_grounds(entry(), {Ground.CHANGES_NOTHING})
    assert not entries.allows_grounds(None, {Ground.CHANGES_NOTHING})
    assert entries.allows_grounds(entry(), {Ground.DECISIVE_READ})


def test_a_read_that_was_verified_by_a_reading_is_shown_as_confirmed():
    snapshot = ended(read())[2]
    snapshot["verification"] |= {"verified_state_pointer": "r-1"}
    facts = facts_in(State.RECONCILED_SUCCESS, side_effect_class="READ_ONLY")
    assert build_report(facts, snapshot, trust_level=3).code == "COMPLETED"


def test_a_write_cannot_succeed_on_its_answer_alone():
    writes = replace(READS, side_effect_class=SideEffectClass.EPHEMERAL_WRITE)
    assert judge_run(inputs(facts=writes, observation=SUCCESS, answer=GIVEN)).state is State.UNKNOWN
