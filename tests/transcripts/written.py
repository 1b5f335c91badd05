"""Small recordings in each format, written by hand as the programs write them, for the faults of the formats' table.

A writer turns one step of an agent (its calls, their outcomes) into the items of its format. An outcome is its call's
id, its content and what the format is to state of it: "failed", "succeeded" or nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Call = tuple[str, str, dict[str, Any]]
Outcome = tuple[str, str, str, str]
"""The call's id, its tool, the content, and the state."""


@dataclass(frozen=True)
class Writer:
    """A format. `states`: what it can state of an outcome; `alone`: an outcome may stand without its call."""

    name: str
    heard: Callable[[str], Any]
    said: Callable[[str], Any]
    step: Callable[[list[Call], list[Outcome]], list[Any]]
    unknown: Any
    states: frozenset[str] = frozenset({"failed", "succeeded"})
    whole: Callable[[list[Any], str], Any] = field(default=lambda items, session: {"id": session, "messages": items})
    again: Callable[[list[Any]], Any] | None = None
    ids: bool = True
    alone: bool = True
    stray_is_a_fault: bool = True
    lines: bool = True


def _by_id(outcomes: list[Outcome], call_id: str) -> Outcome | None:
    return next((one for one in outcomes if one[0] == call_id), None)


# Messages of the AI SDK


def _ai4(calls: list[Call], outcomes: list[Outcome]) -> list[Any]:
    made = [{"type": "tool-call", "toolCallId": i, "toolName": t, "args": a} for i, t, a in calls]
    told = [
        {
            "type": "tool-result",
            "toolCallId": i,
            "toolName": t,
            "result": c,
            **({"isError": True} if s == "failed" else {}),
        }
        for i, t, c, s in outcomes
    ]
    return [
        *([{"role": "assistant", "content": made}] if made else []),
        *([{"role": "tool", "content": told}] if told else []),
    ]


def _ai4_ui(calls: list[Call], outcomes: list[Outcome]) -> list[Any]:
    made = []
    for i, t, a in calls:
        end = _by_id(outcomes, i)
        state = {"state": "result", "result": end[2]} if end else {"state": "call"}
        made.append({"toolCallId": i, "toolName": t, "args": a, "step": 0, **state})
    parts = [{"type": "step-start"}, *({"type": "tool-invocation", "toolInvocation": one} for one in made)]
    return [{"id": "m1", "role": "assistant", "content": "", "toolInvocations": made, "parts": parts}]


_KINDS = {"failed": "error-text", "succeeded": "text", "": "text"}


def _ai5(calls: list[Call], outcomes: list[Outcome]) -> list[Any]:
    made = [{"type": "tool-call", "toolCallId": i, "toolName": t, "input": a} for i, t, a in calls]
    told = [
        {"type": "tool-result", "toolCallId": i, "toolName": t, "output": {"type": _KINDS[s], "value": c}}
        for i, t, c, s in outcomes
    ]
    return [
        *([{"role": "assistant", "content": made}] if made else []),
        *([{"role": "tool", "content": told}] if told else []),
    ]


def _ai5_ui(calls: list[Call], outcomes: list[Outcome]) -> list[Any]:
    parts: list[Any] = [{"type": "step-start"}]
    for i, t, a in calls:
        end = _by_id(outcomes, i)
        if end is None:
            state = {"state": "input-available"}
        elif end[3] == "failed":
            state = {"state": "output-error", "errorText": end[2]}
        else:
            state = {"state": "output-available", "output": end[2]}
        parts.append({"type": f"tool-{t}", "toolCallId": i, "input": a, **state})
    return [{"id": "m1", "role": "assistant", "parts": parts}]


def _ui(role: str) -> Callable[[str], Any]:
    return lambda text: {"id": "m", "role": role, "parts": [{"type": "text", "text": text}]}


def _chat(role: str) -> Callable[[str], Any]:
    return lambda text: {"role": role, "content": text}


# Bedrock and Gemini


def _blocks(role: str) -> Callable[[str], Any]:
    return lambda text: {"role": role, "content": [{"text": text}]}


