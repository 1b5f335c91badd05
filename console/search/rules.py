"""The words by which an action is found besides its id and its target.

1. The hash of its payload, as it is: the hash stands in the record and in every list. Its beginning is enough.
2. The amount that its arguments name, with and without the currency: `20.50 EUR`, `EUR 20.5` and `20.50` are the same.
3. The confirmation code that its tool gave, and those that the statements of its votes have, without regard to case.

Payloads, answers and statements are sealed, so what comes out of them is kept as a keyed hash: whoever reads the table
without the key of the installation cannot tell an amount from another. Such a word is found whole, never by a part.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal, InvalidOperation
from typing import Final
from uuid import UUID

SHORTEST_PREFIX: Final = 6
"""So many hexadecimal digits name a hash or an id well enough to be looked for."""
_HEX: Final = re.compile(r"[0-9a-f]+")
_CURRENCY_FIRST: Final = re.compile(r"([A-Za-z]{3})\s*([0-9][0-9,]*(?:\.[0-9]+)?)")
_NUMBER_FIRST: Final = re.compile(r"([0-9][0-9,]*(?:\.[0-9]+)?)\s*([A-Za-z]{3})?")
LAST: Final = "g"
"""Stands behind every hexadecimal digit."""


def terms_of(
    *, tenant_id: UUID, key: bytes, payload_hash: str, amount: Decimal | None, currency: str, codes: Iterable[str]
) -> list[str]:
    """The search terms of one action."""
    found = [f"h:{payload_hash}"] if payload_hash else []
    if amount is not None:
        plain = _plain(amount)
        found += [
            _keyed_term(tenant_id, key, f"amount {plain}"),
            _keyed_term(tenant_id, key, f"amount {plain} {currency.lower()}"),
        ]
    return [*found, *(_keyed_term(tenant_id, key, f"code {code.casefold()}") for code in dict.fromkeys(codes) if code)]


def asked_terms(tenant_id: UUID, key: bytes, text: str) -> list[str]:
    """Return the keyed words that a typed text can be: a code, an amount or both."""
    typed = text.strip()
    return [
        _keyed_term(tenant_id, key, f"code {typed.casefold()}"),
        *(_keyed_term(tenant_id, key, f"amount {said}") for said in _amounts(typed)),
    ]


def hex_prefix(text: str) -> str:
    """The hexadecimal digits at the beginning of a typed id or hash, without dashes; empty if it is neither."""
    digits = text.strip().lower().removeprefix("sha256:").replace("-", "")
    return digits if SHORTEST_PREFIX <= len(digits) <= 64 and _HEX.fullmatch(digits) else ""


def id_range(digits: str) -> tuple[UUID, UUID] | None:
    """The first and the last id that begin with these digits."""
    if not digits or len(digits) > 32:
        return None
    return UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))


def _amounts(typed: str) -> Iterator[str]:
    if found := _CURRENCY_FIRST.fullmatch(typed):
        currency, number = found[1], found[2]
    elif found := _NUMBER_FIRST.fullmatch(typed):
        number, currency = found[1], found[2] or ""
    else:
        return
    try:
        plain = _plain(Decimal(number.replace(",", "")))
    except InvalidOperation:
        return
    yield f"{plain} {currency.lower()}".strip()


def _plain(amount: Decimal) -> str:
    """A number without zeros at its end: 20.50 and 20.5 are the same amount."""
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _keyed_term(tenant_id: UUID, key: bytes, said: str) -> str:
    return "k:" + hmac.digest(key, b"counterfoil search\x00" + tenant_id.bytes + said.encode(), "sha256").hex()[:40]
