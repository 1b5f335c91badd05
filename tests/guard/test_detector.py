"""The built-in detector of strict mode finds what reports, whatever it reports, and leaves what does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reviews.guarding.rules import detector
from reviews.guarding.rules.detector import features, reports_in

REPORTS = (
    "I have moved your dentist's appointment to Monday.",
    "Your ticket QX81ZT has been cancelled.",
    "I have booked you a table for eight.",
    "I've sent the parcel to 14 Mill Road.",
    "Your refund has been issued.",
)
QUIET = (
    "I can move your dentist's appointment to Monday, if you like.",
    "Please tell me the number of your ticket.",
    "Once you agree, we will send the parcel.",
    "The server could not be restarted.",
    "Which of the two tickets is it about?",
    "The blue one costs 19.99, the red one 24.99.",
)


@pytest.mark.parametrize("said", REPORTS)
def test_a_report_is_located_in_the_message(said: str):
    assert reports_in(f"Hello! {said} Anything else?") == ((7, 7 + len(said)),)


@pytest.mark.parametrize("said", QUIET)
def test_offers_questions_plans_denials_and_descriptions_are_not_reports(said: str):
    assert reports_in(said) == ()


def test_reports_hidden_by_invisible_characters_are_located():
    said = "Hello! I have bo\u200boked you a table for eight. Bye."
    [(start, end)] = reports_in(said)
    assert said[start:end] == "I have bo\u200boked you a table for eight."


def test_features_do_not_depend_on_values():
    one, other = (
        features(f"paid {value} to order {name}, told {mail}")
        for value, name, mail in (
            ("$12.50", "w2201", "ann@example.com"),
            ("$9,900.00", "w8834", "bob@example.org"),
        )
    )
    assert one == other


def test_the_shipped_weights_are_small_and_contain_no_values():
    model = json.loads((Path(detector.__file__).parent / "detector_weights.json").read_bytes())
    assert len(model["weights"]) <= 12_000
    assert not [name for name in model["weights"] if any(map(str.isdigit, name)) and not name.startswith("length ")]
