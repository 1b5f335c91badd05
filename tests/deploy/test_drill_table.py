"""The table of the drills: a row for each question, and an exit code that hides nothing."""

from __future__ import annotations

from math import nan

import pytest

from deploy.drills import table
from deploy.drills.drill import Drill, Outcome
from deploy.drills.traffic import Count, Figure


def count(*figures: Figure, lost: int = 0, stuck: int = 0) -> Count:
    return Count(
        wishes=20,
        effects=20,
        lost=["lost.md"] * lost,
        doubled=[],
        doubled_after_reading=[],
        false=[],
        stuck=["stuck.md PENDING"] * stuck,
        amiss=[],
        figures=list(figures),
    )


def printed(outcome: Outcome) -> list[tuple[str, ...]]:
    return [row[2:6] for row in table._rows("keys", outcome, ("1 to 2", "30 s"))]


def test_a_figure_misses_its_aim_above_it_and_where_there_is_no_value():
    values = (4.9, 5.0, 5.1, nan)
    found = [Figure(asked="a wait", value=value, most=5.0) for value in values]
    assert [each.missed for each in found] == [False, False, True, True]
    assert count(found[2]).wrong == ["a wait: 5.10 s, aim ≤ 5 s; "]
    assert not Figure(asked="a wait", value=900.0).missed


def test_of_several_rounds_the_longest_time_counts_and_numbers_are_added():
    longest = Figure(asked="a wait", value=2.0, about=["one"])
    longest.add(Figure(asked="a wait", value=3.0, about=["another"]))
    longest.add(Figure(asked="a wait", value=1.0, about=["a third"]))
    refused = Figure(asked="refused", value=0, of=100, most=0)
    refused.add(Figure(asked="refused", value=2, of=50, most=0))
    assert (str(longest), longest.about, str(refused), refused.missed) == ("3.00 s", ["another"], "2 of 150", True)


def test_each_question_has_a_row_with_its_figure_its_aim_and_its_answer():
    late, told = Figure(asked="a takeover", value=7.0, most=5.0), Figure(asked="a restore", value=3.0)
    assert printed(Outcome(1, count(late, told, lost=2))) == [
        (table.WRONG, "2, 0, 0, 0 of 20", "0, 0, 0, 0", "**missed**"),
        ("a takeover", "7.00 s", "≤ 5 s", "**missed**"),
        ("a restore", "3.00 s", "", ""),
    ]


def test_what_a_drill_is_known_to_lose_is_counted_and_allowed_and_nothing_else_is():
    assert printed(Outcome(0, count(lost=2), loses=True)) == [(table.WRONG, "2, 0, 0, 0 of 20", "any, 0, 0, 0", "met")]
    assert printed(Outcome(1, count(stuck=1), loses=True))[0][3] == "**missed**"


@pytest.mark.parametrize(
    ("codes", "code"), [((0, 0), 0), ((0, 3), 3), ((3, 2, 0), 2), ((0, 3, 2, 1), 1)], ids=lambda each: str(each)
)
def test_what_was_missed_not_finished_or_not_run_at_all_is_no_success(codes: tuple[int, ...], code: int):
    assert table.worst(codes) == code


def test_a_drill_that_breaks_off_has_a_row_that_says_so(monkeypatch: pytest.MonkeyPatch):
    def broken() -> Drill:
        raise KeyError("no such server")

    monkeypatch.setitem(table.SHORT, "keys", table.Short(broken, "", "nothing"))
    outcome = table.run_short("keys")
    assert outcome.code == 2
    assert printed(outcome) == [(table.WRONG, "", "", "**could not go on**: KeyError: 'no such server'")]
