"""Outcomes: one word for how an action stands."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from console.web import labels
from ledger.record.rules.lifecycle import State
from ledger.record.rules.outcomes import BY_STATE, WORDS, Outcome, outcome_of
from tests.support.standings import EXAMPLES, Standing

ROOT = Path(__file__).resolve().parents[3]


def word(state: State, reached_by: str = "", **changes) -> str:
    return WORDS[outcome_of(replace(Standing(state, reached_by), **changes))]


def test_every_outcome_has_its_own_word():
    assert set(WORDS) == set(EXAMPLES) == set(Outcome)
    assert len(set(WORDS.values())) == len(Outcome)
    assert set(BY_STATE) == set(State)


@pytest.mark.parametrize(
    ("reached_by", "said"),
    [
        ("rejected", "Rejected"),
        ("changes_requested", "Changes requested"),
        ("superseded", "Replaced"),
        ("approval_expired", "Expired"),
        ("validation_failed", "Blocked by the gate"),
        ("preflight_refused", "Blocked by the gate"),
        ("cancelled", "Cancelled"),
        ("failed_by_review", "Settled as failed"),
        ("attested_absent", "Attested as not done (not verified)"),
        ("failed", "Failed"),
    ],
)
def test_a_failed_action_names_the_reason(reached_by: str, said: str):
    assert word(State.FAILED, reached_by) == said


def test_only_a_reading_makes_a_success_verified():
    assert word(State.RECONCILED_SUCCESS, "reconciled") == "Verified"
    assert word(State.RECONCILED_SUCCESS, "attested_present") == "Attested (not verified)"


def test_an_attested_reversal_is_not_shown_as_verified():
    assert word(State.COMPENSATED, "compensated") == "Compensated"
    assert word(State.COMPENSATED, "compensation_attested") == "Compensated (attested, not verified)"
    assert word(State.RECONCILED_SUCCESS, "compensated", reversed=True) == "Compensated"
    assert (
        word(State.RECONCILED_SUCCESS, "compensation_attested", reversed=True) == WORDS[Outcome.COMPENSATED_AS_ATTESTED]
    )


def test_a_contradiction_outweighs_every_other_outcome():
    for state in State:
        assert word(state, "attested_present", contradicted=True, reversed=True) == "Contradicted"


def test_a_read_is_only_called_answered():
    assert word(State.RECONCILED_SUCCESS, "reconciled", side_effect_class="READ_ONLY") == "Answered"
    assert word(State.RECONCILED_SUCCESS, "attested_present", side_effect_class="READ_ONLY") != "Answered"


def test_an_action_that_found_nothing_to_change_is_no_verified_one():
    """An undo that found nothing to undo, too."""
    assert word(State.RECONCILED_SUCCESS, "reconciled", discrepancy="NO_OP_SUCCESS") == "No change needed"
    assert word(State.RECONCILED_SUCCESS, "reconciled", discrepancy="PROPAGATION_DELAY") == "Verified"
    assert word(State.RECONCILED_SUCCESS, "attested_present", discrepancy="NO_OP_SUCCESS") == "Attested (not verified)"


@pytest.mark.parametrize(
    ("entry", "label"),
    [
        ({"reconciliation": {"discrepancy_class": "NO_OP_SUCCESS"}}, "No change needed"),
        ({"reconciliation": {"discrepancy_class": None}}, "Verified"),
        ({"side_effect_class": "READ_ONLY"}, "Answered"),
        (None, "Reconciled"),
    ],
)
def test_the_last_step_of_an_action_is_labelled_as_its_outcome(entry: dict[str, Any] | None, label: str):
    """And by its event alone where the entry that tells them apart is not at hand."""
    assert labels.step_label("action", "reconciled", "RECONCILED_SUCCESS", entry=entry) == label
    assert (
        labels.step_label("action", "attested_present", "RECONCILED_SUCCESS", entry=entry) == "Attested (not verified)"
    )
    assert labels.step_label("action", "answered", "RECONCILED_SUCCESS", entry=entry) == "Answered"


def test_waiting_for_approval_and_ready_to_run_have_different_words():
    assert word(State.VALIDATED, "validated") == "Waiting for approval"
    assert word(State.VALIDATED, "approval_granted") == "Approved, ready to run"
    assert word(State.VALIDATED, "approval_asked_again") == "Waiting for approval"
    assert word(State.VALIDATED, "validated", approval_id=None) == "Ready to run"


def test_the_docs_list_each_outcome_with_its_word():
    listed = (ROOT / "docs" / "api.md").read_text()
    for outcome, word in WORDS.items():
        assert f"| `{outcome}` | {word} |" in listed
