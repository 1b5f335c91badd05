"""The fold of an action's events, row by row: what one event adds to the facts, and what it leaves alone."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.catalogue.rules.remedies import Relation
from ledger.record.rules.lifecycle import State
from reviews.reconciliation.rules.shown import Shown
from reviews.reporting.rules.facts import Authorization, Doubt, DoubtSource, Facts, Permission, fold
from tests.support.pure.facts import facts_in, reading
from tests.support.pure.histories import START, Happening, history

Step = tuple[str, str, dict[str, Any]]
STARTED: Step = ("execution_started", "EXECUTING", {"attempt": 1, "executor_id": "ex-1"})
PROPOSED: Step = ("proposed", "PROPOSED", {})


def folded(*steps: Step, entry: dict[str, Any] | None = None, actor: str = "system") -> Facts:
    """The facts of these events as (kind, state after it, detail), numbered from 1."""
    before = ["", *(state for _, state, _ in steps)]
    return fold(
        history(
            Happening(
                seq=seq,
                kind=kind,
                from_state=before[seq - 1],
                state=state,
                actor_kind=actor,
                actor_id=f"actor-{seq}",
                at=START,
                detail=detail,
            )
            for seq, (kind, state, detail) in enumerate(steps, 1)
        ),
        entry or {},
    )


def observed(status: str = "success", state: str = "PENDING", **more: Any) -> Step:
    told = {"status": status, "claimed_success": status == "success", "pointer": "o-1"}
    return ("observed", state, {"observation": told, "attempt": 1} | more)


def read(run: str, result: str = "MISMATCH", discrepancy: str = "VALUE_MISMATCH", state: str = "PENDING") -> Step:
    listed = {"source": "shop", "consistency": "PRIMARY", "result": result, "discrepancy": discrepancy}
    return ("verification_pending", state, {"run": run, "listed": listed})


def test_an_action_without_events_is_unchecked_and_nothing_is_known_of_it() -> None:
    for facts in (fold([], {}), Facts(state=State.PROPOSED)):
        assert (facts.state, facts.reached_by, facts.reached_at) == (State.PROPOSED, "", 1)
        assert (facts.side_effect_class, facts.discrepancy, facts.reversed, facts.reversal) == ("", "", False, None)
        assert facts.authorization == Authorization(how=Permission.UNCHECKED, seqs=(1,))
        assert (facts.attempts, facts.readings, facts.word, facts.doubt, facts.lost_start) == ((), (), None, None, None)
        assert (facts.is_answer_only, facts.is_unverifiable, facts.remedies) == (False, False, {})


@pytest.mark.parametrize("kind", ["approval_asked_again", "approval_revalidated"])
def test_an_approval_that_is_asked_for_again_waits_again(kind: str) -> None:
    facts = folded(PROPOSED, ("approval_granted", "VALIDATED", {}), (kind, "VALIDATED", {}))
    assert (facts.authorization.how, facts.authorization.seqs) == (Permission.WAITING, (3,))
    assert facts.authorization.by == "actor-3"


def test_a_start_has_the_number_and_executor_of_its_event_and_the_next_number_without_them() -> None:
    facts = folded(PROPOSED, ("execution_started", "EXECUTING", {"attempt": 4, "executor_id": "ex-4"}))
    assert [(each.number, each.executor) for each in facts.attempts] == [(4, "ex-4")]
    bare = ("execution_started", "EXECUTING", {})
    assert [(each.number, each.executor) for each in folded(PROPOSED, bare, bare).attempts] == [(1, ""), (2, "")]


def test_an_answer_belongs_to_the_attempt_that_it_names_and_to_the_newest_one_otherwise() -> None:
    second = ("execution_started", "EXECUTING", {"attempt": 2})
    late = folded(PROPOSED, STARTED, second, observed("failed", "EXECUTING"))
    assert [[each.status for each in one.answers] for one in late.attempts] == [["failed"], []]
    nameless = folded(PROPOSED, STARTED, second, observed("failed", "EXECUTING", attempt=None))
    assert [[each.status for each in one.answers] for one in nameless.attempts] == [[], ["failed"]]
    silent = folded(PROPOSED, STARTED, second, ("lease_ended", "EXECUTING", {"attempt": 1}))
    assert [each.silent for each in silent.attempts] == [4, None]


def test_an_answer_names_its_evidence_and_a_claim_of_success_is_not_taken_back() -> None:
    facts = folded(PROPOSED, STARTED, observed(), observed("failed"))
    assert facts.answer is not None
    assert (facts.answer.status, facts.answer.claims_success, facts.answer.pointer) == ("success", True, "o-1")
    unkept = folded(PROPOSED, STARTED, ("observed", "PENDING", {"observation": {"status": "failed"}}))
    assert unkept.answer is not None
    assert (unkept.answer.pointer, unkept.answer.claims_success, unkept.answer.nothing_sent) == ("", False, False)


def test_only_a_run_that_is_listed_is_a_reading() -> None:
    unlisted = folded(PROPOSED, STARTED, ("verification_pending", "PENDING", {"run": "r-1"}))
    nameless = folded(PROPOSED, STARTED, ("verification_pending", "PENDING", {"listed": read("")[2]["listed"]}))
    assert (unlisted.readings, nameless.readings) == ((), ())
    again = ("reconciliation_failed", "REVIEW_REQUIRED", {"run": "r-1"})
    [found] = folded(PROPOSED, STARTED, read("r-1"), again).readings
    assert (found.run, found.seqs, found.shown, found.source) == ("r-1", (3, 4), Shown.DIFFERENT, "shop")


@pytest.mark.parametrize("kind", ["answer_awaited", "answer_checked", "answered", "answer_refused"])
def test_a_check_of_an_answer_marks_the_action_as_checked_by_its_answer_alone(kind: str) -> None:
    assert folded(PROPOSED, STARTED, (kind, "PENDING", {})).is_answer_only
    assert not folded(PROPOSED, STARTED, observed()).is_answer_only


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        ("attested_present", "RECONCILED_SUCCESS"),
        ("accepted_as_it_is", "RECONCILED_SUCCESS"),
        ("attested_absent", "FAILED"),
        ("failed_by_review", "FAILED"),
        ("abandoned", "ABANDONED"),
        ("left_as_it_is", "RECONCILED_SUCCESS"),
    ],
)
def test_a_persons_word_names_who_spoke_and_who_confirmed(kind: str, state: str) -> None:
    facts = folded(PROPOSED, STARTED, read("r-1"), (kind, state, {"by": "p-1", "confirmed_by": "p-2"}))
    assert facts.word is not None
    assert (facts.word.by, facts.word.second, facts.word.seq) == ("p-1", "p-2", 4)
    assert facts.word.discrepancy == "VALUE_MISMATCH"
    alone = folded(PROPOSED, STARTED, (kind, state, {})).word
    assert alone is not None
    assert (alone.by, alone.second, alone.discrepancy) == ("actor-3", "", "")


def test_a_word_is_spoken_over_no_reading_that_decided_nothing_or_belongs_to_an_earlier_attempt() -> None:
    word: Step = ("attested_present", "RECONCILED_SUCCESS", {})
    undecided = folded(PROPOSED, STARTED, read("r-1", "UNKNOWN", "UNKNOWN_STATE"), word)
    earlier = folded(PROPOSED, STARTED, read("r-1"), ("execution_started", "EXECUTING", {"attempt": 2}), word)
    assert [each.word.discrepancy for each in (undecided, earlier) if each.word] == ["", ""]


@pytest.mark.parametrize("kind", ["compensated", "compensation_attested"])
def test_a_reversal_is_on_record_by_either_of_its_events(kind: str) -> None:
    assert folded(PROPOSED, STARTED, observed(), (kind, "COMPENSATED", {})).reversal == 4


@pytest.mark.parametrize("kind", ["held_after_restore", "start_without_record"])
def test_a_start_that_may_be_missing_from_the_record_is_known_by_its_event(kind: str) -> None:
    assert folded(PROPOSED, (kind, "REVIEW_REQUIRED", {})).lost_start == 2


def test_a_recovery_is_known_by_the_relation_of_its_order() -> None:
    order, proposal = (
        ("ordered", "COMPENSATING", {"relation": "compensation"}),
        ("recovery_proposed", "COMPENSATING", {}),
    )
    assert folded(PROPOSED, STARTED, order, proposal).remedies == {Relation.COMPENSATION: 4}
    assert folded(PROPOSED, STARTED, proposal).remedies == {"": 3}


def test_a_doubt_names_the_event_that_raised_it_until_another_one_contradicts_or_ends_it() -> None:
    settled: Step = ("reconciled", "RECONCILED_SUCCESS", {})
    raised: Step = ("remedy_contradicted", "RECONCILED_SUCCESS", {"view": {"contradicted": True}})
    noted: Step = ("commented", "RECONCILED_SUCCESS", {"view": {"contradicted": True}})
    read_again: Step = ("contradicted", "RECONCILED_SUCCESS", {"view": {"contradicted": True}, "run": "r-9"})
    over: Step = ("rechecked", "RECONCILED_SUCCESS", {"view": {"contradicted": False}})
    assert folded(PROPOSED, STARTED, settled, raised, noted).doubt == Doubt(DoubtSource.REMEDY, 4)
    assert folded(PROPOSED, STARTED, settled, raised, read_again).doubt == Doubt(DoubtSource.READING, 5)
    assert folded(PROPOSED, STARTED, settled, raised, actor="person").doubt == Doubt(DoubtSource.PERSON, 4)
    assert folded(PROPOSED, STARTED, settled, raised, over).doubt is None


WRONG, RIGHT = reading(Shown.DIFFERENT, "VALUE_MISMATCH"), reading(Shown.AS_REQUESTED, seq=7)


@pytest.mark.parametrize(
    ("readings", "remedies", "corrected"),
    [
        ((WRONG, RIGHT), {"correction": 6}, WRONG),
        ((WRONG, RIGHT), {"compensation": 6}, None),
        ((WRONG, RIGHT), {}, None),
        ((WRONG,), {"correction": 6}, None),
        ((), {"correction": 6}, None),
        ((RIGHT,), {"correction": 6}, None),
        ((reading(Shown.NO_EFFECT), RIGHT), {"correction": 6}, None),
        ((reading(Shown.DIFFERENT, seq=6), RIGHT), {"correction": 5}, None),
    ],
)
def test_a_difference_was_corrected_only_if_a_correction_came_between_it_and_a_reading_as_requested(
    readings: tuple[Any, ...], remedies: dict[str, int], corrected: Any
) -> None:
    assert facts_in(State.RECONCILED_SUCCESS, readings=readings, remedies=remedies).corrected == corrected
