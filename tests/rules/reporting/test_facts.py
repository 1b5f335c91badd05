"""Every sentence about an action is borne out by its events, over histories that the lifecycle generates.

The checks know nothing of the fold: `unborne` and `false_words` read the events again.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from ledger.record.rules.lifecycle import Ground, State
from ledger.record.rules.outcomes import Outcome, is_unknown, outcome_of
from reviews.reconciliation.rules.shown import Shown
from reviews.reporting.rules.facts import Facts, RunReading, fold
from reviews.reporting.rules.report import StatusCode, StatusReport, build_report
from reviews.reporting.rules.sentences import Claim, Claims, axes, headline, payload_note
from tests.support.pure.bearing_out import (
    answers,
    decisive,
    false_words,
    kinds,
    newest,
    of_attempt,
    said,
    standing_doubt,
    unborne,
)
from tests.support.pure.histories import DIFFERENCES, Happening, Walk, first_entry, history, move, random_walks, walks

LONG = settings(max_examples=3000, deadline=None, suppress_health_check=list(HealthCheck))
BOUNDED = 1500


def facts_of(events: list[Happening]) -> Facts:
    facts = fold(history(events), events[-1].entry)
    return facts.with_differences({each.run: DIFFERENCES.get(each.discrepancy, "") for each in facts.readings})


def report_of(events: list[Happening]) -> StatusReport:
    return build_report(facts_of(events), events[-1].entry, trust_level=3)


def sentences(events: list[Happening]) -> dict[str, tuple[str, Claims]]:
    """Every sentence about an action, by its surface, with what it claims."""
    facts, told = facts_of(events), report_of(events)
    shown = axes(facts)
    found = {
        "authorization": shown.decision,
        "execution": shown.execution,
        "effect": shown.effect,
        "headline": headline(facts),
        "payload": payload_note(facts),
    }
    return {name: (each.text, each.claims) for name, each in found.items()} | {"report": (told.text, told.claims)}


def faults(events: list[Happening]) -> list[str]:
    return [
        fault
        for surface, (text, claims) in sentences(events).items()
        for fault in (*unborne(text, claims, events), *false_words(surface, text, events))
    ]


def left_out(walk: Walk) -> list[str]:
    """What stands on record and is not told: too little misleads as well."""
    events, told = walk.events, sentences(walk.events)
    execution, (effect, claims) = told["execution"][0].lower(), told["effect"]
    claimed = {claim for claim, _ in claims}
    ran = bool(of_attempt(events))
    here = [
        ("a claim of success", any(said(each, "success") for each in answers(events)), "reported success" in execution),
        ("an answer that failed", any(said(each, "failed") for each in answers(events)), "failure" in execution),
        (
            "that nothing was sent",
            any("nothing_sent" in each.detail.get("grounds", ()) for each in answers(events)),
            "nothing was sent" in execution,
        ),
        ("that no answer came", ran and not answers(events), "answer" in execution),
        (
            "an executor that fell silent",
            "lease_ended" in kinds(of_attempt(events)) and not answers(events),
            "never answered" in execution,
        ),
        (
            "a doubt",
            standing_doubt(events) is not None,
            Claim.CONTRADICTED in claimed and "It was settled, but" in told["report"][0],
        ),
        (
            "a decisive reading",
            bool(decisive(of_attempt(events))) and standing_doubt(events) is None,
            bool(claimed & {Claim.SAW_REQUESTED, Claim.SAW_NOTHING, Claim.SAW_OTHERWISE, Claim.REVERSED}),
        ),
        (
            "a person's word",
            outcome_of(walk) in (Outcome.ATTESTED, Outcome.ATTESTED_ABSENT, Outcome.ACCEPTED_AS_IT_IS),
            "person" in effect and "person" in told["report"][0] and "person" in told["headline"][0],
        ),
    ]
    return [f"{what} is on record and not told" for what, on_record, is_told in here if on_record and not is_told]


def wrongly_completed(events: list[Happening]) -> list[str]:
    told = report_of(events)
    read = told.code is StatusCode.COMPLETED and newest(events) == "wanted" and standing_doubt(events) is None
    return [] if told.completed == read else [f"completed: {told.completed}, {told.code}"]


def test_every_sentence_is_supported_by_events_and_every_event_is_reported() -> None:
    for walk in random_walks(BOUNDED):
        assert faults(walk.events) == []
        assert left_out(walk) == []


def test_the_outcome_computed_from_the_events_equals_that_of_the_view() -> None:
    for walk in random_walks(BOUNDED):
        facts = facts_of(walk.events)
        assert facts.outcome is outcome_of(walk)
        assert (facts.state, facts.reached_by, facts.contradicted) == (walk.state, walk.reached_by, walk.contradicted)


def test_an_action_in_review_counts_as_unknown_wherever_no_reading_settled_what_became_of_it() -> None:
    """Home counts by columns; what they call known, a decisive reading of the newest attempt has shown."""
    unread = 0
    for walk in random_walks(BOUNDED):
        facts = facts_of(walk.events)
        held = facts.state is State.REVIEW_REQUIRED
        if held and facts.attempt is not None and facts.found is None:
            unread += 1
            assert is_unknown(facts)
        if held and not is_unknown(facts):
            assert facts.found is not None or facts.attempt is None
        assert is_unknown(facts) or facts.doubt is None
    assert unread > 20


@pytest.mark.req("R-RI-09", "R-RI-10")
def test_only_an_uncontradicted_reading_makes_an_action_completed() -> None:
    for walk in random_walks(BOUNDED):
        assert wrongly_completed(walk.events) == []


def test_at_every_moment_sentences_rest_on_earlier_events_only() -> None:
    for walk in random_walks(150):
        for end in range(1, len(walk.events)):
            run, events = walk.events[end].detail.get("run"), walk.events[:end]
            # The events of one run are written at once.
            if not run or run != events[-1].detail.get("run"):
                assert faults(events) == []
                told = [seq for _, claims in sentences(events).values() for _, seqs in claims for seq in seqs]
                assert all(1 <= seq <= end for seq in told)


def test_each_fact_equals_what_its_event_records() -> None:
    """What pages show beside the sentences: who, when, on what evidence."""
    for walk in random_walks(BOUNDED):
        facts, events = facts_of(walk.events), walk.events
        starts = [each for each in events if each.kind == "execution_started"]
        assert [(each.number, each.executor, each.seq, each.at) for each in facts.attempts] == [
            (each.detail["attempt"], each.detail["executor_id"], each.seq, each.at) for each in starts
        ]
        told = [each for each in events if each.detail.get("observation", {}).get("source") == "executor"]
        assert sorted((each.seq, each.status, each.at) for one in facts.attempts for each in one.answers) == [
            (each.seq, each.detail["status"], each.at) for each in told
        ]
        listed = [each for each in events if "listed" in each.detail]
        assert [(each.run, each.seqs[0], each.at, each.source) for each in facts.readings] == [
            (each.detail["run"], each.seq, each.at, each.detail["listed"]["source"]) for each in listed
        ]
        of_run = {each.run: tuple(e.seq for e in events if e.detail.get("run") == each.run) for each in facts.readings}
        assert {each.run: each.seqs for each in facts.readings} == of_run
        assert facts.is_answer_only == bool(kinds(events) & {"answer_awaited", "answer_checked", "answer_refused"})
        assert facts.is_unverifiable == (walk.entry["verification"]["status"] == "UNVERIFIABLE")
        proposed = [each.seq for each in events if each.kind == "recovery_proposed"]
        assert set(facts.remedies.values()) <= set(proposed)
        assert bool(facts.remedies) == bool(proposed)
        if facts.word is not None:
            spoken = events[facts.word.seq - 1]
            assert (facts.word.by, facts.word.at) == (spoken.detail["by"], spoken.at)
            assert facts.word.second == (spoken.detail["confirmed_by"] or "")
        decided = events[facts.authorization.seqs[0] - 1]
        if decided.kind != "proposed":
            assert (facts.authorization.by, facts.authorization.at) == (decided.actor_id, decided.at)


def test_a_run_that_ended_an_action_without_effect_is_reported_as_no_effect() -> None:
    """A stale target is a mismatch, and still nothing happened."""
    walk = Walk(lambda options: options[0])
    move(walk, State.VALIDATED)
    move(walk, State.EXECUTING)
    walk.answer("failed", State.PENDING)
    grounds = (Ground.DECISIVE_READ, Ground.NO_EFFECT_NO_CLAIM)
    walk.step("failed", State.FAILED, walk.read("MISMATCH", "STALE_STATE"), grounds=grounds)
    assert report_of(walk.events).text == "Failed. The system of record shows that nothing happened."
    assert sentences(walk.events)["effect"][0] == "No effect, confirmed"


def read_once(result: str, found: str = "", **listed: Any) -> Walk:
    """An action whose executor claimed success, read once; `listed` are further details of the run."""
    walk = Walk(lambda options: options[0])
    move(walk, State.VALIDATED)
    move(walk, State.EXECUTING)
    walk.answer("success", State.PENDING)
    detail = walk.read(result, found)
    walk.step("verification_pending", None, detail | {"listed": detail["listed"] | listed})
    return walk


def told_of(walk: Walk) -> RunReading:
    best = fold(history(walk.events), walk.entry).best
    assert best is not None
    return best


def test_a_source_that_could_not_prove_how_fresh_it_is_has_read_weakly() -> None:
    """An event from before that was on record has the word of the source alone."""
    assert told_of(read_once("PENDING")).shown is Shown.UNDECIDED
    assert told_of(read_once("PENDING", trusted_as="PRIMARY")).shown is Shown.UNDECIDED
    weak = told_of(read_once("PENDING", trusted_as="UNDECLARED"))
    assert (weak.shown, weak.consistency) == (Shown.WEAK, "UNDECLARED")


def test_how_often_an_effect_was_found_is_told_where_the_values_cannot_be_opened() -> None:
    walk = read_once("DUPLICATE", "DUPLICATE_SIDE_EFFECT", effects=[["refund", "PRESENT", 2]])
    assert told_of(walk).difference == "refund 2 times instead of once"
    facts = fold(history(walk.events), walk.entry)
    for opened, told in (("", "refund 2 times instead of once"), ("refund 9.00 EUR twice", "refund 9.00 EUR twice")):
        assert facts.with_differences({walk.run: opened}).last_reading.difference == told
    assert told_of(read_once("DUPLICATE", "DUPLICATE_SIDE_EFFECT")).difference == ""
    assert told_of(read_once("SUCCESS", effects=[["refund", "ABSENT", 0]])).difference == ""


@pytest.mark.parametrize("named", ["", "the first", "r99"])
def test_a_persons_word_is_told_over_the_reading_that_they_name(named: str) -> None:
    """And over the newest one where their event names none that is known."""
    walk = read_once("MISMATCH", "VALUE_MISMATCH")
    over = {"reading": {"shown": "DIFFERENT", "run": walk.run if named == "the first" else named}} if named else {}
    walk.step("verification_pending", None, walk.read("MISMATCH", "COMPENSATION_REQUIRED"))
    walk.append("attested_present", State.RECONCILED_SUCCESS, {}, {"by": "p-1", **over}, actor="person")
    word = facts_of(walk.events).word
    assert word is not None
    assert word.discrepancy == ("VALUE_MISMATCH" if named == "the first" else "COMPENSATION_REQUIRED")


def test_the_generated_histories_reach_every_outcome() -> None:
    assert {outcome_of(walk) for walk in random_walks(3000)} == set(Outcome) - {
        Outcome.PROPOSED,
        Outcome.PARTIALLY_APPLIED,
    }


@pytest.mark.long
@LONG
@given(walks())
def test_no_generated_history_is_reported_falsely(walk: Walk) -> None:
    assert faults(walk.events) == []
    assert left_out(walk) == []
    assert wrongly_completed(walk.events) == []
    assert facts_of(walk.events).outcome is outcome_of(walk)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("validation_failed", "Blocked by the gate"),
        ("preflight_refused", "Blocked by preflight"),
        ("outside_autonomy", "Blocked by the autonomy policy"),
        ("approval_voided", "Approval void"),
        ("rejected", "Rejected"),
        ("changes_requested", "Changes requested"),
        ("approval_expired", "Approval expired"),
        ("provider_outage", "Ended: its system did not answer in time"),
        ("superseded", "Replaced by another version"),
        ("cancelled", "Cancelled"),
    ],
)
def test_an_action_that_never_ran_tells_the_event_that_ended_it(kind: str, words: str):
    entry, at = first_entry("HIGH_RISK_EXTERNAL"), datetime(2026, 11, 21, 12, tzinfo=UTC)
    steps = (("proposed", "", "PROPOSED"), (kind, "PROPOSED", "FAILED"))
    events = [
        Happening(
            seq=seq, kind=name, from_state=before, state=after, actor_kind="system", actor_id="", at=at, entry=entry
        )
        for seq, (name, before, after) in enumerate(steps, 1)
    ]
    facts = fold(history(events), entry)
    assert facts.authorization.seqs == (2,)
    assert axes(facts).decision.text.startswith(words)
