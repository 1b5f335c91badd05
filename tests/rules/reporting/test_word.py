"""What is told of a person's word, by the reading that stands beside it."""

from __future__ import annotations

import pytest

from ledger.record.rules.outcomes import BY_WORD, Outcome
from reviews.reconciliation.rules.shown import LastReading, Shown, describe_difference, exact_difference, shown_by
from reviews.reporting.rules.word import word_texts
from tests.support.tables import every_row

TEN = "quantity 10 instead of 1"


def read(shown: Shown) -> LastReading:
    return LastReading(shown=shown, difference=TEN if shown is Shown.DIFFERENT else "")


@pytest.mark.req("R-UI-08")
@pytest.mark.parametrize(
    ("shown", "report", "effect"),
    [
        (Shown.NOT_READ, "it was not verified by a reading.", "Attested by a person, no reading"),
        (
            Shown.WEAK,
            "only a weak reading was made, which verifies nothing.",
            "Attested by a person, only a weak reading",
        ),
        (
            Shown.UNDECIDED,
            "the readings of the system of record settled nothing.",
            "Attested by a person, inconclusive readings",
        ),
        (
            Shown.AS_REQUESTED,
            "a reading of the system of record showed it as requested.",
            "Attested by a person; a reading showed it as requested",
        ),
        (
            Shown.NO_EFFECT,
            "a reading of the system of record showed no effect.",
            "Attested by a person; a reading showed no effect",
        ),
        (
            Shown.DIFFERENT,
            f"a reading of the system of record showed {TEN}.",
            f"Attested by a person; a reading showed {TEN}",
        ),
    ],
)
def test_an_attestation_is_shown_with_the_reading(shown: Shown, report: str, effect: str):
    texts = word_texts(Outcome.ATTESTED, read(shown))
    assert texts is not None
    assert texts.report == f"A person has attested that it took effect; {report}"
    assert texts.effect == effect


@every_row("outcome", sorted(BY_WORD - {Outcome.CLOSED_UNRESOLVED}))
@every_row("shown", list(Shown))
def test_an_attestation_says_no_reading_only_where_nothing_was_read(outcome: Outcome, shown: Shown):
    texts = word_texts(outcome, read(shown))
    assert texts is not None
    for said in (texts.headline, texts.effect):
        assert ("no reading" in said) <= (shown is Shown.NOT_READ), said


def test_accepted_values_are_shown_until_they_are_erased():
    there = word_texts(Outcome.ACCEPTED_AS_IT_IS, read(Shown.DIFFERENT))
    erased = word_texts(Outcome.ACCEPTED_AS_IT_IS, LastReading(shown=Shown.DIFFERENT))
    later = word_texts(Outcome.ACCEPTED_AS_IT_IS, read(Shown.AS_REQUESTED))
    reversing = word_texts(Outcome.ACCEPTED_AS_IT_IS, read(Shown.AS_REQUESTED), to_reverse=True)
    assert reversing is not None
    assert (reversing.report, reversing.headline, reversing.effect) == (
        "It took effect as requested and was to be reversed. A person has accepted it as it is.",
        "Accepted as it is by a person: it was to be reversed",
        "Accepted by a person: it was to be reversed",
    )
    assert there is not None
    assert erased is not None
    assert later is not None
    assert there.report == f"Not as requested: the system of record shows {TEN}. A person has accepted this."
    assert erased.headline == "Accepted as it is by a person: something else than was requested"
    assert later.report == (
        "It was not as requested, and a person accepted that. The newest reading shows it as requested."
    )
    assert (later.headline, later.effect) == (
        "Accepted as it was by a person; since then a reading showed it as requested",
        "Accepted by a person as it was; since then a reading showed it as requested",
    )


@pytest.mark.parametrize(
    ("codes", "shown"),
    [
        (("", "", "UNKNOWN", "UNKNOWN_STATE"), Shown.NOT_READ),
        (("shop", "REPLICA", "PENDING", ""), Shown.WEAK),
        (("shop", "PRIMARY", "UNKNOWN", "UNVERIFIABLE_STATE"), Shown.UNDECIDED),
        (("shop", "PRIMARY", "SUCCESS", ""), Shown.AS_REQUESTED),
        (("shop", "PRIMARY", "ABSENT", "STALE_STATE"), Shown.NO_EFFECT),
        (("shop", "PRIMARY", "MISMATCH", "NO_OP_FAILURE"), Shown.NO_EFFECT),
        (("shop", "PRIMARY", "MISMATCH", "VALUE_MISMATCH"), Shown.DIFFERENT),
        (("shop", "STRONG", "DUPLICATE", "DUPLICATE_SIDE_EFFECT"), Shown.DIFFERENT),
        (("shop", "STRONG", "PARTIAL", "PARTIAL_APPLICATION"), Shown.DIFFERENT),
    ],
)
def test_the_codes_of_a_run_determine_what_it_showed(codes: tuple[str, str, str, str], shown: Shown):
    source, consistency, result, discrepancy = codes
    assert shown_by(source=source, consistency=consistency, result=result, discrepancy=discrepancy) is shown


def found(asked: dict[str, object], there: dict[str, object], *effects: tuple[str, str, int]) -> dict[str, object]:
    return {
        "layers": {"sr": asked, "sa": there},
        "verdict": {"effects": [{"name": name, "found": status, "count": count} for name, status, count in effects]},
    }


@pytest.mark.parametrize(
    ("findings", "said"),
    [
        (found({"quantity": 1}, {"quantity": 10}), TEN),
        (
            found({"amount": 1250, "currency": "EUR"}, {"amount": 9999, "currency": "USD"}),
            "amount 99.99 USD instead of 12.50 EUR, currency USD instead of EUR",
        ),
        (found({}, {}, ("refund", "DUPLICATE", 3)), "refund 3 times instead of once"),
        (found({}, {}, ("refund", "PRESENT", 1), ("notice", "ABSENT", 0)), "refund, but no notice"),
        (
            found({f"f{n}": n for n in range(7)}, {f"f{n}": n + 1 for n in range(7)}),
            ", ".join(f"f{n} {n + 1} instead of {n}" for n in range(5)) + " and 2 more",
        ),
        (found({"title": "a"}, {"title": "x\n\u202e" + "y" * 99}), f"title “x {'y' * 57}…” instead of a"),
    ],
)
def test_a_difference_is_shown_with_its_values(findings: dict[str, object], said: str):
    assert describe_difference(findings, None) == said


def test_differences_are_compared_before_they_are_shortened():
    one, other = (found({"title": "zero"}, {"title": "y" * 99 + end}) for end in "ab")
    assert describe_difference(one, None) == describe_difference(other, None)
    assert exact_difference(one, None) != exact_difference(other, None)
