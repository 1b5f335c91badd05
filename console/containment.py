"""What is stopped around an action, and what could be."""

from __future__ import annotations

from typing import Any

from console.account import Account
from console.api.caller import Caller
from ledger import queries as record


def containment(told: Account, caller: Caller) -> dict[str, Any]:
    """The freezes that cover this action, and the ones that could be placed from here."""
    action = told.action
    covering = record.freezes_on(action.tenant_id, agent=action.agent, tool=action.tool, target=action.target)
    stopped = {(each.scope, each.value) for each in covering}
    named = (
        ("target", "This target", action.target),
        ("tool", "This tool", action.tool),
        ("agent", "This agent", action.agent),
    )
    return {
        "freezes": covering,
        "may_freeze": bool({"operator", "administrator"} & caller.roles),
        "open": [
            {"scope": scope, "word": word, "value": value}
            for scope, word, value in named
            if value and (scope, value) not in stopped
        ],
        "place": told.page("freeze-place"),
    }
