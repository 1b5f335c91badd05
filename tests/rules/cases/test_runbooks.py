"""Runbooks: every kind of trouble has one, the taxonomy names its fix, and ticks are read from events."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ledger.record.rules.refusals import NotFound
from reviews.cases.rules import runbooks
from reviews.cases.rules.runbooks import RUNBOOKS
from reviews.reconciliation.rules.discrepancies import Discrepancy
from reviews.recovery.rules import recovery_table
from tests.support.tables import every_row

AT = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
TAXONOMY = {
    "PHANTOM_ACTION",
    "MISREAD_SUCCESS",
    "STALE_STATE_ACTION",
    "IMAGINED_CAPABILITY",
    "SILENT_CHAIN_FAILURE",
}


@pytest.mark.parametrize("discrepancy", Discrepancy)
def test_every_discrepancy_has_a_runbook_of_its_own(discrepancy):
    assert discrepancy in runbooks.for_case(reason="RT-99 HOLD", discrepancy=discrepancy).discrepancies


@every_row("row", recovery_table.ROWS)
def test_every_row_of_the_policy_leads_to_a_runbook(row):
    book = runbooks.for_case(reason=f"{row.id} {row.action}", trigger=row.trigger)
    assert row.trigger in book.triggers or row.id == "RT-99"


@pytest.mark.req("R-RB-02")
def test_the_five_parts_of_the_taxonomy_each_name_a_structural_fix():
    named = {book.taxonomy: book.structural_fix for book in RUNBOOKS.values() if book.taxonomy}
    assert set(named) == TAXONOMY
    assert all(named.values())


@pytest.mark.req("R-RB-12")
@pytest.mark.parametrize(
    "key",
    [
        *("false-success", "wrong-target", "duplicate", "failed-compensation", "verifier-outage", "unknown-high-risk"),
        *("phantom-rate", "agent-acceptance", "provider-outage", "stuck-pending", "policy-mismatch", "token-mismatch"),
    ],
)
def test_the_required_runbooks_exist(key):
    assert len(RUNBOOKS[key].steps) >= 4


def test_the_phantom_rate_has_a_checklist_of_three_causes():
    causes = [step for step in RUNBOOKS["phantom-rate"].steps if step.id.startswith("cause-")]
    assert len(causes) == 3
    assert runbooks.for_cause("phantom:support") is RUNBOOKS["phantom-rate"]


def test_the_reason_and_trigger_of_a_case_outrank_its_discrepancy():
    found = runbooks.for_case(
        reason="RT-21 FAIL_CLOSED", discrepancy="VALUE_MISMATCH", trigger="APPROVAL_TOKEN_MISMATCH"
    )
    assert found.key == "token-mismatch"
    assert runbooks.for_case(reason="CONTRADICTED", discrepancy="VALUE_MISMATCH").key == "contradicted"
    assert runbooks.for_case(reason="HELD").key == "held"


def test_every_step_has_a_unique_id_and_is_a_sentence():
    for book in RUNBOOKS.values():
        ids = [step.id for step in book.steps]
        assert len(ids) == len(set(ids)), book.key
        assert all(step.text.endswith((".", "?")) for step in book.steps), book.key
        assert set(book.strategies) <= {row["strategy"] for row in recovery_table.TABLE["strategy_matrix"]}


@pytest.mark.req("R-RP-41")
def test_the_strategy_matrix_has_six_complete_rows():
    rows = recovery_table.TABLE["strategy_matrix"]
    assert len(rows) == 6
    assert all(row[name] for row in rows for name in ("isolation", "timing", "cost", "bounds", "fit"))


def test_the_ticked_steps_follow_from_the_events():
    done = {"runbook": "held", "step": "why", "evidence": "read"}
    events = [("step_ticked", "ann", AT, done), ("commented", "ann", AT, {})]
    assert runbooks.ticks_by_step(events)["held", "why"].evidence == "read"
    assert runbooks.ticks_by_step([*events, ("step_unticked", "bob", AT, done)]) == {}


def test_an_unknown_step_is_refused_and_a_removed_one_keeps_its_name():
    with pytest.raises(NotFound, match="This runbook has no such step"):
        runbooks.find_step("held", "dance")
    assert runbooks.text_of("held", "dance") == "dance"


def test_no_code_appears_in_two_runbooks():
    plain = json.loads(Path(runbooks.__file__).with_name("runbooks.json").read_text())["runbooks"]
    for field in ("discrepancies", "triggers", "reasons", "causes"):
        named = [code for book in plain for code in book[field]]
        assert len(named) == len(set(named)), field