def _bedrock(calls: list[Call], outcomes: list[Outcome]) -> list[Any]:
    made = [{"toolUse": {"toolUseId": i, "name": t, "input": a}} for i, t, a in calls]
    told = []
    for i, _, c, s in outcomes:
        state = {"failed": {"status": "error"}, "succeeded": {"status": "success"}, "": {}}[s]
        told.append({"toolResult": {"toolUseId": i, "content": [{"text": c}], **state}})
    return [
        *([{"role": "assistant", "content": made}] if made else []),
        *([{"role": "user", "content": told}] if told else []),
    ]


def _gemini(calls: list[Call], outcomes: list[Outcome]) -> list[Any]:
    made = [{"functionCall": {"id": i, "name": t, "args": a}, "thoughtSignature": "eA=="} for i, t, a in calls]
    told = [
        {"functionResponse": {"id": i, "name": t, "response": {"error" if s == "failed" else "output": c}}}
        for i, t, c, s in outcomes
    ]
    return [
        *([{"role": "model", "parts": made}] if made else []),
        *([{"role": "user", "parts": told}] if told else []),
    ]


def _gemini_python(calls: list[Call], outcomes: list[Outcome]) -> list[Any]:
    """As the SDK dumps its models, without ids."""
    made = [{"function_call": {"id": None, "name": t, "args": a}, "text": None} for _, t, a in calls]
    told = [
        {"function_response": {"id": None, "name": t, "response": {"error" if s == "failed" else "output": c}}}
        for _, t, c, s in outcomes
    ]
    return [
        *([{"role": "model", "parts": made}] if made else []),
        *([{"role": "user", "parts": told}] if told else []),
    ]


def _parts(role: str) -> Callable[[str], Any]:
    return lambda text: {"role": role, "parts": [{"text": text}]}


# OpenTelemetry: one span for each call of the model, with the whole history as its input


def _otel_parts(role: str) -> Callable[[str], Any]:
    return lambda text: {"role": role, "parts": [{"type": "text", "content": text}]}


def _otel(calls: list[Call], outcomes: list[Outcome]) -> list[Any]:
    made = [{"type": "tool_call", "id": i, "name": t, "arguments": a} for i, t, a in calls]
    told = [{"type": "tool_call_response", "id": i, "response": c} for i, _, c, _ in outcomes]
    ran = [{"ran": i, "tool": t, "failed": s == "failed", "result": c} for i, t, c, s in outcomes]
    return [
        *([{"role": "assistant", "parts": made}] if made else []),
        *ran,
        *([{"role": "tool", "parts": told}] if told else []),
    ]


def otel_spans(items: list[Any], session: str) -> list[dict[str, Any]]:
    """The spans as OTLP has them: each of the model with everything before it."""
    found: list[dict[str, Any]] = []
    heard: list[Any] = []
    waiting: list[Any] = []

    def model(output: list[Any]) -> None:
        found.append(
            _span(
                session,
                len(found),
                "chat m",
                {
                    "gen_ai.operation.name": "chat",
                    "gen_ai.input.messages": json.dumps(heard),
                    "gen_ai.output.messages": json.dumps([{**one, "finish_reason": "stop"} for one in output]),
                },
            )
        )

    for one in items:
        if "ran" in one:
            attributes = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": one["tool"],
                "gen_ai.tool.call.id": one["ran"],
                "gen_ai.tool.call.result": one["result"],
                **({"error.type": "ValueError"} if one["failed"] else {}),
            }
            waiting.append(_span(session, len(found) + len(waiting), f"execute_tool {one['tool']}", attributes))
        elif one.get("role") == "assistant":
            model([one])
            heard.append(one)
        else:
            found += waiting
            waiting = []
            heard.append(one)
    if heard and heard[-1].get("role") != "assistant":
        model([])
    return [*found, *waiting]


def _span(trace: str, number: int, name: str, attributes: dict[str, Any]) -> dict[str, Any]:
    listed = [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]
    at = str(1_700_000_000_000_000_000 + number)
    return {"traceId": trace, "spanId": f"{number:016x}", "name": name, "startTimeUnixNano": at, "attributes": listed}


def otlp(items: list[Any], session: str) -> Any:
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": otel_spans(items, session)}]}]}


# Evaluations and coding agents


