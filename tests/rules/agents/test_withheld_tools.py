"""What a gateway reports of the tools that it holds back."""

from __future__ import annotations

from approvals.agents.rules.withheld_tools import MOST, Fate, Withheld, read, told

CHANGED, UNREGISTERED = Fate.CHANGED, Fate.UNREGISTERED


def test_a_report_is_the_same_whatever_the_order_of_the_list():
    one, two = Withheld(UNREGISTERED, "notes.b"), Withheld(CHANGED, "notes.a", "schema differ")
    assert told([one, two]) == told([two, one, two]) == (two, one)


def test_a_tool_that_is_named_twice_counts_once_by_its_graver_finding():
    assert told([Withheld(UNREGISTERED, "a"), Withheld(CHANGED, "a", "twice")]) == (Withheld(CHANGED, "a", "twice"),)


def test_the_names_of_a_server_are_made_harmless():
    (kept,) = told([Withheld(UNREGISTERED, "<b>`x`\u202e\n" + "y" * 500, "why\x00\n" + "z" * 900)])
    assert "<" not in kept.tool
    assert "\n" not in kept.tool + kept.why
    assert "\u202e" not in kept.tool
    assert len(kept.tool) <= 64
    assert len(kept.why) <= 200


def test_only_so_many_are_named():
    assert len(told(Withheld(UNREGISTERED, f"tool_{number:04}") for number in range(2 * MOST))) == MOST


def test_what_is_kept_is_read_as_it_was():
    report = told([Withheld(CHANGED, "a", "texts differ"), Withheld(UNREGISTERED, "b")])
    assert read([one.document() for one in report]) == report
