"""Build the gateway's results of a tool call.

The gateway's own word is `_meta` under `WORD`, which the server cannot write, and its line is the last text. Nothing is
added to `structuredContent`: clients that prefer it would take our part for all that the server said. A server that
sends structured content alone is told in text as well, for clients that read the text. The texts say what may be told
and what to do next, and nothing that the record does not hold.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mcp_types import CallToolResult, TextContent, Tool

from counterfoil.answers import FINAL_REPORTS, CallResult, Receipt, Report, Status, Verification
from counterfoil.telling import citation
from counterfoil.work import Failure

STATUS_TOOL = "counterfoil_status"
LINES_TOOL = "counterfoil_lines"
VERIFY_TOOL = "counterfoil_verify"
OWN_TOOLS = frozenset({STATUS_TOOL, LINES_TOOL, VERIFY_TOOL})
WORD = "io.counterfoil/call"
_OURS = ("io.counterfoil/", "io.modelcontextprotocol/")

_WAITING = (
    "Not executed yet: it waits for a person's approval. Do not repeat the call. Ask again with the tool"
    f" {STATUS_TOOL} and action_id {{}}; it is executed once when it is approved."
)
_RUNNING = "It has not ended yet. Do not repeat the call; ask again with the tool {} and action_id {}."
_OPEN_TWIN = f"If the first call was yours and you had no answer, ask for it with {STATUS_TOOL} and that action's id."
_UNKNOWN_HINT = "Do not repeat the call. What came of it is being found out; ask with counterfoil_status."


def status_tool() -> Tool:
    """The gateway's own tool."""
    return Tool(
        name=STATUS_TOOL,
        description=(
            "Ask what became of an earlier call that waits for approval or has not ended, by its action_id."
            " Use when: a call answered with an action_id and status waiting or running."
            " NOT for: making a new call."
        ),
        input_schema={
            "type": "object",
            "required": ["action_id"],
            "additionalProperties": False,
            "properties": {
                "action_id": {"type": "string", "description": "The action_id that the call answered with."}
            },
        },
    )


def lines_tool() -> Tool:
    """The gateway's own tool for ready lines."""
    return Tool(
        name=LINES_TOOL,
        description=(
            "The lines that may be told to the user about everything done through this server, from the record."
            " Use when: you are about to report what was done. Copy a line as it is, or write its `cite`, like"
            " {{action:ID}}, or {{ID.amount}} for one value, and the console puts it there."
            " NOT for: doing anything; it changes nothing."
        ),
        input_schema={"type": "object", "additionalProperties": False, "properties": {}},
    )


def verify_tool() -> Tool:
    """The gateway's own tool for what was done without it."""
    return Tool(
        name=VERIFY_TOOL,
        description=(
            "Ask whether something that was done elsewhere is safe to claim: the system of record is read and compared."
            " Use when: you are about to say that something is done which was not called through this server."
            " NOT for: doing anything, or calls through this server (counterfoil_lines tells of those)."
        ),
        input_schema={
            "type": "object",
            "required": ["system", "effect", "expected"],
            "additionalProperties": False,
            "properties": {
                "system": {"type": "string", "description": "The system as it is registered, like payments."},
                "effect": {"type": "string", "description": "What should be there, in one word, like refund."},
                "operation": {"type": "string", "description": "Its id in that system, or the key it carries there."},
                "target": {"type": "string", "description": "What it was done to, like charge/ch_17."},
                "expected": {
                    "type": "object",
                    "description": "The fields that it should show, and their values.",
                    "additionalProperties": {"type": ["string", "integer", "boolean"]},
                },
                "statement": {"type": "string", "description": "What you are about to say."},
            },
        },
    )


def verification_result(found: Verification) -> CallToolResult:
    """The answer to a claim: its sentence, and whether it is safe."""
    word = {
        "status": "answered",
        "claim_id": found.claim_id,
        "outcome": found.outcome,
        "safe_to_claim": found.safe_to_claim,
        "not_known": list(found.not_known),
    }
    text = f"{found.sentence} Not known: {', '.join(found.not_known)}."
    return _answer(text, word, is_error=False)


def lines(receipt: Receipt) -> CallToolResult:
    """The answer about everything that was changed."""
    told = [{"text": one.text, "cite": citation(one.action_id)} for one in (*receipt.lines, *receipt.open)]
    cites = [f"{one['cite']} puts here: {one['text']}" for one in told]
    text = "\n".join([receipt.text or "Nothing was changed yet.", *([""] if cites else []), *cites])
    return _answer(text, {"status": "answered", "lines": told}, is_error=False)