def _inspect(calls: list[Call], outcomes: list[Outcome]) -> list[Any]:
    made = [{"id": i, "function": t, "arguments": a, "type": "function"} for i, t, a in calls]
    told = []
    for i, t, c, s in outcomes:
        error = {"error": {"type": "timeout", "message": c}} if s == "failed" else {}
        told.append({"role": "tool", "content": "" if error else c, "tool_call_id": i, "function": t, **error})
    return [*([{"role": "assistant", "content": "", "source": "generate", "tool_calls": made}] if made else []), *told]


def _openhands_0(calls: list[Call], outcomes: list[Outcome]) -> list[Any]:
    found: list[Any] = []
    for i, t, a in calls:
        asked = {"id": f"call_{i}", "type": "function", "function": {"name": t, "arguments": json.dumps(a)}}
        response = {"choices": [{"message": {"role": "assistant", "content": "", "tool_calls": [asked]}}]}
        metadata = {"function_name": t, "tool_call_id": f"call_{i}", "model_response": response}
        event = {"id": int(i, 36), "source": "agent", "action": "run", "args": {**a, "thought": "", "hidden": False}}
        found.append({**event, "tool_call_metadata": metadata})
    for i, _, c, s in outcomes:
        code = {"failed": 1, "succeeded": 0}.get(s)
        extras = {"command": "x", "metadata": {"exit_code": code}} if code is not None else {"path": "x"}
        kind = "run" if code is not None else "edit"
        found.append(
            {"id": 900, "source": "agent", "observation": kind, "content": c, "extras": extras, "cause": int(i, 36)}
        )
    return found


def _openhands_0_word(source: str) -> Callable[[str], Any]:
    return lambda text: {"id": 800, "source": source, "action": "message", "args": {"content": text}}


def _event(kind: str, source: str, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "id": "e", "timestamp": "2026-01-01T00:00:00", "source": source, **fields}


def _openhands_1(calls: list[Call], outcomes: list[Outcome]) -> list[Any]:
    found = []
    for i, t, a in calls:
        asked = {"id": i, "name": t, "arguments": json.dumps(a), "origin": "completion"}
        action = {"kind": "ExecuteAction", **a}
        found.append(
            _event("ActionEvent", "agent", thought=[], action=action, tool_name=t, tool_call_id=i, tool_call=asked)
        )
    for i, t, c, s in outcomes:
        seen: dict[str, Any] = {"kind": "Seen", "content": [{"type": "text", "text": c}], "is_error": s == "failed"}
        if s == "succeeded":
            seen["exit_code"] = 0
        found.append(
            _event("ObservationEvent", "environment", tool_name=t, tool_call_id=i, action_id="e", observation=seen)
        )
    return found


def _openhands_1_word(source: str) -> Callable[[str], Any]:
    def write(text: str) -> Any:
        message = {"role": "user", "content": [{"type": "text", "text": text}], "tool_calls": None}
        return _event("MessageEvent", source, llm_message=message)

    return write


def _atif_word(source: str) -> Callable[[str], Any]:
    return lambda text: {"step_id": 1, "source": source, "message": text}


def _atif(calls: list[Call], outcomes: list[Outcome]) -> list[Any]:
    made = [{"tool_call_id": i, "function_name": t, "arguments": a} for i, t, a in calls]
    told = [
        {"source_call_id": i, "content": c, **({"extra": {"tool_result_is_error": True}} if s == "failed" else {})}
        for i, _, c, s in outcomes
    ]
    step = {"step_id": 2, "source": "agent", "message": "", "tool_calls": made}
    return [{**step, **({"observation": {"results": told}} if told else {})}]


def _atif_file(items: list[Any], session: str) -> Any:
    steps = [{**one, "step_id": number + 1} for number, one in enumerate(items)]
    agent = {"name": "a", "version": "1"}
    return {"schema_version": "ATIF-v1.6", "session_id": session, "agent": agent, "steps": steps}


