"""What a gateway reports of the tools that it holds back."""

from __future__ import annotations

from approvals.agents.rules.relevance import MOST, WithheldReason, WithheldTool, normalise_report, read_report

CHANGED, UNREGISTERED = WithheldReason.CHANGED, WithheldReason.UNREGISTERED


def test_a_report_does_not_depend_on_the_order_of_the_list():
    one, two = WithheldTool(UNREGISTERED, "notes.b"), WithheldTool(CHANGED, "notes.a", "schema differ")
    assert normalise_report([one, two]) == normalise_report([two, one, two]) == (two, one)


def test_a_tool_named_twice_keeps_its_more_serious_finding():
    assert normalise_report([WithheldTool(UNREGISTERED, "a"), WithheldTool(CHANGED, "a", "twice")]) == (
        WithheldTool(CHANGED, "a", "twice"),
    )


def test_names_from_a_server_are_sanitised_and_shortened():
    (kept,) = normalise_report([WithheldTool(UNREGISTERED, "<b>`x`\u202e\n" + "y" * 500, "why\x00\n" + "z" * 900)])
    assert "<" not in kept.tool
    assert "\n" not in kept.tool + kept.why
    assert "\u202e" not in kept.tool
    assert len(kept.tool) <= 64
    assert len(kept.why) <= 200


def test_the_number_of_named_tools_is_limited():
    assert len(normalise_report(WithheldTool(UNREGISTERED, f"tool_{number:04}") for number in range(2 * MOST))) == MOST


def test_a_stored_report_reads_back_unchanged():
    report = normalise_report([WithheldTool(CHANGED, "a", "texts differ"), WithheldTool(UNREGISTERED, "b")])
    assert read_report([one.document() for one in report]) == report
