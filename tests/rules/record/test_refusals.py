"""A refusal: its sentence, and what it leaves on record."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ledger.record.rules.refusals import (
    AlreadyDecided,
    NotFound,
    ProofNeeded,
    RefusalRecord,
    Refused,
    leave_on_record,
)

FIRST, SECOND, THIRD = (RefusalRecord(at=datetime(2026, 3, 1, tzinfo=UTC) + timedelta(hours=n)) for n in range(3))


@pytest.mark.parametrize(
    ("refusal", "sentence"),
    [
        (NotFound(), "Not found."),
        (NotFound("Case"), "Case not found."),
        (NotFound("Override", detail="This override is not in force."), "This override is not in force."),
        (ProofNeeded(), "The policy requires stronger authentication."),
    ],
)
def test_a_refusal_has_its_sentence_as_text(refusal: Refused, sentence: str):
    assert (refusal.detail, str(refusal)) == (sentence, sentence)


def test_records_of_an_outer_operation_precede_those_of_the_refusal():
    with (
        pytest.raises(AlreadyDecided) as caught,
        leave_on_record(lambda _: FIRST),
        leave_on_record(lambda _: SECOND),
    ):
        raise AlreadyDecided(records=(THIRD,))
    assert caught.value.records == (FIRST, SECOND, THIRD)


def test_only_refusals_of_the_given_kind_get_a_record():
    with pytest.raises(AlreadyDecided) as caught, leave_on_record(lambda _: FIRST, of=ProofNeeded):
        raise AlreadyDecided
    assert caught.value.records == ()


def test_a_refusal_without_a_description_leaves_no_record():
    with pytest.raises(NotFound) as caught, leave_on_record(lambda _: None):
        raise NotFound("Approval")
    assert caught.value.records == ()
