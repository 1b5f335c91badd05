"""Send the spans of actions to a collector, by OTLP, from a stored log position.

A span goes out when the event that ends it has its place in the log. The place moves on once the collector has taken
what stands before it: after a crash, or while no collector answers, the same spans go again, with the same ids. Nothing
of a trace is kept here, so there is nothing to purge but the place, and the ledger knows of neither.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final
from uuid import UUID

from django.conf import settings

from console.telemetry import operations
from ledger.actions.queries import actions
from ledger.db import tenancy
from ledger.log.queries import log
from reviews import queries
from reviews.tracing.queries import trace_of
from reviews.tracing.rules.spans import ActionTrace, Span, SpanStatus, Stage, ended_spans, report_spans

AT_A_TIME: Final = 200
"""Events, and reports, that one message covers."""
REPORTS_REST: Final = timedelta(minutes=1)
"""Reports are no events and have no place in the log: one is looked for when none can be committed before it."""
TIMEOUT_S: Final = 10.0
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TracedSpan:
    """A span with the trace that it belongs to."""

    trace: ActionTrace
    span: Span


Send = Callable[[Sequence[TracedSpan]], bool]


def export_next(tenant_id: UUID, *, send: Send, at: datetime) -> int:
    """Send the next spans of a tenant; return the number of events and reports that the position advanced."""
    with tenancy(tenant_id):
        here = operations.current_place(tenant_id=tenant_id, at=at)
        leaves = log.leaves_after(tenant_id, here.log, here.index, limit=AT_A_TIME)
        reported, reports_to = _newly_reported(tenant_id, here.reports_to, at=at)
        ended: dict[UUID, list[int]] = {}
        for leaf in leaves:
            if leaf.kind == "action":
                ended.setdefault(leaf.subject_id, []).append(leaf.seq)
        spans = [
            each
            for action_id in sorted({*ended, *reported})
            for each in _new_spans(tenant_id, action_id, ended.get(action_id, []), (here.reports_to, reports_to))
        ]
    if spans and not send(spans):
        return 0
    last = (leaves[-1].log, leaves[-1].index) if leaves else (here.log, here.index)
    with tenancy(tenant_id):
        operations.advance_place(here, log=last[0], index=last[1], reports_to=reports_to)
    return len(leaves) + len(reported)


def _newly_reported(tenant_id: UUID, after: datetime, *, at: datetime) -> tuple[set[UUID], datetime]:
    """The actions reported to someone after a moment, and the end of the searched time."""
    until = max(after, at - REPORTS_REST)
    found = queries.reports_between(tenant_id, after=after, until=until, limit=AT_A_TIME)
    if len(found) == AT_A_TIME:
        # Several may have been told at one moment: the place stands behind all of them or none.
        until = max(each.at for each in found)
        found = queries.reports_between(tenant_id, after=after, until=until)
    return {each.action_id for each in found}, until


def _new_spans(
    tenant_id: UUID, action_id: UUID, seqs: Sequence[int], period: tuple[datetime, datetime]
) -> list[TracedSpan]:
    action = actions.action(tenant_id, action_id)
    trace = trace_of(action) if action is not None else None
    if trace is None:
        return []
    found = (*ended_spans(trace, seqs), *report_spans(trace, after=period[0], until=period[1]))
    return [TracedSpan(trace, span) for span in found]


# To the collector


def send_spans(spans: Sequence[TracedSpan]) -> bool:
    """Send spans to the configured collector; return True if it accepted them."""
    from opentelemetry.sdk.trace.export import SpanExportResult

    return bool(_exporter().export([_sdk_span(each) for each in spans]) is SpanExportResult.SUCCESS)


@cache
def _exporter() -> Any:
    # Imported here: what exports nothing does not need the extra `telemetry`.
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter(endpoint=settings.COUNTERFOIL_OTLP_ENDPOINT, timeout=TIMEOUT_S)


@cache
def _scope() -> tuple[Any, Any]:
    """Return (resource, instrumentation scope), which identify this installation in a shared collector."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    named = {"service.name": "counterfoil", "deployment.environment.name": settings.COUNTERFOIL_ENVIRONMENT}
    return Resource.create(named), InstrumentationScope("counterfoil.ledger")


def _sdk_span(each: TracedSpan) -> Any:
    """A span of ours as the SDK has it."""
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
    from opentelemetry.trace.status import Status, StatusCode

    def context(span_id: str, *, is_remote: bool) -> Any:
        return SpanContext(int(each.trace.trace_id, 16), int(span_id, 16), is_remote, TraceFlags(TraceFlags.SAMPLED))

    span, end = each.span, each.span.end
    assert end is not None
    codes: dict[SpanStatus, Any] = {"ok": StatusCode.OK, "error": StatusCode.ERROR, "unset": StatusCode.UNSET}
    kinds = {Stage.ACTION: SpanKind.SERVER, Stage.READBACK: SpanKind.CLIENT}
    resource, scope = _scope()
    is_root = span.stage is Stage.ACTION
    return ReadableSpan(
        name=span.name,
        context=context(span.span_id, is_remote=False),
        parent=context(span.parent_id, is_remote=is_root) if span.parent_id else None,
        resource=resource,
        attributes=dict(span.attributes),
        kind=kinds.get(span.stage, SpanKind.INTERNAL),
        status=Status(codes[span.status]),
        start_time=_nanoseconds(span.start),
        end_time=_nanoseconds(end),
        instrumentation_scope=scope,
    )


def _nanoseconds(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1) * 1000
