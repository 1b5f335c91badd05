"""What an action is called: verb, amount, thing, as in 'Refund 240.00 EUR to order EX-1'."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from approvals.requests.rules.rendering import mark_hidden
from ledger.catalogue.rules.money import format_money

_UNFILLED: Final = re.compile(r"\{[A-Za-z_][\w.]*\}")
_TOWARDS: Final = {
    **dict.fromkeys(["refund", "pay", "payout", "transfer", "credit"], "to"),
    **dict.fromkeys(["charge", "debit"], "from"),
}


def action_title(operation_kind: str, target: str, payload: Mapping[str, Any] | None = None) -> str:
    """The action in one line; with the payload, the amount is in it. Misleading characters are marked.

    A refused call whose arguments do not name its target has the contract's template for one: it is left out.
    """
    verb = operation_kind.replace("_", " ").replace("-", " ").strip() or "run"
    kind, _, name = (part.strip("/") for part in _UNFILLED.sub("", target).partition("/"))
    thing = f"{kind} {name}" if name else kind
    amount = format_money((payload or {}).get("amount"), (payload or {}).get("currency"))
    shown = f"{verb} {amount} {_TOWARDS.get(verb, 'on')} {thing}" if amount else f"{verb} {thing}"
    return mark_hidden(shown[:1].upper() + shown[1:].strip())[0]
