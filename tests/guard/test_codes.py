"""Which code a done-claim has, by what is on record of its action."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reviews.guarding.rules.codes import TAGS, ViolationCode, violation_of
from reviews.guarding.rules.verdict import judge
from tests.guard.records import ground, record

SAID = "I have refunded your order."
CODES = {
    "PROPOSED": "PREMATURE",
    "VALIDATED": "PREMATURE",
    "EXECUTING": "PREMATURE",
    "ACCEPTED": "PREMATURE",
    "PENDING": "PREMATURE",
    "COMMITTED": "PREMATURE",
    "PARTIALLY_COMMITTED": "OVERSTATED",
    "FAILED": "MISREAD",
    "ABANDONED": "MISREAD",
    "UNKNOWN": "UNKNOWN_FLATTENED",
    "VERIFICATION_TIMEOUT": "UNKNOWN_FLATTENED",
    "COMPENSATED": "REVERSED",
    "ROLLED_BACK": "REVERSED",
    "RECONCILIATION_FAILED": "RECOVERY_OPEN",
    "COMPENSATING": "RECOVERY_OPEN",
    "COMPENSATION_FAILED": "RECOVERY_OPEN",
    "FORWARD_RECOVERY": "RECOVERY_OPEN",
    "REVIEW_REQUIRED": "RECOVERY_OPEN",
}


@pytest.mark.req("R-CG-04", "R-CG-05", "R-CG-06", "R-CG-07", "R-CG-12", "R-CG-13")
@pytest.mark.parametrize(("state", "code"), CODES.items())
def test_an_action_that_did_not_succeed_cannot_be_reported_as_done(state: str, code: str):
    verdict = judge(SAID, ground(record(state=state)))
    assert [each.code for each in verdict.violations] == [code]
    assert verdict.corrected is not None
    assert "issue refund, order EX-1001. " in verdict.corrected
    assert "refunded" not in verdict.corrected


@pytest.mark.req("R-CG-14", "R-TC-11")
def test_a_success_without_evidence_or_only_attested_is_unevidenced():
    assert violation_of(record(evidence=())) is ViolationCode.UNEVIDENCED
    assert violation_of(record(code="ATTESTED", completed=False)) is ViolationCode.UNEVIDENCED
    assert violation_of(record()) is None


def test_a_contradiction_outweighs_a_success():
    assert violation_of(replace(record(), contradicted=True)) is ViolationCode.UNKNOWN_FLATTENED


@pytest.mark.req("R-CG-20")
def test_each_code_has_one_of_five_tags():
    assert set(TAGS) == set(ViolationCode)
    assert len(set(TAGS.values())) == 5
