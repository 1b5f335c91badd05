"""Every sentence that the product can say of an action, in every state, by every way there, with every finding.

"Verified", "confirmed", "done" and "completed" stand only where a reading of the system of record settled it: on the
page (badge, headline, axes), in the table and the API, in the report, the model context and the summary, at the guard,
in the narrative and in notices.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import product

import pytest

from console.notifications.messages import TITLES
from console.web import labels
from console.web.event_labels import LabelledEvent, event_sentence
from ledger.catalogue.rules.remedies import Relation
from ledger.record.rules.lifecycle import SETTLING, State
from ledger.record.rules.outcomes import BY_WORD, WORDS, Outcome, outcome_of, outcome_of_step
from reviews.guarding.rules.codes import violation_of
from reviews.guarding.rules.receipt import status_line
from reviews.guarding.rules.records import Record
from reviews.reconciliation.rules.discrepancies import Discrepancy
from reviews.reporting.rules.context import ReportedAction, SessionScene, build_context
from reviews.reporting.rules.recovery_report import OngoingRecovery, Part, PartOutcome, RecoveryStage
from reviews.reporting.rules.report import StatusReport, build_report
from reviews.reporting.rules.sentences import FAMILIES, OutcomeFamily, axes, headline
from reviews.reporting.rules.summary import build_summary
from reviews.verification.rules.steps import KINDS
from tests.rules.reporting.test_facts import facts_of
from tests.support.pure.bearing_out import newest
from tests.support.pure.histories import Walk, random_walks
from tests.support.standings import Standing
from tests.support.verification_runs import LATER

CLAIM = re.compile(r"\b(verified|confirmed|done|completed|complete)\b", re.I)
DENIED = re.compile(
    r"(?:not|no|never|without|un|nothing)\b[^.;:]{0,40}?\b(?:verified|confirmed|done|completed|complete)\b"
    r"|until [^.;:]{0,20}verified|before anything else is done|unverified|unconfirmed|No completion was confirmed"
    r"|no reading verified|it may have been done",
    re.I,
)
IN_PART = re.compile(r"\bdone in part\b|\bpartially completed\b|\bverified in part\b", re.I)
LABELS = re.compile(r"Completed so far:|VERIFIED RECONCILIATION IN PROGRESS")
PARTS = (Part("euros", PartOutcome.APPLIED), Part("pounds", PartOutcome.NOT_APPLIED))
SETTLED_BY_READING = {
    Outcome.VERIFIED,
    Outcome.UNCHANGED,
    Outcome.COMPENSATED,
    Outcome.ROLLED_BACK,
}


@cache
def claims(text: str) -> list[str]:
    """What a sentence claims to be so, once what it denies is taken out."""
    for known in (DENIED, IN_PART, LABELS):
        text = known.sub(" ", text)
    return CLAIM.findall(text)


def reports(walk: Walk) -> Iterator[StatusReport]:
    facts = facts_of(walk.events)
    partial = facts.found is not None and facts.found.discrepancy == Discrepancy.PARTIAL_APPLICATION
    recoveries = (None, *(OngoingRecovery(relation, stage) for relation in Relation for stage in RecoveryStage))
    recovering = FAMILIES[outcome_of(walk)] in {OutcomeFamily.RUNNING, OutcomeFamily.PARTIAL}
    for level, recovery in product((0, 3, 4), recoveries if recovering else (None,)):
        parts = PARTS if partial else ()
        yield build_report(facts, walk.entry, trust_level=level, recovery=recovery, parts=parts)


def said_of(walk: Walk) -> Iterator[tuple[str, str]]:
    """Each surface with its sentence."""
    outcome, facts = outcome_of(walk), facts_of(walk.events)
    yield "badge, list and table", labels.outcome_label(walk)
    yield "API", str(outcome).replace("_", " ")
    yield "headline", headline(facts).text
    shown = axes(facts)
    # The words of the execution axis are the executor's, and say so.
    yield "axes", f"{shown.decision.text}; {shown.effect.text}"
    if outcome_of_step(str(walk.state), walk.reached_by) not in SETTLED_BY_READING:
        yield (
            "narrative",
            event_sentence(LabelledEvent(kind=walk.reached_by, who="Reviewer", detail={}, entry=walk.entry)),
        )
        yield "timeline", labels.step_label("action", walk.reached_by, str(walk.state), entry=walk.entry)
    for found in dict.fromkeys(reports(walk)):
        yield from told_by(walk.state, walk.contradicted, walk.reversed, found, walk.discrepancy)
        yield "receipt", status_line(recorded(walk, found), None).text


@cache
def told_by(state: State, contradicted: bool, taken_back: bool, found: StatusReport, discrepancy: str) -> tuple:
    """What is made of a report, each surface with its sentence."""
    standing = Standing(state, contradicted=contradicted, reversed=taken_back)
    return tuple(_told_by(standing, found, discrepancy))


def _told_by(standing: Standing, found: StatusReport, discrepancy: str) -> Iterator[tuple[str, str]]:
    yield "report", f"{found.text} {found.code.replace('_', ' ')}"
    item = ReportedAction(
        action_id="a-1",
        tool="issue_refund",
        target="order/1",
        state=standing.state,
        report=found,
        as_of=LATER,
        contradicted=standing.contradicted,
        discrepancy=discrepancy,
    )
    yield "model context", "\n".join(build_context([item], SessionScene(), at=LATER).text.split("\n")[1:])
    yield "task state", f"{item.rule.task_state} {item.rule.planning}"
    yield "summary", " ".join(build_summary([item], SessionScene()).lines)


def recorded(walk: Walk, found: StatusReport) -> Record:
    state = State.COMPENSATED if walk.reversed else walk.state
    return Record(
        action_id="a-1",
        tool="issue_refund",
        target="order/1",
        arguments={},
        state=str(state),
        completed=found.completed,
        code=str(found.code),
        text=found.text,
        contradicted=walk.contradicted,
        evidence=("re_1",),
        outcome=str(outcome_of(walk)),
    )


def is_settled_by_reading(walk: Walk) -> bool:
    outcome = outcome_of(walk)
    unsettled = walk.contradicted or outcome in BY_WORD
    absent = walk.state in (State.FAILED, State.VALIDATED) and newest(walk.events) == "nothing" and not unsettled
    return absent or outcome in SETTLED_BY_READING or (outcome is Outcome.ANSWERED and newest(walk.events) == "wanted")


WALKS = 800


@pytest.mark.req("R-RI-09", "R-RI-10")
def test_only_an_outcome_settled_by_a_reading_is_claimed_on_any_surface():
    for walk in random_walks(WALKS):
        if not is_settled_by_reading(walk):
            for surface, said in said_of(walk):
                assert not claims(said), (surface, said, walk.state)


def test_completed_and_green_mean_verified():
    """And a done-claim passes the guard for nothing else."""
    for walk in random_walks(WALKS):
        outcome = outcome_of(walk)
        assert (FAMILIES[outcome] is OutcomeFamily.TRUE) == (outcome is Outcome.VERIFIED)
        effect = axes(facts_of(walk.events)).effect
        assert (effect.family is OutcomeFamily.TRUE) == (outcome is Outcome.VERIFIED), (effect, outcome)
        for found in reports(walk):
            good = outcome in {Outcome.VERIFIED, Outcome.UNCHANGED, Outcome.ANSWERED}
            assert found.completed <= good, (found, outcome)
            borne_out = violation_of(recorded(walk, found)) is None
            assert borne_out <= good, (found, outcome)


def test_every_surface_names_the_person_behind_an_attested_outcome():
    by_word = [walk for walk in random_walks(WALKS) if outcome_of(walk) in {Outcome.ATTESTED, Outcome.ATTESTED_ABSENT}]
    assert by_word
    for walk in by_word:
        for surface, said in said_of(walk):
            if surface != "task state":
                assert re.search("attest|person", said, re.I), (surface, said)


def test_no_label_of_an_outcome_or_event_claims_what_no_reading_settled():
    assert {outcome for outcome, word in WORDS.items() if claims(word)} == {Outcome.VERIFIED}
    of_readings = {"reconciled", "compensated", "rechecked"}
    for kind in {*KINDS.values(), *SETTLING} - of_readings:
        assert not claims(labels.event_label(kind)), labels.event_label(kind)


def test_no_notice_claims_an_outcome():
    for kind, said in TITLES.items():
        assert not claims(" ".join(said)), (kind, said)


def test_the_claim_detector_finds_the_words_of_settled_outcomes():
    """The words that it looks for are those that are said where a reading settled it."""
    for outcome, walk in {outcome_of(each): each for each in random_walks(WALKS)}.items():
        if outcome in SETTLED_BY_READING - {Outcome.ROLLED_BACK}:
            assert "report" in [surface for surface, said in said_of(walk) if claims(said)], outcome
    assert claims("Done, and confirmed in the system of record.") == ["Done", "confirmed"]
    assert claims("It is done; not verified by a reading.") == ["done"]


def test_a_failed_comparison_is_not_shown_as_a_rollback():
    assert labels.step_label("action", "reconciliation_failed", "RECONCILIATION_FAILED") == "Not as intended"


def test_an_accepted_call_waits_for_approval_only_where_approval_is_required():
    def reached(detail: dict | None) -> str:
        return labels.step_label("action", "validated", "VALIDATED", detail)

    assert reached({"approval_required": True}) == "Waiting for approval"
    assert reached({"approval_required": False}) == "Ready to run"
    assert reached(None) == "Accepted by the gate"


def test_codes_in_a_recorded_sentence_are_replaced_by_words():
    for recorded, read in (
        (
            "A strong read shows NO_OP_FAILURE: refund absent (0).",
            "A strong read shows no-op failure: refund absent (0).",
        ),
        ("RT-04 HOLD_AND_ESCALATE: a person must decide.", "Hold and escalate (RT-04): a person must decide."),
        ('Key not found in map : "amount"', "No value for “amount” was read."),
        ("the tool answered AMOUNT_TOO_HIGH", "the tool answered AMOUNT_TOO_HIGH"),
    ):
        assert labels.replace_codes(recorded) == read