def refusal_result(result: CallResult, *, prefix: str) -> CallToolResult:
    """The result of a call that the gate refused, with contract names translated to the server's."""
    word = {
        "status": "refused",
        "code": result.code,
        "message": _remove_prefix(result.message, prefix),
        "hint": _remove_prefix(result.hint, prefix),
        "suggestion": _remove_prefix(result.suggestion, prefix),
        "errors": result.raw.get("errors") or [],
        "action_id": result.action_id,
    }
    asks = _OPEN_TWIN if result.code == "DUPLICATE_BLOCKED" else ""
    paths = ", ".join(dict.fromkeys(str(one["path"]) for one in word["errors"] if one.get("path")))
    lines = [f"Refused ({word['code']}): {word['message']}", word["hint"] or "", asks, f"At: {paths}" if paths else ""]
    return _answer("\n".join(line for line in lines if line), word, is_error=True)


def withheld_result(code: str, message: str, hint: str | None = None) -> CallToolResult:
    """The result of a call that the gateway withheld; nothing was sent."""
    word = {"status": "refused", "code": code, "message": message, "hint": hint}
    return _answer("\n".join(filter(None, (f"Refused ({code}): {message}", hint))), word, True)


def pending_result(action_id: str, approval: Mapping[str, Any]) -> CallToolResult:
    """Return the answer for a call that waits for people, with the handle to poll."""
    word = {"status": "waiting", "action_id": action_id, "approval": dict(approval), "ask_with": STATUS_TOOL}
    return _answer(_WAITING.format(action_id), word, is_error=False)


def running_result(action_id: str) -> CallToolResult:
    """Started or about to start, and not ended within the caller's time."""
    word = {"status": "running", "action_id": action_id, "ask_with": STATUS_TOOL}
    return _answer(_RUNNING.format(STATUS_TOOL, action_id), word, is_error=False)


def final_result(
    status: Status, report: Report, said: CallToolResult | None, *, error: Failure | None = None, most: int
) -> CallToolResult:
    """The answer with the server's result, if there was one, and the report on it."""
    word: dict[str, Any] = {
        "status": "answered" if said is not None else "running" if _is_open(report, error) else "ended",
        "action_id": status.action_id,
        "cite": citation(status.action_id),
        # The report's own: the status was asked for a moment earlier or later.
        "state": report.state,
        "report": {"code": report.code, "text": report.text, "completed": report.completed},
    }
    if error is not None:
        word["error"] = {"code": error.code, "message": error.message}
    if status.approval is not None:
        word["approval"] = {"decision": status.approval.decision, "reason": status.approval.reason or ""}
    line = f"Counterfoil: {report.text} ({report.code}, action {status.action_id})"
    if said is None:
        return _without_answer(line, word, report, error)
    return _with_answer(line, word, said, most)


def _is_open(report: Report, error: Failure | None) -> bool:
    """Return whether an action without an answer to this gateway has not ended: another run of the
    gateway started it.
    """
    return error is None and report.code not in FINAL_REPORTS


def _without_answer(line: str, word: dict[str, Any], report: Report, error: Failure | None) -> CallToolResult:
    lines = [f"{error.code}: {error.message}"] if error is not None else []
    decided = word.get("approval")
    if decided and decided["decision"] not in ("APPROVED", "CONSUMED"):
        lines.append(" ".join(("Decision:", decided["decision"], decided["reason"])).strip())
    lines.append(line)
    if report.code in ("ATTEMPTED_RESULT_UNKNOWN", "FINAL_STATE_UNKNOWN"):
        lines.append(_UNKNOWN_HINT)
    open_still = word["status"] == "running"
    return _answer("\n".join(lines), word, is_error=not (report.completed or open_still))


def _with_answer(line: str, word: dict[str, Any], said: CallToolResult, most: int) -> CallToolResult:
    size = len(said.model_dump_json(by_alias=True))
    if size > most:
        word["withheld_bytes"] = size
        text = f"The server's answer has {size} bytes, more than the {most} that the gateway passes on.\n{line}"
        return _answer(text, word, is_error=said.is_error)
    structured = said.structured_content
    content = list(said.content)
    if not content and structured is not None:
        content.append(TextContent(type="text", text=json.dumps(structured, ensure_ascii=False)))
    return CallToolResult(
        content=[*content, TextContent(type="text", text=line)],
        structured_content=structured,
        is_error=said.is_error,
        _meta={**_without_ours(said.meta), WORD: word},
    )


def _without_ours(meta: Any) -> dict[str, Any]:
    return {name: value for name, value in (meta or {}).items() if not str(name).startswith(_OURS)}


def result_text(result: CallToolResult, *, most: int = 300) -> str:
    """The beginning of a result's text."""
    texts = [block.text for block in result.content if isinstance(block, TextContent)]
    return " ".join(" ".join(texts).split())[:most]


def _answer(text: str, word: Mapping[str, Any], is_error: bool) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text=text)],
        is_error=is_error,
        _meta={WORD: {name: value for name, value in word.items() if value is not None}},
    )


def _remove_prefix(value: Any, prefix: str) -> Any:
    if isinstance(value, str):
        return value.replace(prefix, "")
    return None if value is None else json.loads(json.dumps(value).replace(prefix, ""))
