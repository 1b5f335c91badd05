"""The sentence at the top of Home says that nothing is wrong only where nothing is, and counts what is."""

from __future__ import annotations

import pytest

from console.home.headline import QUIET, describe_standing

QUIET_STANDING = {"cases": 0, "incidents": 0, "unknown": 0, "alerts": 0, "failing": (), "stake": ""}


def test_nothing_is_wrong_where_nothing_is_counted():
    assert describe_standing(**QUIET_STANDING) == QUIET
    assert QUIET == "Nothing is wrong on record: no open case or incident, no unknown outcome, no alert."


@pytest.mark.parametrize(
    ("counted", "sentence"),
    [
        ({"cases": 1}, "1 case needs a person."),
        ({"cases": 1200, "incidents": 1}, "1,200 cases and 1 incident need a person."),
        (
            {"cases": 2, "stake": "423.00 EUR too much"},
            "2 cases need a person. In your cases and those without an owner: 423.00 EUR too much.",
        ),
        ({"unknown": 1}, "1 outcome is not known."),
        ({"unknown": 3, "alerts": 1}, "3 outcomes are not known. 1 alert is open."),
        ({"failing": ("shop", "mail")}, "Readings of shop, mail fail."),
    ],
)
def test_what_is_wrong_is_counted_in_sentences(counted, sentence):
    assert describe_standing(**(QUIET_STANDING | counted)) == sentence
