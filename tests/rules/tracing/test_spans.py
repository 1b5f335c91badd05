"""Spans follow from events: nothing that is recorded later changes a span that has ended."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from ledger.record.rules.event_kinds import EVENT_KINDS
from ledger.record.rules.lifecycle import State
from reviews.tracing.rules.spans import Stage, Step, ended_spans, span_id, trace_of_action
from tests.support.verification_runs import entry

START = datetime(2026, 3, 4, 12, tzinfo=UTC)
KINDS = sorted(kind for kind, each in EVENT_KINDS.items() if "action" in each.subjects)
DETAILS: list[dict[str, Any]] = [
    *({}, {"attempt": 1}, {"attempt": 2}, {"approval_required": True}),
    *({"run": "r-1", "listed": {"number": 1}}, {"run": "r-1"}, {"run": "r-2", "listed": {"number": 2}}),
]


def step(number: int, kind: str = "", state: str = "PROPOSED", detail: dict[str, Any] | None = None) -> Step:
    at = START + timedelta(seconds=number)
    found = entry() | {"action_id": "a-1"}
    return Step(
        UUID(int=number), number, kind, state, state, at, at + timedelta(milliseconds=40), "system", found, detail or {}
    )


@st.composite
def histories(draw: st.DrawFn) -> list[Step]:
    rest = draw(
        st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from(list(State)), st.sampled_from(DETAILS)), max_size=14)
    )
    return [step(1, "proposed"), *(step(n, kind, str(at), said) for n, (kind, at, said) in enumerate(rest, 2))]


@given(histories(), st.data())
def test_an_ended_span_never_changes_afterwards(steps: list[Step], data: st.DataObject):
    until = data.draw(st.integers(1, len(steps)))
    early, late = trace_of_action(steps[:until]), trace_of_action(steps)
    assert early is not None
    assert late is not None
    seen = range(1, until + 1)
    assert ended_spans(early, seen) == ended_spans(late, seen)


@given(histories())
def test_every_span_has_a_parent_in_its_trace_and_ends_after_it_began(steps: list[Step]):
    trace = trace_of_action(steps)
    assert trace is not None
    known = {span.span_id for span in trace.spans}
    assert [span.stage for span in trace.spans].count(Stage.ACTION) == 1
    assert all(span.parent_id in known for span in trace.spans if span.stage is not Stage.ACTION)
    assert all(span.end is None or span.end >= span.start for span in trace.spans)


def test_a_span_id_is_sixteen_hex_digits_and_reproducible():
    assert span_id(Stage.GATE, UUID(int=7)) == span_id(Stage.GATE, UUID(int=7))
    assert span_id(Stage.GATE, UUID(int=7)) != span_id(Stage.GATE, UUID(int=8))
    assert len(span_id(Stage.GATE, UUID(int=7))) == 16


def test_an_erased_action_has_no_trace():
    erased = Step(UUID(int=1), 1, "proposed", "PROPOSED", "", START, START, "agent", {}, {})
    assert trace_of_action([erased]) is None
