"""What is stopped around an action or a case, and what could be."""

from __future__ import annotations

from typing import Any

from django.urls import reverse

from console.api.caller import Caller
from ledger.queries import freezing


def containment(tenant: Any, caller: Caller, *, agent: str = "", tool: str = "", target: str = "") -> dict[str, Any]:
    """The freezes that cover these, and the ones that could be placed from here."""
    covering = freezing.freezes_on(tenant.id, agent=agent, tool=tool, target=target)
    stopped = {(each.scope, each.value) for each in covering}
    named = (("target", "This target", target), ("tool", "This tool", tool), ("agent", "This agent", agent))
    return {
        "freezes": covering,
        "may_freeze": bool({"operator", "administrator"} & caller.roles),
        "open": [
            {"scope": scope, "word": word, "value": value}
            for scope, word, value in named
            if value and (scope, value) not in stopped
        ],
        "place": reverse("freeze-place", args=[tenant.slug]),
    }
