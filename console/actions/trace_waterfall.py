"""The trace of an action as a waterfall: each span a row, with a bar at its time."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from reviews.tracing.rules.spans import ActionTrace, Span, Stage

WIDTH: Final = 400
HEIGHT: Final = 12
_LEAST: Final = 3
"""A span that took no time is still to be seen."""
WORDS: Final[dict[Stage, str]] = {
    Stage.ACTION: "The whole action",
    Stage.GATE: "Checked by the gate",
    Stage.APPROVAL: "Waited for approval",
    Stage.PREFLIGHT: "Target read before the start",
    Stage.CLAIM: "Waited for an executor",
    Stage.START: "Claimed, not yet started",
    Stage.EFFECT: "With the executor",
    Stage.OBSERVATION: "The tool answered",
    Stage.READBACK: "System of record read",
    Stage.RECONCILIATION: "Compared with what was intended",
    Stage.RECOVERY: "Recovery",
    Stage.REPORT: "Report issued",
}


def waterfall(trace: ActionTrace, *, slug: str, action_id: UUID, as_of: datetime) -> list[dict[str, Any]]:
    """The rows in order of the spans' start; a running span extends to now."""
    first = min(span.start for span in trace.spans)
    last = max([span.end or max(as_of, span.start) for span in trace.spans])
    parents = {span.span_id: span.parent_id for span in trace.spans}
    return [
        {
            "word": _word(span),
            "span": span,
            "depth": _depth(span.span_id, parents),
            "took": _spell_duration((span.end or max(as_of, span.start)) - span.start),
            "bar": _bar(span, first, last, as_of),
            "href": reverse("action-entry", args=[slug, action_id, span.seq]),
        }
        for span in trace.spans
    ]


def _word(span: Span) -> str:
    """The label of a span. A target whose reading was only requested is not called read."""
    if span.stage is Stage.PREFLIGHT and (span.end is None or span.status == "error"):
        return "Read of the target requested before the start"
    return WORDS[span.stage]


def _depth(span_id: str, parents: dict[str, str | None]) -> int:
    depth, at = 0, parents.get(span_id)
    while at in parents:
        depth, at = depth + 1, parents[at]
    return depth


def _bar(span: Span, first: datetime, last: datetime, as_of: datetime) -> SafeString:
    whole = max((last - first).total_seconds(), 0.001)
    end = span.end or max(as_of, span.start)
    x = min((span.start - first).total_seconds() / whole * WIDTH, WIDTH - _LEAST)
    width = max((end - span.start).total_seconds() / whole * WIDTH, _LEAST)
    return format_html(
        '<svg class="span-bar" viewBox="0 0 {} {}" preserveAspectRatio="none" aria-hidden="true" data-status="{}"'
        ' data-open="{}"><rect x="{}" y="2" width="{}" height="8"/></svg>',
        *(WIDTH, HEIGHT, span.status, "no" if span.end else "yes", f"{x:.1f}", f"{min(width, WIDTH - x):.1f}"),
    )


def _spell_duration(took: timedelta) -> str:
    seconds = took.total_seconds()
    if seconds == 0:
        return "at once"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
