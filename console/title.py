"""What an action is called: verb, amount, thing, as in 'Refund 240.00 EUR to order EX-1'."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from approvals.rules.rendering import visible

# Minor units per currency (ISO 4217); every other currency has two places.
_WHOLE: Final = frozenset(
    ["BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "VND", "VUV", "XAF", "XOF", "XPF"]
)
_THOUSANDTHS: Final = frozenset(["BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"])
_TOWARDS: Final = {
    **dict.fromkeys(["refund", "pay", "payout", "transfer", "credit"], "to"),
    **dict.fromkeys(["charge", "debit"], "from"),
}


def title(operation_kind: str, target: str, payload: Mapping[str, Any] | None = None) -> str:
    """The action in one line; with the payload, the amount is in it. Misleading characters are marked."""
    verb = operation_kind.replace("_", " ").replace("-", " ").strip() or "run"
    kind, _, name = target.partition("/")
    thing = f"{kind} {name}" if name else kind
    amount = money((payload or {}).get("amount"), (payload or {}).get("currency"))
    shown = f"{verb} {amount} {_TOWARDS.get(verb, 'on')} {thing}" if amount else f"{verb} {thing}"
    return visible(shown[:1].upper() + shown[1:].strip())[0]


def money(amount: Any, currency: Any) -> str:
    """An amount as a person reads it: text stays, an integer counts minor units. Empty when it is not money."""
    if not isinstance(currency, str) or len(currency) != 3 or not currency.isalpha() or isinstance(amount, bool):
        return ""
    if isinstance(amount, str):
        return f"{amount} {currency}"
    if not isinstance(amount, int):
        return ""
    places = 0 if currency.upper() in _WHOLE else 3 if currency.upper() in _THOUSANDTHS else 2
    sign, digits = ("-" if amount < 0 else ""), str(abs(amount)).zfill(places + 1)
    whole, part = (digits[:-places], digits[-places:]) if places else (digits, "")
    return f"{sign}{int(whole):,}{'.' + part if part else ''} {currency}"
