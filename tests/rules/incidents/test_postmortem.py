"""Post-mortems: all facts are in, and no text from outside becomes markup."""

from __future__ import annotations

from datetime import UTC, datetime

from reviews.incidents.rules.postmortem import (
    AffectedSubject,
    CompletedStep,
    PlacedFreeze,
    PostmortemFacts,
    TimelineEvent,
    render_markdown,
)

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def facts(**changes):
    plain = {
        "id": "i-1",
        "title": "Two refunds",
        "kind": "operations",
        "severity": "High",
        "state": "Closed",
        "opened_at": AT,
        "closed_at": AT,
        "note": "The key is sent now.",
        "runbook": "Duplicate effect",
        "as_of": AT,
        "actions": (AffectedSubject(id="a-1", title="Refund order 1", state="Failed", found="Duplicate"),),
        "freezes": (PlacedFreeze(what="tool x", reason="Unsafe.", placed_at=AT, lifted_at=None, decision="kept"),),
        "steps": (
            CompletedStep(text="Count.", who="Ann", at=AT, evidence="two"),
            CompletedStep(text="Lift.", who="", at=None, evidence=""),
        ),
        "lines": (TimelineEvent(at=AT, about="Incident", what="Closed", who="Ann", detail="", seq=4, hash="ab" * 32),),
    }
    return PostmortemFacts(**(plain | changes))


def test_a_postmortem_contains_every_fact():
    told = render_markdown(facts())
    for part in (
        "# Two refunds",
        "Severity: High",
        "a-1",
        "tool x",
        "kept",
        "[x] Count",
        "[ ] Lift",
        "4, abababababababab",
    ):
        assert part in told
    assert "2026-01-02 03:04:05 UTC" in told


def test_text_from_outside_is_escaped_in_a_postmortem():
    told = render_markdown(facts(title="# Big <script>\n| a | [b](http://c)", note="*none*"))
    assert "<script>" not in told
    assert "](http" not in told
    assert "\\*none\\*" in told
    assert told.count("\n# ") == 0


def test_an_incident_without_actions_omits_the_empty_sections():
    told = render_markdown(facts(actions=(), freezes=(), steps=(), note="", closed_at=None))
    assert "not closed" in told
    assert "## Actions" not in told
