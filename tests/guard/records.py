"""Tools and records for the guard's tests: a small travel desk and a shop, as their contracts would describe them."""

from __future__ import annotations

from typing import Any

from ledger.catalogue.rules.contract import Saying
from ledger.catalogue.rules.fields import Field
from ledger.record.rules.lifecycle import State
from ledger.record.rules.outcomes import BY_STATE
from reviews.guarding.rules.records import Ground, Record, Tool
from reviews.reporting.rules.report import ALLOWED, StatusCode
from tests.rules.reporting.test_report import told

REFUND = Tool(
    "issue_refund",
    done=("refunded", "issued a refund"),
    object=("refund", "order"),
    report=(
        ("de", "{sa.amount | money} für Bestellung {sr.order_id} erstattet."),
        ("en", "Refunded {sa.amount | money}."),
    ),
)
PLAN = Tool(
    "change_plan",
    done=("changed", "upgraded"),
    object=("plan",),
    sayings=(Saying(("charged",), "double(so.payment) > 0.0"),),
)
EMAIL = Tool("send_email", done=("sent", "emailed"), object=("email", "message"))
LOOK = Tool("get_plan", mutating=False, object=("plan",), sayings=(Saying(("is active",), "so.active"),))
TOOLS = (REFUND, PLAN, EMAIL, LOOK)


def record(tool: str = "issue_refund", state: str = "RECONCILED_SUCCESS", **changes: Any) -> Record:
    """An action as the console has it on record; done, read back and evidenced unless said otherwise."""
    code = ALLOWED[State(state)][0]
    known: dict[str, Any] = {
        "action_id": "a1",
        "tool": tool,
        "target": "order/EX-1001",
        "arguments": {},
        "state": state,
        "completed": code is StatusCode.COMPLETED,
        "code": str(code),
        "text": told(State(state), **({"readings": ()} if state == "FAILED" else {})).text,
        "evidence": ("re_81",),
        "outcome": str(BY_STATE[State(state)]),
        "call_id": "call-7",
    }
    return Record(**(known | changes))


def differing(name: str, asked: Any, shown: Any) -> Field:
    """A field that is shown otherwise than it was asked."""
    return Field(name, asked, shown, same=False)


def same(name: str, value: Any) -> Field:
    """A field that is shown as it was asked."""
    return Field(name, value, value, same=True)


def ground(*records: Record, tools: tuple[Tool, ...] = TOOLS) -> Ground:
    """What a message is judged against."""
    return Ground(tools, records)
