"""What one action adds to the metrics, by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from console.metrics.rules.facts import (
    COUNTS,
    STANDINGS,
    ActionHistory,
    HistoryEvent,
    ReadingRun,
    is_complete,
    measure_action,
    standing_of,
)
from ledger.record.rules.outcomes import Outcome

AT = datetime(2026, 11, 20, 10, 59, 30, tzinfo=UTC)
USUAL = (
    ("proposed", "PROPOSED", 0),
    ("validated", "VALIDATED", 1),
    ("execution_started", "EXECUTING", 60),
    ("observed", "EXECUTING", 62),
    ("observed", "PENDING", 62),
)


def events(*steps: tuple[str, str, int]) -> list[HistoryEvent]:
    """A history in which each event continues the one before; a step is its kind, its state and its second."""
    made: list[HistoryEvent] = []
    for number, (kind, state, second) in enumerate(steps, 1):
        last = made[-1] if made else None
        made.append(
            HistoryEvent(
                id=UUID(int=number),
                seq=number,
                kind=kind,
                from_state=last.state if last else "",
                state=state,
                at=AT + timedelta(seconds=second),
                prev=last.entry_hash if last else None,
                entry_hash=bytes([number]) * 32,
                commits_entry=True,
                verification="v1" if kind == "proposed" else None,
            )
        )
    return made


def run(result: str, second: int, *, discrepancy: str = "", consistency: str = "PRIMARY") -> ReadingRun:
    return ReadingRun(result, discrepancy, consistency, AT + timedelta(seconds=second))


def history(*steps: tuple[str, str, int], outcome: Outcome = Outcome.VERIFIED, **changes: object) -> ActionHistory:
    made = ActionHistory(events=events(*USUAL, *steps), outcome=outcome, mutating=True, contradicted=False)
    return replace(made, **changes)  # type: ignore[arg-type]


def verified(**changes: object) -> ActionHistory:
    steps = (("verified", "COMMITTED", 70), ("reconciled", "RECONCILED_SUCCESS", 70))
    return history(*steps, **{"runs": [run("SUCCESS", 70)]} | changes)


def test_an_action_that_a_reading_proved_counts_as_executed_read_back_and_verified():
    found = measure_action(verified())
    assert found.counts == {
        "actions": 1,
        "complete_records": 1,
        "readings": 1,
        "executed": 1,
        "verified_success": 1,
        "read_back": 1,
        "pending": 1,
    }
    assert (found.verification_ms, found.reconcile_ms) == (8_000, 10_000)
    assert found.version_digest == "v1"


def test_an_action_counts_in_the_period_of_its_first_start():
    later = history(
        ("failed", "FAILED", 100),
        ("retry_allowed", "VALIDATED", 110),
        ("execution_started", "EXECUTING", 86_400),
        ("observed", "PENDING", 86_402),
        ("verified", "COMMITTED", 86_500),
        ("reconciled", "RECONCILED_SUCCESS", 86_500),
        runs=[run("SUCCESS", 86_500)],
    )
    found = measure_action(later)
    assert found.at == AT + timedelta(seconds=60)
    assert (found.counts["repeats"], found.counts["repeats_absorbed"]) == (1, 1)


def test_an_action_that_never_started_counts_only_as_proposed():
    steps = (("proposed", "PROPOSED", 0), ("validated", "VALIDATED", 1), ("rejected", "FAILED", 900))
    found = measure_action(
        ActionHistory(events=events(*steps), outcome=Outcome.REJECTED, mutating=True, contradicted=False)
    )
    assert found.at == AT
    assert found.counts == {"actions": 1, "complete_records": 1, "never_ran": 1}
    assert found.verification_ms is found.reconcile_ms is None


def test_a_read_counts_as_answered_and_never_as_verified():
    found = measure_action(verified(outcome=Outcome.ANSWERED, mutating=False))
    assert found.counts == {"actions": 1, "complete_records": 1, "answered": 1}


def test_an_action_that_found_nothing_to_change_is_no_verified_success():
    found = measure_action(verified(outcome=Outcome.UNCHANGED))
    assert found.counts["unchanged"] == 1
    assert "verified_success" not in found.counts


def test_a_contradicted_success_counts_as_disproved():
    found = measure_action(verified(outcome=Outcome.CONTRADICTED, contradicted=True))
    assert "verified_success" not in found.counts
    assert {"verification_failed", "mismatched", "unsettled"} <= found.counts.keys()


def test_an_attested_outcome_does_not_count_as_verified():
    found = measure_action(
        history(
            ("outcome_unknown", "UNKNOWN", 90),
            ("held", "REVIEW_REQUIRED", 91),
            ("attested_present", "RECONCILED_SUCCESS", 500),
            outcome=Outcome.ATTESTED,
            runs=[run("UNKNOWN", 90)],
        )
    )
    assert {"unknown", "reviewed", "ended_by_word"} <= found.counts.keys()
    assert found.counts.keys().isdisjoint({"verified_success", "read_back"})
    assert found.verification_ms is None


def test_a_discrepancy_is_counted_by_the_class_that_a_reading_found():
    for name, count in (
        ("VALUE_MISMATCH", None),
        ("DUPLICATE_SIDE_EFFECT", "duplicated"),
        ("STALE_STATE", "stale_state"),
    ):
        found = measure_action(
            history(
                ("reconciliation_failed", "RECONCILIATION_FAILED", 70),
                outcome=Outcome.ROLLING_BACK,
                runs=[run("MISMATCH", 70, discrepancy=name)],
            )
        )
        assert {"verification_failed", "mismatched", "read_back"} <= found.counts.keys()
        assert count is None or found.counts[count] == 1


def test_a_stale_read_is_counted_if_a_later_reading_shows_the_write_or_none_ever_settles_it():
    early = run("PENDING", 65, consistency="REPLICA")
    shown = measure_action(verified(runs=[early, run("SUCCESS", 70)]))
    assert shown.counts["stale_reads"] == 1
    assert measure_action(verified(runs=[early, early, early])).counts["stale_reads"] == 1
    strong = replace(early, consistency="STRONG")
    for runs in ([run("SUCCESS", 65), early], [strong, run("SUCCESS", 70)], [strong], [early, run("ABSENT", 70)]):
        assert "stale_reads" not in measure_action(verified(runs=runs)).counts


def test_a_repeat_with_a_second_effect_does_not_count_as_absorbed():
    found = measure_action(
        history(
            ("failed", "FAILED", 100),
            ("retry_allowed", "VALIDATED", 110),
            ("execution_started", "EXECUTING", 120),
            ("observed", "PENDING", 122),
            outcome=Outcome.NEEDS_REVIEW,
            runs=[run("DUPLICATE", 130, discrepancy="DUPLICATE_SIDE_EFFECT")],
        )
    )
    assert found.counts["repeats"] == 1
    assert "repeats_absorbed" not in found.counts


def test_a_compensation_counts_as_successful_only_after_a_reading():
    undone = ("partially_reconciled", "PARTIALLY_COMMITTED", 70), ("ordered", "COMPENSATING", 71)
    by_reading = measure_action(history(*undone, ("compensated", "COMPENSATED", 99), outcome=Outcome.COMPENSATED))
    assert {"partial", "compensations", "compensated", "ended_reversed"} <= by_reading.counts.keys()
    by_word = measure_action(
        history(*undone, ("compensation_attested", "COMPENSATED", 99), outcome=Outcome.COMPENSATED_AS_ATTESTED)
    )
    assert by_word.counts.keys().isdisjoint({"compensated", "ended_reversed"})
    failed = measure_action(
        history(*undone, ("compensation_failed", "COMPENSATION_FAILED", 99), outcome=Outcome.NEEDS_REVIEW)
    )
    assert (failed.counts["compensations_failed"], failed.counts["compensations"]) == (1, 1)


@pytest.mark.req("R-MT-08")
def test_an_early_or_filed_completion_claim_counts_as_false_success():
    done = verified()
    early, settled = done.events[4].id, done.events[-1].id
    assert "false_success" not in measure_action(replace(done, reported={settled})).counts
    assert measure_action(replace(done, reported={early})).counts["false_success"] == 1
    filed = history(("false_success_filed", "PENDING", 80), outcome=Outcome.VERIFYING)
    assert measure_action(filed).counts["false_success"] == 1


def test_only_a_verification_beyond_its_deadline_is_pending_too_long():
    found = measure_action(history(("verification_timed_out", "VERIFICATION_TIMEOUT", 700), outcome=Outcome.UNKNOWN))
    assert (found.counts["pending"], found.counts["pending_over_sla"]) == (1, 1)
    assert "pending_over_sla" not in measure_action(verified()).counts


def test_a_record_is_complete_only_without_gaps_broken_hashes_and_uncommitted_entries():
    whole = events(*USUAL)
    assert is_complete(whole)
    assert not is_complete(whole[:2] + whole[3:])
    assert not is_complete([*whole[:2], replace(whole[2], prev=b"x" * 32), *whole[3:]])
    assert not is_complete([*whole[:4], replace(whole[4], commits_entry=False)])


def test_every_outcome_has_one_standing_and_every_count_a_name():
    assert {standing_of(outcome) for outcome in Outcome} == set(STANDINGS)
    assert len(set(COUNTS)) == len(COUNTS)
    assert measure_action(verified()).counts.keys() <= set(COUNTS)