def _mini(calls: list[Call], outcomes: list[Outcome]) -> list[Any]:
    found: list[Any] = []
    if calls:
        made = [{"command": a["command"], "tool_call_id": i} for i, _, a in calls]
        same = [
            {"id": i, "type": "function", "function": {"name": "bash", "arguments": json.dumps(a)}} for i, _, a in calls
        ]
        found.append({"role": "assistant", "content": None, "tool_calls": same, "extra": {"actions": made}})
    for i, _, c, s in outcomes:
        code = {"failed": 1, "succeeded": 0}.get(s)
        extra = {"raw_output": c, "returncode": code, "exception_info": ""}
        found.append({"role": "tool", "tool_call_id": i, "content": f"<output>{c}</output>", "extra": extra})
    return found


def _swe(calls: list[Call], outcomes: list[Outcome]) -> list[Any]:
    """One step for each action, which is a text for the shell."""
    made = {i: a["command"] for i, _, a in calls}
    told = {i: c for i, _, c, _ in outcomes}
    ids = list(dict.fromkeys([*made, *told]))
    return [_step(made.get(i, ""), told.get(i)) for i in ids]


def _step(action: str, observation: str | None, thought: str = "") -> dict[str, Any]:
    step = {"action": action, "response": thought, "thought": thought, "state": {"open_file": "n/a"}, "query": []}
    return step if observation is None else {**step, "observation": observation}


def _swe_task(text: str) -> Any:
    return {"role": "user", "content": text, "agent": "main", "message_type": "observation"}


def swe_file(items: list[Any], session: str) -> Any:
    """The run as steps, and once more as history, after a demonstration."""
    steps = [one for one in items if "role" not in one]
    demo = {"role": "assistant", "content": "x", "action": "rm -rf /", "agent": "main", "message_type": "action"}
    told = [
        {"role": "user", "content": f"{one['observation']}\n$", "agent": "main", "message_type": "observation"}
        if kind
        else {"role": "assistant", "content": "", "action": one["action"], "agent": "main", "message_type": "action"}
        for one in steps
        if "action" in one
        for kind in ((False, True) if "observation" in one else (False,))
    ]
    task = [one for one in items if "role" in one]
    history = [{**demo, "is_demo": True}, *task, *told] if items else []
    return {"instance_id": session, "environment": "main", "trajectory": steps, "history": history, "info": {}}


def _autogen_word(source: str) -> Callable[[str], Any]:
    return lambda text: {"type": "TextMessage", "source": source, "content": text, "id": "1", "metadata": {}}


def _autogen(calls: list[Call], outcomes: list[Outcome]) -> list[Any]:
    made = [{"id": i, "name": t, "arguments": json.dumps(a)} for i, t, a in calls]
    told = [
        {"call_id": i, "name": t, "content": c, "is_error": {"failed": True, "succeeded": False}.get(s)}
        for i, t, c, s in outcomes
    ]
    found = []
    if made:
        found.append({"type": "ToolCallRequestEvent", "source": "WebSurfer", "content": made})
    if told:
        found.append({"type": "ToolCallExecutionEvent", "source": "WebSurfer", "content": told})
    return found


# Formats with readers of their own


def _openai(calls: list[Call], outcomes: list[Outcome]) -> list[Any]:
    made = [{"id": i, "type": "function", "function": {"name": t, "arguments": json.dumps(a)}} for i, t, a in calls]
    told = [{"role": "tool", "tool_call_id": i, "content": c} for i, _, c, _ in outcomes]
    return [*([{"role": "assistant", "content": None, "tool_calls": made}] if made else []), *told]


def _anthropic(calls: list[Call], outcomes: list[Outcome]) -> list[Any]:
    made = [{"type": "tool_use", "id": i, "name": t, "input": a} for i, t, a in calls]
    told = []
    for i, _, c, s in outcomes:
        state = {"failed": {"is_error": True}, "succeeded": {"is_error": False}, "": {}}[s]
        told.append({"type": "tool_result", "tool_use_id": i, "content": c, **state})
    return [
        *([{"role": "assistant", "content": made}] if made else []),
        *([{"role": "user", "content": told}] if told else []),
    ]


def _claude_code(calls: list[Call], outcomes: list[Outcome]) -> list[Any]:
    return [_row(one["role"], one) for one in _anthropic(calls, outcomes)]


def _row(kind: str, message: Any) -> Any:
    return {"type": kind, "uuid": "", "message": message}


