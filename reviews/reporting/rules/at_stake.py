"""Money at stake in cases: the difference between found and requested amounts, and the requested amount if the result
is unknown.

A difference is told only where the reading shows each effect with its amount, in the notation and the currency of the
request; else the whole request counts as not known. Of several effects, the one whose amount the contract compares with
the request is what the money went to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from ledger.catalogue.rules.money import decimal_places, format_totals, to_decimal
from reviews.reconciliation.rules.difference import amounts_of, effect_names, shown_rows

_TOO_MUCH: Final = "{} too much"
_TOO_LITTLE: Final = "{} too little"


@dataclass(frozen=True)
class MoneyDifference:
    """How much more was found than requested, in whole units of the currency; negative where less."""

    amount: Decimal
    currency: str


def money_difference(findings: Mapping[str, Any]) -> MoneyDifference | None:
    """Return the difference that a run's findings show; None if they show none."""
    asked, name = findings.get("layers", {}).get("sr"), _paid_effect(findings.get("verdict", {}))
    readings = findings.get("readings") or ()
    if not isinstance(asked, Mapping) or name is None or not readings:
        return None
    wanted = to_decimal(asked.get("amount"), asked.get("currency"))
    seen = next((each for each in readings[0].get("effects", ()) if each["name"] == name), None)
    if wanted is None or seen is None or seen.get("present") is None:
        return None
    rows = shown_rows(readings[0], name)
    there = amounts_of(rows, asked) if rows or not seen.get("count") else None
    if there is None:
        return None
    return MoneyDifference(sum(there, Decimal(0)) - wanted, str(asked["currency"]).upper())


def _paid_effect(verdict: Mapping[str, Any]) -> str | None:
    """The effect that the money of the request went to; None if the contract does not tell which of several it was."""
    names = [each["name"] for each in verdict.get("effects", ())]
    texts = [each["text"] for each in verdict.get("predicates", ())]
    paid = [each for each in names if any(text.startswith(f"sa.effects.{each}.amount == sr.amount") for text in texts)]
    found = names if len(names) == 1 else paid
    return found[0] if len(found) == 1 else None


def describe_damage(findings: Mapping[str, Any], *, permitted: str) -> str:
    """Describe the money that findings show too much or too little, with the rows and the amount of the request.

    `permitted` is what was done with the request: "approved" or "requested". Empty where no difference is shown.
    """
    difference = money_difference(findings)
    if difference is None or not difference.amount:
        return ""
    asked, name = findings["layers"]["sr"], _paid_effect(findings["verdict"]) or ""
    rows, currency = shown_rows(findings["readings"][0], name), difference.currency
    wanted, there = to_decimal(asked["amount"], currency), amounts_of(rows, asked) or []
    total = format_totals([(abs(difference.amount), currency)])
    lead = (_TOO_MUCH if difference.amount > 0 else _TOO_LITTLE).format(total)
    effect, names = name.replace("_", " "), effect_names(name, rows)
    request = f"{_figure(wanted, currency)} was {permitted}"
    if not rows:
        return f"{lead}: no {effect} exists, {request}."
    if len(rows) > 1 and set(there) == {wanted}:
        exist = " and ".join(names) if len(names) == len(rows) else f"{len(rows)} {effect}s"
        return f"{lead}: {exist} exist, one of {request}."
    called = names if len(names) == len(rows) else [f"the {effect}"] if len(rows) == 1 else [f"a {effect}"] * len(rows)
    pairs = zip(called, there, strict=True)
    return f"{lead}: {' and '.join(f'{one} is {_figure(amount, currency)}' for one, amount in pairs)}, {request}."


def _figure(amount: Decimal | None, currency: str) -> str:
    return f"{amount:,.{decimal_places(currency)}f}"


def describe_stake(cases: Iterable[tuple[Mapping[str, Any], MoneyDifference | None]]) -> str:
    """Describe the money at stake in cases, from each one's request and difference; empty if there is none."""
    more, less, unknown = list[MoneyDifference](), list[MoneyDifference](), list[MoneyDifference]()
    for asked, known in cases:
        wanted = to_decimal(asked.get("amount"), asked.get("currency"))
        if known is not None:
            (more if known.amount > 0 else less).append(MoneyDifference(abs(known.amount), known.currency))
        elif wanted is not None:
            unknown.append(MoneyDifference(wanted, str(asked["currency"]).upper()))
    totals = [format_totals((each.amount, each.currency) for each in part) for part in (more, less, unknown)]
    parts = (_TOO_MUCH, _TOO_LITTLE, "{} requested, actual amount not known")
    return "; ".join(text.format(total) for text, total in zip(parts, totals, strict=True) if total)
