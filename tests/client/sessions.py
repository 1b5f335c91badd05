"""What a console answers to an agent, for the tests of the client library."""

from __future__ import annotations

from typing import Any

from tests.client.consoles import Answer, Seen, StandIn

SESSION: dict[str, Any] = {
    "session_id": "ses-1",
    "contract": {
        "sub_tools_disclosed": ["issue_refund"],
        "registry_version": "1.0.0",
        "registry_fingerprint": "f" * 64,
        "tools": [
            {
                "name": "issue_refund",
                "version": "1.0.0",
                "description": "Refund a captured charge.",
                "arguments_schema": {
                    "type": "object",
                    "required": ["charge_id", "amount"],
                    "additionalProperties": False,
                    "properties": {"charge_id": {"type": "string"}, "amount": {"type": "integer"}},
                },
            }
        ],
    },
    "pin": {"hash": "h" * 64, "expires_at": "2999-01-01T00:00:00Z"},
}
COMPLETED = {
    "state": "RECONCILED_SUCCESS",
    "code": "COMPLETED",
    "text": "Done, and confirmed.",
    "completed": True,
    "trust_level": 3,
}
RUNNING = {
    "state": "EXECUTING",
    "code": "ATTEMPTED_RESULT_UNKNOWN",
    "text": "Attempted; what came of it is not known yet.",
    "completed": False,
    "trust_level": 1,
}
NOT_EXECUTED = {
    "state": "VALIDATED",
    "code": "NOT_EXECUTED",
    "text": "Not executed.",
    "completed": False,
    "trust_level": 0,
}
WAITING: dict[str, Any] = {
    "approval_id": "app-1",
    "decision": "WAITING",
    "waiting": True,
    "reason": None,
    "next": {"code": "WAIT", "text": "Wait."},
    "superseded_by": None,
    "more": {},
    "decide_by": "2999-01-01T00:00:00Z",
    "release_by": None,
}


def accepted(call_id: str = "c1", **changes: Any) -> dict[str, Any]:
    """A call that the gate took."""
    status = {"code": "NOT_EXECUTED", "text": "Not executed."}
    result = {"call_id": call_id, "accepted": True, "action_id": "act-1", "state": "VALIDATED", "user_status": status}
    return result | changes


def refused(call_id: str = "c1", **changes: Any) -> dict[str, Any]:
    """A call that the gate did not take."""
    error = {"code": "SCHEMA_DRIFT", "message": "`amount` is an integer."}
    result = {
        "call_id": call_id,
        "accepted": False,
        "action_id": None,
        "state": None,
        "result": {"status": "failed", "error": error},
        "hint": "Send `amount` as an integer of minor units.",
        "suggestion": "amount",
        "errors": [{"path": "/amount", "code": "type", "detail": "is not an integer"}],
    }
    return result | changes


def stands(state: str, **changes: Any) -> Answer:
    """The answer about an action in this state."""
    body = {"action_id": "act-1", "state": state, "tool": "issue_refund", "target": "charge/ch_1"}
    return Answer(200, body | changes)


def a_day(console: StandIn, *results: dict[str, Any]) -> None:
    """A console that opens sessions, takes calls and says that everything was done."""
    console.plan("/sessions", Answer(201, SESSION))
    console.plan("/calls", Answer(200, {"results": list(results or [accepted()]), "nudge": "Go on."}))
    console.plan("/report", Answer(200, COMPLETED))
    console.plan("/actions/act-1", stands("RECONCILED_SUCCESS"))
    console.plan("/close", Answer(200, {"session_id": "ses-1", "closed": True}))


def gate(seen: Seen) -> Answer:
    """A gate that takes `issue_refund` with whole amounts and refuses everything else."""
    return Answer(200, {"results": [_judged(call) for call in seen.body["calls"]], "nudge": "Go on."})


def _judged(call: dict[str, Any]) -> dict[str, Any]:
    arguments = call["arguments"]
    if call["tool"] != "issue_refund":
        error = {"code": "PHANTOM_TOOL", "message": f"There is no tool {call['tool']}."}
        return refused(call["call_id"], result={"error": error}, hint="Use a tool of the contract.", errors=[])
    if not isinstance(arguments, dict):
        error = {"code": "UNPARSEABLE_ARGUMENTS", "message": "The arguments are no JSON object."}
        return refused(call["call_id"], result={"error": error}, suggestion=None, errors=[])
    if not isinstance(arguments.get("amount"), int):
        return refused(call["call_id"])
    return accepted(call["call_id"])


def blocks(seen: Seen) -> Answer:
    """A guard that knows of no refund."""
    if "refunded" not in seen.body["message"]:
        return Answer(200, {"verdict": "ALLOW", "violations": [], "corrected": None})
    violation = {"code": "PHANTOM", "span": [0, 8], "claim": "refunded", "action_id": None, "detail": "No such action."}
    return Answer(200, {"verdict": "BLOCK", "violations": [violation], "corrected": "Nothing was paid back yet."})


LINE = "Verified: Refunded 12.50 EUR to order EX-1. Confirmation: re_1."
RECEIPT = {
    "lines": [
        {"action_id": "act-1", "tool": "issue_refund", "target": "order/EX-1", "outcome": "VERIFIED", "text": LINE}
        | {"code": "re_1"}
    ],
    "open": [],
    "text": f"On record:\n- {LINE}",
    "markdown": f"On record:\n\n- {LINE}",
    "html": f"<ul><li>{LINE}</li></ul>",
}


def fills_in(seen: Seen) -> Answer:
    """A guard that fills in citations of call-1, and has a receipt."""
    if not seen.body:
        return Answer(200, {"items": [], "next": None, "receipt": RECEIPT})
    cited = "{{action:call-1}}" in seen.body["message"]
    corrected = seen.body["message"].replace("{{action:call-1}}", LINE) if cited else None
    return Answer(200, {"verdict": "ALLOW", "violations": [], "corrected": corrected, "receipt": RECEIPT})


def held_until_asked(console: StandIn, times: int) -> None:
    """An action that waits for people until it was looked at so often."""
    waits = [stands("VALIDATED", approval=WAITING)] * times
    approved = WAITING | {"decision": "APPROVED", "waiting": False}
    console.plan("/actions/act-1", *waits, stands("RECONCILED_SUCCESS", approval=approved))
    console.plan("/report", lambda _: Answer(200, COMPLETED if _looked(console) > times else NOT_EXECUTED))


def _looked(console: StandIn) -> int:
    return len([seen for seen in console.seen if seen.path.partition("?")[0].endswith("/actions/act-1")])
