"""W3C trace context: the `traceparent` that ties a proposal, its execution and its effect together."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass

_FORM = re.compile(r"^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$")


@dataclass(frozen=True)
class Trace:
    """One position in one trace."""

    traceparent: str

    @property
    def trace_id(self) -> str:
        """The 32 hex digits that all spans of the trace share; empty when the header is not W3C."""
        match = _FORM.match(self.traceparent)
        return match.group(1) if match else ""

    def child(self) -> Trace:
        """A new span of the same trace."""
        if not self.trace_id:
            return new_trace()
        return Trace(f"00-{self.trace_id}-{secrets.token_hex(8)}-01")


def new_trace() -> Trace:
    """The first span of a new, sampled trace."""
    return Trace(f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01")


def read_trace(value: object) -> Trace:
    """The trace of a start answer, given as a `traceparent` or as an object that holds one; else a
    new trace.
    """
    if isinstance(value, dict):
        trace_id, span_id = value.get("trace_id"), value.get("span_id")
        value = value.get("traceparent") or f"00-{trace_id}-{span_id or secrets.token_hex(8)}-01"
    trace = Trace(value) if isinstance(value, str) else new_trace()
    return trace if trace.trace_id else new_trace()
