"""Tools and call handling shared by all framework adapters.

1. The tools are those of the session's contract, with its schemas, `check_action` to ask again, and `status_lines` for
   ready lines about what was done.
2. A model's call goes to the gate as it was written, also one that names no tool or does not parse:
   the gate is what tells the model how to mend it.
3. A model's id of a call names it within its message at best: some models count anew in each message, some give one id
   to two calls. So a call is named by message and place (`CallNames`): a step that a framework runs again is the same
   call and gets the same answer, and every other is a call of its own. Answers are given by place.
4. Held for people, a call may end the turn instead (`for_people=False`): the framework interrupts,
   and what it resumes with is no approval, only the reason to look again.
"""

from __future__ import annotations

import re
from typing import Any

from counterfoil.agent import Call, SessionRequests
from counterfoil.answers import CallResult, Outcome, Receipt, Tool
from counterfoil.canonical import parse_json
from counterfoil.problems import BodyRefused, NotFound
from counterfoil.telling import CHECK, LINES
from counterfoil.transport.request import Plan

_ID = re.compile(r"[A-Za-z0-9-]{1,64}")
_NO_SUCH = "You have no action with this id."
_NAME_IT = "Give the `action_id` that the call's answer named."


def session_tools(session: SessionRequests) -> tuple[Tool, ...]:
    """The tools that a model gets."""
    return (*session.contract.tools, CHECK, LINES)


def parse_call(name: str, arguments: object, call_id: str | None) -> Call:
    """Return a model's call in the form for proposing; text that is a JSON object counts as that object."""
    parsed = parse_arguments(arguments)
    return Call(name, parsed, call_id=call_id) if call_id else Call(name, parsed)


def propose_call(session: SessionRequests, call: Call, *, for_s: float, for_people: bool = True) -> Plan[Outcome]:
    """Propose a model's call, or get the status of the action that it asks about."""
    if call.tool == LINES.name:
        told: Receipt = yield SessionRequests.receipt.build(session)
        return Outcome(settled=True, action_id=None, state=None, receipt=told)
    if call.tool != CHECK.name:
        plan: Plan[Outcome] = SessionRequests.attempt.build(session, call, for_s=for_s, for_people=for_people)
        return (yield from plan)
    action_id = call.arguments.get("action_id") if not isinstance(call.arguments, str) else None
    if not isinstance(action_id, str) or not _ID.fullmatch(action_id):
        return _refused_outcome(call, "UNPARSEABLE_ARGUMENTS", _NAME_IT)
    try:
        return (yield from poll_action(session, action_id, for_s=for_s, for_people=for_people))
    except (NotFound, BodyRefused):
        return _refused_outcome(call, "NOT_FOUND", _NO_SUCH)


def poll_action(session: SessionRequests, action_id: str, *, for_s: float, for_people: bool = True) -> Plan[Outcome]:
    """Read one action again."""
    plan: Plan[Outcome] = SessionRequests.wait.build(session, action_id, for_s=for_s, for_people=for_people)
    return (yield from plan)


def interrupt_value(outcome: Outcome, call: Call, given_id: str | None) -> dict[str, Any]:
    """The value of an interrupt for a call that waits for people; `given_id` is the framework's own id of it."""
    approval_id = outcome.approval.approval_id if outcome.approval else None
    return {
        "call_id": given_id or call.call_id,
        "tool": call.tool,
        "action_id": outcome.action_id,
        "approval_id": approval_id,
    }


def parse_arguments(arguments: Any) -> Any:
    """Arguments as an object; a text that is not JSON is returned unchanged."""
    if not isinstance(arguments, str):
        return dict(arguments or {})
    try:
        value = parse_json(arguments or "{}")
    except ValueError:
        return arguments
    return value if isinstance(value, dict) else arguments


def _refused_outcome(call: Call, code: str, message: str) -> Outcome:
    unasked = CallResult(call.call_id, False, None, None, code, message, None, None, (), {}, {}, raw={})
    return Outcome(settled=True, action_id=None, state=None, call=unasked)
