"""Spans of OpenTelemetry's GenAI conventions (1.37 on) as messages of the format `opentelemetry`.

1. A span is read as OTLP has it in JSON and as the Python SDK prints it. Spans without attributes of the conventions
   say nothing; a span of older conventions, or one whose messages were not captured, is named.
2. Each span of a model call has the whole history as its input. The spans of a conversation (`gen_ai.conversation.id`,
   else the trace) are put in their order; a message that an earlier span had is counted once, and a span whose input
   does not continue an earlier one begins a conversation of its own (a subagent, say).
3. A span of a tool has the tool's result and error. It belongs to the call of its id, or stands for itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from counterfoil_transcripts.reading.formats.content import canonical_bytes, name_of

_INPUT, _OUTPUT, _TOOLS = "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.definitions"
_OPERATION, _CALL_ID = "gen_ai.operation.name", "gen_ai.tool.call.id"
_MODEL = frozenset({"chat", "generate_content", "text_completion"})
_OLD = ("gen_ai.prompt", "gen_ai.completion")
_OLD_EVENTS = (
    "gen_ai.content.",
    "gen_ai.user.message",
    "gen_ai.assistant.message",
    "gen_ai.tool.message",
    "gen_ai.choice",
)
OLD = "A span of GenAI conventions before 1.37 was not read"
EMPTY = "The messages of a span were not captured"


@dataclass(frozen=True, slots=True)
class Span:
    """One span of the conventions. `key`: its conversation; `start`: nanoseconds or a time as text."""

    key: str
    start: tuple[int, str]
    attributes: dict[str, Any]
    failed: bool
    fault: str = ""


@dataclass
class Thread:
    """The messages of one conversation so far, and the tools that it was offered."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    seen: list[bytes] = field(default_factory=list)
    tools: list[dict[str, Any]] = field(default_factory=list)


def spans_of(value: object) -> list[Span] | None:
    """The spans of the conventions in one value of a file; None if it is no span at all."""
    if not isinstance(value, dict):
        return None
    found = [value] if _is_span(value) else None
    for scoped in ("resourceSpans", "scopeSpans", "spans"):
        listed = value.get(scoped)
        if isinstance(listed, list) and all(isinstance(one, dict) for one in listed):
            inner = [spans_of(one) for one in listed]
            return (
                None if listed and all(one is None for one in inner) else [span for one in inner for span in one or ()]
            )
    return None if found is None else [span for one in found if (span := _span(one)) is not None]


def _is_span(value: dict[str, Any]) -> bool:
    context = value.get("context")
    if value.get("attributes", ()) is None:
        return False  # they were handed out apart, and may say that it is one of the conventions
    return isinstance(value.get("name"), str) and (
        (isinstance(value.get("traceId"), str) and isinstance(value.get("spanId"), str))
        or (isinstance(context, dict) and isinstance(context.get("trace_id"), str) and "attributes" in value)
    )


def _span(value: dict[str, Any]) -> Span | None:
    attributes = _attributes(value.get("attributes"))
    if not any(name.startswith("gen_ai.") for name in attributes):
        return None
    context = value.get("context")
    trace = value.get("traceId") or (context["trace_id"] if isinstance(context, dict) else "")
    start = str(value.get("startTimeUnixNano", value.get("start_time", "")))
    status = value.get("status")
    code = (status.get("code") or status.get("status_code")) if isinstance(status, dict) else None
    return Span(
        str(attributes.get("gen_ai.conversation.id") or trace),
        (int(start), "") if start.isdigit() else (0, start),
        attributes,
        "error.type" in attributes or code in (2, "STATUS_CODE_ERROR", "ERROR"),
        _fault(attributes, value.get("events")),
    )


def _fault(attributes: dict[str, Any], events: Any) -> str:
    names = [one.get("name") for one in events if isinstance(one, dict)] if isinstance(events, list) else []
    if any(name.startswith(_OLD) for name in attributes):
        return OLD
    if any(isinstance(name, str) and name.startswith(_OLD_EVENTS) for name in names):
        return OLD
    return EMPTY if _operation(attributes) in _MODEL and not {_INPUT, _OUTPUT} <= attributes.keys() else ""


def _operation(attributes: dict[str, Any]) -> str:
    return name_of(attributes.get(_OPERATION))


def _attributes(found: Any) -> dict[str, Any]:
    """Attributes as a mapping; OTLP lists them."""
    if isinstance(found, dict):
        return {str(name): value for name, value in found.items()}
    if not isinstance(found, list):
        return {}
    named = (one for one in found if isinstance(one, dict) and isinstance(one.get("key"), str))
    return {one["key"]: _any_value(one.get("value")) for one in named}