def claude_code_rows(items: list[Any], session: str) -> list[Any]:
    return [{**one, "sessionId": session, "uuid": f"u{number}"} for number, one in enumerate(items)]


def _responses(calls: list[Call], outcomes: list[Outcome]) -> list[Any]:
    made = [{"type": "function_call", "call_id": i, "name": t, "arguments": json.dumps(a)} for i, t, a in calls]
    told = []
    for i, _, c, s in outcomes:
        code = {"failed": 1, "succeeded": 0}.get(s)
        output = c if code is None else json.dumps({"output": c, "metadata": {"exit_code": code}})
        told.append({"type": "function_call_output", "call_id": i, "output": output})
    return [*made, *told]


def _exec(calls: list[Call], outcomes: list[Outcome]) -> list[Any]:
    """Codex's newer shape: the exit code stands in lines before the output."""
    made = [{"type": "function_call", "call_id": i, "name": t, "arguments": json.dumps(a)} for i, t, a in calls]
    told = []
    for i, _, c, s in outcomes:
        code = {"failed": 1, "succeeded": 0}.get(s)
        head = "Wall time: 1 seconds\n" + (f"Process exited with code {code}\n" if code is not None else "")
        told.append({"type": "function_call_output", "call_id": i, "output": f"{head}Output:\n{c}" if s else c})
    return [*made, *told]


