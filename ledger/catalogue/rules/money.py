"""Money: formats amounts in minor units (ISO 4217)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final, TypeGuard

# Minor units per currency; every other currency has two places.
_WHOLE: Final = frozenset(
    ["BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "VND", "VUV", "XAF", "XOF", "XPF"]
)
_THOUSANDTHS: Final = frozenset(["BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"])
_LONGEST: Final = 30
# fmt: off
MONEY: Final = frozenset((
    "amount", "balance", "budget", "charge", "cost", "deposit", "discount",
    "fee", "fine", "payment", "payout", "price", "refund", "salary",
    "sum", "tip", "total",
))
# fmt: on
"""Words in the names of arguments that are money."""


def decimal_places(currency: str) -> int:
    """The number of decimal places of a currency."""
    return 0 if currency.upper() in _WHOLE else 3 if currency.upper() in _THOUSANDTHS else 2


def is_currency(value: object) -> TypeGuard[str]:
    """Return whether a value has the form of a currency code."""
    return isinstance(value, str) and len(value) == 3 and value.isascii() and value.isalpha()


def format_money(amount: object, currency: object) -> str:
    """An amount as a person reads it: text stays, an integer counts minor units. Empty when it is not money."""
    if not is_currency(currency) or isinstance(amount, bool):
        return ""
    if isinstance(amount, str):
        return f"{amount} {currency}"
    if not isinstance(amount, int):
        return ""
    after = decimal_places(currency)
    sign, digits = ("-" if amount < 0 else ""), str(abs(amount)).zfill(after + 1)
    whole, part = (digits[:-after], digits[-after:]) if after else (digits, "")
    return f"{sign}{int(whole):,}{'.' + part if part else ''} {currency}"


def to_decimal(amount: object, currency: object) -> Decimal | None:
    """The amount in whole units; None if it is not money."""
    if not is_currency(currency) or isinstance(amount, bool):
        return None
    if isinstance(amount, int):
        return Decimal(amount).scaleb(-decimal_places(currency))
    if not isinstance(amount, str) or len(amount) > _LONGEST:
        return None
    try:
        read = Decimal(amount)
    except InvalidOperation:
        return None
    return read if read.is_finite() else None


def amount_of(arguments: Mapping[str, Any] | None) -> str:
    """The amount in a call's arguments, in readable form; empty if there is none."""
    return format_money((arguments or {}).get("amount"), (arguments or {}).get("currency"))


def money_at_stake(calls: Iterable[Mapping[str, Any]]) -> str:
    """The total amount in the arguments of several calls, by currency; empty if there is none."""
    worths = ((to_decimal(each.get("amount"), each.get("currency")), each.get("currency")) for each in calls)
    return format_totals((worth, str(currency).upper()) for worth, currency in worths if worth is not None)


def format_totals(amounts: Iterable[tuple[Decimal, str]]) -> str:
    """The totals in whole units, by currency; empty if all are zero."""
    totals: dict[str, Decimal] = {}
    for amount, code in amounts:
        totals[code] = totals.get(code, Decimal(0)) + amount
    said = [f"{total:,.{decimal_places(code)}f} {code}" for code, total in sorted(totals.items()) if total]
    return " and ".join(said)
