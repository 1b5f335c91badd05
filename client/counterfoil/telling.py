"""Outcomes as plain data and text for a model's tool result.

A refused call comes back with the reason, the hint and the suggestion, so that the model can mend
it. One that is still open comes back as open: with what it waits for, and how to ask again. The only
sentence about the outcome is the console's report.

`cite` is what a model writes where it tells of the action: the console puts its own line there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from counterfoil.answers import Outcome, Tool

CHECK = Tool(
    name="check_action",
    version="1",
    description=(
        "Ask what became of an action that was not settled when its call was answered. Use instead of repeating"
        " the call. NOT for anything else: it changes nothing."
    ),
    arguments_schema={
        "type": "object",
        "required": ["action_id"],
        "additionalProperties": False,
        "properties": {"action_id": {"type": "string", "description": "The `action_id` of the call's answer."}},
    },
)
"""The tool that a model asks again with; it is answered by the library and is no call to the gate."""

LINES = Tool(
    name="status_lines",
    version="1",
    description=(
        "The lines that may be told to the user about everything done here, from the record. Use when: you are about to"
        " report what was done. Copy a line as it is, or write its `cite` and the line is put there; a value is cited"
        " as {{CALL_ID.field}}, like {{call-7.amount}}. NOT for: doing anything; it changes nothing."
    ),
    arguments_schema={"type": "object", "additionalProperties": False, "properties": {}},
)
"""The tool that returns ready lines; it is answered by the library and is no call to the gate."""

_OPEN = "Not settled: do not say that it is done, and do not repeat the call."
_PEOPLE = "People have yet to decide; that is no denial. "
_AGAIN = f" Ask again with `{CHECK.name}`."


def outcome_document(outcome: Outcome, *, can_ask: bool = False) -> dict[str, Any]:
    """An outcome as data; `can_ask`: the model has a tool to ask for the status."""
    if outcome.refused and outcome.call is not None:
        call = outcome.call
        refusal = {"accepted": False, "code": call.code, "message": call.message, "hint": call.hint}
        return _drop_empty(refusal | {"suggestion": call.suggestion, "errors": [dict(one) for one in call.errors]})
    if outcome.receipt is not None:
        lines = (*outcome.receipt.lines, *outcome.receipt.open)
        return {"lines": [{"text": one.text, "cite": citation(one.action_id)} for one in lines]}
    report, approval = outcome.report, outcome.approval
    said: dict[str, Any] = {"accepted": True, "action_id": outcome.action_id, "state": outcome.state}
    said["completed"] = outcome.completed
    if report is not None:
        said |= {"status": report.code, "text": report.text}
    if approval is not None:
        said["approval"] = _drop_empty({"decision": approval.decision, "reason": approval.reason})
        said["next"] = approval.next.text
    name = outcome.call.call_id if outcome.call is not None else outcome.action_id
    said["cite"] = citation(name) if name and report is not None else None
    if not outcome.settled:
        said["note"] = (_PEOPLE if outcome.held else "") + _OPEN + (_AGAIN if can_ask else "")
    return _drop_empty(said)


def citation(name: str) -> str:
    """The citation of an action in a message, by the id of its call or its own: the console replaces it with its own
    line.
    """
    return "{{action:" + name + "}}"


def outcome_text(outcome: Outcome, *, can_ask: bool = False) -> str:
    """An outcome as the text of a tool's result."""
    return json.dumps(outcome_document(outcome, can_ask=can_ask), ensure_ascii=False)


def _drop_empty(said: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in said.items() if value not in (None, "", [], {})}
