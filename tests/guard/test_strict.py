"""Strict mode: a report that is tied to no action is marked or held back; everything else is judged as always."""

from __future__ import annotations

from reviews.guarding.rules.verdict import Strictness, judge
from tests.guard.records import ground, record

SLY = "Your money will warm your heart from today on."
SAID = f"Hello. {SLY} Anything else?"
REPORT = ((7, 7 + len(SLY)),)


def test_an_uncited_report_is_marked_or_held_back_and_the_rest_is_kept():
    marked = judge(SAID, ground(record()), strict=Strictness(REPORT, "mark"))
    assert marked.verdict == "ALLOW"
    assert marked.corrected == f"Hello. {SLY} (not confirmed by the record) Anything else?"
    held = judge(SAID, ground(record()), strict=Strictness(REPORT, "hold"))
    assert [(each.code, each.rule, each.claim) for each in held.violations] == [("UNEVIDENCED", "uncited", SLY)]
    assert held.corrected == "Hello. (A sentence was held back: it names no action on record.) Anything else?"


def test_a_report_that_cites_or_that_the_record_bears_out_is_neither():
    cited = "It is done: {{action:call-7}}"
    strict = Strictness(((0, len(cited)),), "hold")
    assert judge(cited, ground(record()), strict=strict).verdict == "ALLOW"
    known = "I have refunded your order."
    assert judge(known, ground(record()), strict=Strictness(((0, len(known)),), "hold")).corrected is None


def test_the_detector_judges_no_truth_and_clears_nothing():
    failed = record(state="FAILED", evidence=())
    said = "I have refunded your order."
    assert judge(said, ground(failed), strict=Strictness((), "mark")) == judge(said, ground(failed))