def _any_value(value: Any) -> Any:
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("arrayValue"), dict):
        return [_any_value(one) for one in value["arrayValue"].get("values") or ()]
    if isinstance(value.get("kvlistValue"), dict):
        return _attributes(value["kvlistValue"].get("values"))
    return next(iter(value.values()), None)


def threads_of(spans: list[Span]) -> Iterator[Thread]:
    """The conversations in the spans of one group (rules 2 and 3)."""
    ordered = sorted(spans, key=lambda one: one.start)
    asked = [one for one in ordered if _operation(one.attributes) in _MODEL]
    asked = asked or [one for one in ordered if _INPUT in one.attributes or _OUTPUT in one.attributes]
    ran = [one for one in ordered if _operation(one.attributes) == "execute_tool"]
    threads: list[Thread] = []
    for span in asked:
        heard = [_message(one) for one in _messages_at(span, _INPUT)]
        keys = [_key(one) for one in heard]
        fit = [one for one in threads if one.seen and keys[: len(one.seen)] == one.seen]
        thread = max(fit, key=lambda one: len(one.seen), default=None)
        if thread is None:
            thread = Thread()
            threads.append(thread)
        for message in (*heard[len(thread.seen) :], *(_message(one) for one in _messages_at(span, _OUTPUT))):
            thread.messages.append(message)
            thread.seen.append(_key(message))
        thread.tools += [one for one in _messages_at(span, _TOOLS) if isinstance(one, dict) and one not in thread.tools]
    _add_results(threads, ran)
    yield from threads


def _add_results(threads: list[Thread], ran: list[Span]) -> None:
    """Lay the spans of tools over the messages (rule 3)."""
    alone: list[dict[str, Any]] = []
    for span in ran:
        call_id = name_of(span.attributes.get(_CALL_ID))
        calls = [(thread, at) for thread in threads for at in _places(thread, "tool_call", call_id)]
        if not call_id or len(calls) != 1:
            if not calls:
                alone += _call_and_result(span)
            continue
        thread, (number, _) = calls[0]
        results = _places(thread, "tool_call_response", call_id)
        for message, part in results:
            if span.failed:
                mark = str(span.attributes.get("error.type") or "error")
                thread.messages[message]["parts"][part] |= {"error_type": mark}
        if not results and (found := _result(span)) is not None:
            thread.messages.insert(number + 1, found)
            thread.seen.insert(number + 1, b"")
    if alone and not threads:
        threads.append(Thread())
    if alone:
        threads[0].messages[:0] = alone


def _places(thread: Thread, kind: str, call_id: Any) -> list[tuple[int, int]]:
    """Message and part of each part of a kind and an id."""
    return [
        (number, place)
        for number, message in enumerate(thread.messages)
        for place, part in enumerate(message["parts"])
        if isinstance(part, dict) and part.get("type") == kind and part.get("id") == call_id
    ]


def _call_and_result(span: Span) -> list[dict[str, Any]]:
    call = {
        "type": "tool_call",
        "id": span.attributes.get(_CALL_ID, ""),
        "name": span.attributes.get("gen_ai.tool.name"),
        "arguments": span.attributes.get("gen_ai.tool.call.arguments"),
    }
    found = _result(span)
    return [{"role": "assistant", "parts": [call]}, *([found] if found else [])]


def _result(span: Span) -> dict[str, Any] | None:
    """The message of a tool's own span; none if it states neither a result nor an error."""
    result = span.attributes.get("gen_ai.tool.call.result")
    if result is None and not span.failed:
        return None
    part = {
        "type": "tool_call_response",
        "id": span.attributes.get(_CALL_ID, ""),
        "name": span.attributes.get("gen_ai.tool.name"),
        "response": result,
    }
    if span.failed:
        part["error_type"] = str(span.attributes.get("error.type") or "error")
    return {"role": "tool", "parts": [part]}


def _messages_at(span: Span, name: str) -> list[Any]:
    """The messages of an attribute, which is structured or a text of JSON."""
    found = span.attributes.get(name)
    if isinstance(found, str):
        try:
            found = json.loads(found, strict=False)
        except ValueError:
            found = [found]
    return found if isinstance(found, list) else []


def _message(found: Any) -> dict[str, Any]:
    """A message as it is read; one of another shape stays as it is, and is named."""
    if isinstance(found, dict) and isinstance(found.get("parts"), list):
        return {"role": found.get("role"), "parts": list(found["parts"])}
    return {"role": None, "parts": [found]}


def _key(message: dict[str, Any]) -> bytes:
    return canonical_bytes(message)
