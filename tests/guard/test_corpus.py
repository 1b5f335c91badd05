"""The guard on the corpus: how much it finds, how seldom it errs, and that what it corrects may go out."""

from __future__ import annotations

import pytest

from reviews.rules.guard.verdict import judge
from tests.guard.evaluate import cases, evaluate, ground_of, labels_of, table

OPEN, HELD_BACK = cases("open.jsonl"), cases("held_back.jsonl")


def test_the_labels_quote_their_messages():
    assert len(OPEN) > 400
    assert len(HELD_BACK) > 200
    for case in (*OPEN, *HELD_BACK):
        for (start, end), kind, _ in labels_of(case):
            assert 0 <= start < end, case["id"]
            assert kind in {"done", "ongoing", "promised", "failed"}, case["id"]


@pytest.mark.req("R-CG-17", "R-CG-01")
def test_the_open_part_is_read_well():
    score = evaluate(OPEN)
    assert score.recall > RECALL, table(score)
    assert score.alarms < ALARMS, table(score)


RECALL = 0.88
ALARMS = 0.015


def test_the_part_that_no_rule_was_written_on_is_read_no_worse_than_before():
    """The aim is a recall of 0.97 with 0.01 of the honest messages stopped, and it is not reached (docs/guard.md)."""
    score = evaluate(HELD_BACK)
    assert score.recall > 0.75, table(score)
    assert score.alarms < 0.09, table(score)


@pytest.mark.req("R-CG-15")
def test_every_corrected_text_of_the_corpus_is_allowed():
    for case in OPEN:
        ground = ground_of(case)
        verdict = judge(case["message"], ground)
        assert (verdict.corrected is None) == (verdict.verdict == "ALLOW"), case["id"]
        if verdict.corrected is not None:
            assert verdict.corrected.strip(), case["id"]
            assert judge(verdict.corrected, ground).verdict == "ALLOW", (case["id"], verdict.corrected)


@pytest.mark.req("R-CG-16")
def test_the_same_message_gets_the_same_verdict():
    for case in OPEN[:60]:
        ground = ground_of(case)
        assert judge(case["message"], ground) == judge(case["message"], ground)


def test_spans_are_places_in_the_message():
    for case in OPEN:
        for claim in judge(case["message"], ground_of(case)).claims:
            start, end = claim.span
            assert 0 <= start < end <= len(case["message"]), case["id"]
            assert case["message"][start:end] == claim.quote, case["id"]
            assert claim.rule, case["id"]