def _item(role: str) -> Callable[[str], Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return lambda text: {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def codex_lines(items: list[Any], session: str) -> list[Any]:
    head = {"timestamp": "t", "type": "session_meta", "payload": {"id": session, "cwd": "/", "originator": "codex"}}
    return [head, *({"timestamp": "t", "type": "response_item", "payload": one} for one in items)]


def codex_bare_lines(items: list[Any], session: str) -> list[Any]:
    head = {"id": session, "timestamp": "t", "instructions": None, "git": {}}
    return [head, {"record_type": "state"}, *items, {"record_type": "state"}]


FAILED, STATED = frozenset({"failed"}), frozenset({"failed", "succeeded"})
_OPENHANDS_0_UNKNOWN = {"id": 9, "source": "agent", "action": "teleport", "args": {}}
WRITERS = {
    "AI SDK 4": Writer(
        "ai-sdk-4",
        _chat("user"),
        _chat("assistant"),
        _ai4,
        {"role": "assistant", "content": [{"type": "tool-teleport", "toolCallId": "9"}]},
        FAILED,
    ),
    "AI SDK 4, UI": Writer(
        "ai-sdk-4",
        _chat("user"),
        _chat("assistant"),
        _ai4_ui,
        {"role": "assistant", "content": "", "parts": [{"type": "tool-teleport"}]},
        frozenset(),
        alone=False,
    ),
    "AI SDK 5": Writer(
        "ai-sdk-5",
        _chat("user"),
        _chat("assistant"),
        _ai5,
        {"role": "assistant", "content": [{"type": "tool-teleport", "toolCallId": "9"}]},
        FAILED,
    ),
    "AI SDK 5, UI": Writer(
        "ai-sdk-5",
        _ui("user"),
        _ui("assistant"),
        _ai5_ui,
        {"id": "m9", "role": "assistant", "parts": [{"type": "text", "text": ""}, {"type": "teleport"}]},
        FAILED,
        alone=False,
    ),
    "Bedrock Converse": Writer(
        "bedrock-converse",
        _blocks("user"),
        _blocks("assistant"),
        _bedrock,
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "9", "name": "x", "input": {}}}, {"teleport": {}}]},
    ),
    "Gemini": Writer(
        "gemini",
        _parts("user"),
        _parts("model"),
        _gemini,
        {"role": "model", "parts": [{"text": ""}, {"teleport": {}}]},
        FAILED,
        whole=lambda items, session: {"id": session, "contents": items},
    ),
    "Gemini, Python SDK": Writer(
        "gemini",
        _parts("user"),
        _parts("model"),
        _gemini_python,
        {"role": "model", "parts": [{"text": ""}, {"teleport": {}}]},
        FAILED,
        whole=lambda items, session: {"id": session, "contents": items},
        ids=False,
    ),
    "OpenTelemetry": Writer(
        "opentelemetry",
        _otel_parts("user"),
        _otel_parts("assistant"),
        _otel,
        {"role": "assistant", "parts": [{"type": "text", "content": ""}, {"type": "teleport"}]},
        FAILED,
        whole=otlp,
    ),
    "inspect_ai": Writer(
        "inspect",
        _chat("user"),
        _chat("assistant"),
        _inspect,
        {
            "role": "assistant",
            "content": [{"type": "teleport"}],
            "tool_calls": [{"id": "9", "function": "x", "arguments": {}}],
        },
        FAILED,
        whole=lambda items, session: {"id": session, "epoch": 1, "messages": items, "events": []},
    ),
    "OpenHands 0": Writer(
        "openhands-0",
        _openhands_0_word("user"),
        _openhands_0_word("agent"),
        _openhands_0,
        _OPENHANDS_0_UNKNOWN,
        whole=lambda items, session: {"id": session, "history": items},
    ),
    "OpenHands 1": Writer(
        "openhands-1",
        _openhands_1_word("user"),
        _openhands_1_word("agent"),
        _openhands_1,
        _event("TeleportEvent", "agent"),
        whole=lambda items, session: {"id": session, "events": items},
    ),
    "ATIF": Writer(
        "atif",
        _atif_word("user"),
        _atif_word("agent"),
        _atif,
        {"step_id": 9, "source": "agent", "message": [{"type": "teleport"}]},
        FAILED,
        whole=_atif_file,
        stray_is_a_fault=False,
    ),
    "mini-swe-agent": Writer(
        "mini-swe-agent",
        _chat("user"),
        _chat("assistant"),
        _mini,
        {"role": "assistant", "content": [{"type": "teleport"}], "extra": {"actions": []}},
        whole=lambda items, session: {"id": session, "trajectory_format": "mini-swe-agent-1.1", "messages": items},
    ),
    "SWE-agent": Writer(
        "swe-agent",
        _swe_task,
        lambda text: _step("", "", text),
        _swe,
        {"teleport": "x"},
        frozenset(),
        whole=swe_file,
        ids=False,
        stray_is_a_fault=False,
    ),
    "AutoGen": Writer(
        "autogen",
        _autogen_word("user"),
        _autogen_word("WebSurfer"),
        _autogen,
        {"type": "TeleportEvent", "source": "WebSurfer", "content": "x"},
    ),
    "chat": Writer(
        "openai-chat",
        _chat("user"),
        _chat("assistant"),
        _openai,
        {"role": "assistant", "content": [{"type": "teleport"}]},
        frozenset(),
    ),
    "Anthropic": Writer(
        "anthropic",
        _chat("user"),
        _chat("assistant"),
        _anthropic,
        {"role": "assistant", "content": [{"type": "tool_use", "id": "9", "name": "x"}, {"type": "teleport"}]},
    ),
    "Claude Code": Writer(
        "claude-code",
        lambda text: _row("user", {"role": "user", "content": text}),
        lambda text: _row("assistant", {"role": "assistant", "content": [{"type": "text", "text": text}]}),
        _claude_code,
        _row("assistant", {"role": "assistant", "content": [{"type": "teleport"}]}),
        whole=claude_code_rows,
    ),
    "Responses": Writer(
        "openai-responses",
        _item("user"),
        _item("assistant"),
        _responses,
        {"type": "teleport_call", "call_id": "9"},
        whole=lambda items, session: {"id": session, "input": items},
    ),
    "Codex": Writer(
        "openai-responses",
        _item("user"),
        _item("assistant"),
        _responses,
        {"type": "teleport_call", "call_id": "9"},
        whole=codex_lines,
    ),
    "Codex, exec_command": Writer(
        "openai-responses",
        _item("user"),
        _item("assistant"),
        _exec,
        {"type": "teleport_call", "call_id": "9"},
        whole=codex_lines,
    ),
    "Codex, bare lines": Writer(
        "openai-responses",
        _item("user"),
        _item("assistant"),
        _responses,
        {"type": "teleport_call", "call_id": "9"},
        whole=codex_bare_lines,
    ),
}
