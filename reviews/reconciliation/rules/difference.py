"""The difference that a reading shows between one effect and the request, where one correction can make it good.

1. It is told of an action with one effect, from a decisive finding of a duplicate or of other values. What is absent,
   done in part, in another target or stale is no such difference.
2. A duplicate is the effect as requested, in the first row, and further rows of it. More or less money than requested
   is a surplus, or missing, if nothing else differs. Anything else is another value.
3. Money is compared as decimals of whole units, in the currency of the request, and only where every row shows its
   amount in the notation of the request. It is never rounded.
4. Two differences are equal where the same rows are there with the same amounts. A row is named by its field `id`.
5. A duplicate, a surplus and what is missing are made good beside the rows that are there, which may stay as they are.
   Another value is made good only in the effect itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any, Final

from ledger.catalogue.rules import expressions
from ledger.catalogue.rules.money import decimal_places, format_totals, to_decimal
from ledger.catalogue.rules.remedies import DifferenceKind
from reviews.reconciliation.rules.discrepancies import Discrepancy

Row = Mapping[str, Any]
_CORRECTABLE: Final = frozenset({Discrepancy.DUPLICATE_SIDE_EFFECT, Discrepancy.VALUE_MISMATCH})
_ZERO: Final = Decimal(0)


@dataclass(frozen=True, kw_only=True)
class EffectDifference:
    """What a reading shows instead of the request.

    `ids` and `amounts` are those of every row of the effect, `amounts` in whole units and empty without money. `amount`
    is what is too much or missing, of a surplus or of what is missing. `rows` are those that a correction acts on.
    """

    kind: DifferenceKind
    effect: str
    ids: tuple[str, ...]
    amounts: tuple[Decimal, ...] = ()
    amount: Decimal = _ZERO
    currency: str = ""
    rows: tuple[Row, ...] = field(default=(), compare=False)

    @property
    def may_stay(self) -> bool:
        """Return whether the rows that were found may stay as they are once it was corrected (rule 5)."""
        return self.kind is not DifferenceKind.VALUE

    def bindings(self, asked: Row) -> Iterator[dict[str, Any]]:
        """The variable `diff`, once for each correction: a duplicate is corrected row by row."""
        for row in self.rows:
            amount = (
                to_decimal(row.get("amount"), self.currency) if self.kind is DifferenceKind.DUPLICATE else self.amount
            )
            money = {"amount": _in_notation(amount, asked), "currency": asked["currency"]} if amount else {}
            yield {"kind": str(self.kind), "effect": self.effect, "row": dict(row), **money}

    def as_json(self) -> dict[str, Any]:
        """The same as JSON, amounts as text."""
        document = asdict(self)
        amounts = {"amounts": [str(each) for each in self.amounts], "amount": str(self.amount)}
        return document | {"kind": str(self.kind), **amounts}


def read_difference(document: Mapping[str, Any]) -> EffectDifference:
    """The difference that was written as JSON."""
    return EffectDifference(
        kind=DifferenceKind(document["kind"]),
        effect=document["effect"],
        ids=tuple(document["ids"]),
        amounts=tuple(map(Decimal, document["amounts"])),
        amount=Decimal(document["amount"]),
        currency=document["currency"],
        rows=tuple(document["rows"]),
    )


def find_difference(findings: Mapping[str, Any]) -> EffectDifference | None:
    """The difference that a run's findings show; None where they show none that one correction can make good."""
    asked, verdict = findings.get("layers", {}).get("sr"), findings.get("verdict", {})
    effects, readings = verdict.get("effects") or [], findings.get("readings") or []
    is_told = verdict.get("decisive") and verdict.get("discrepancy") in _CORRECTABLE and len(effects) == 1 and readings
    if not is_told or not isinstance(asked, Mapping):
        return None
    name = effects[0]["name"]
    rows = shown_rows(readings[0], name)
    if not rows:
        return None
    failed = [each["text"] for each in verdict.get("predicates", ()) if each["holds"] == "FALSE"]
    currency = str(asked.get("currency") or "").upper()
    money = amounts_of(rows, asked)
    shared: dict[str, Any] = {"effect": name, "ids": tuple(map(_row_id, rows)), "amounts": tuple(money or ())}
    if len(rows) > 1:
        if failed or not _is_as_requested(rows[0], asked):
            return None
        return EffectDifference(
            kind=DifferenceKind.DUPLICATE, **shared, currency=currency if money else "", rows=rows[1:]
        )
    wanted = to_decimal(asked.get("amount"), currency)
    over = money[0] - wanted if money and wanted is not None else _ZERO
    if not over:
        return EffectDifference(kind=DifferenceKind.VALUE, **shared, rows=rows)
    if not all(_is_about_amount(text) for text in failed) or not _is_as_requested(
        {**rows[0], "amount": asked["amount"]}, asked
    ):
        return None
    kind = DifferenceKind.SURPLUS if over > 0 else DifferenceKind.MISSING
    return EffectDifference(kind=kind, **shared, amount=abs(over), currency=currency, rows=rows)


def shown_rows(reading: Mapping[str, Any], effect: str) -> tuple[Row, ...]:
    """Every row of an effect that a reading shows; empty where it does not show each of them."""
    seen = next((each for each in reading.get("effects", ()) if each["name"] == effect), None)
    if seen is None or not seen.get("present"):
        return ()
    count = seen.get("count", 0)
    rows = tuple(seen.get("instances") or ([seen.get("fields") or {}] if count == 1 else ()))
    return rows if len(rows) == count else ()


def amounts_of(rows: Sequence[Row], asked: Row) -> list[Decimal] | None:
    """The amount of each row; None where one is not shown, or is in another notation or currency than the request."""
    currency = asked.get("currency")
    same = all(
        type(one.get("amount")) is type(asked.get("amount"))
        and str(one.get("currency", currency)).upper() == str(currency).upper()
        for one in rows
    )
    found = [to_decimal(one.get("amount"), currency) for one in rows] if same else [None]
    return None if None in found else [one for one in found if one is not None]


def row_names(effect: str, ids: Sequence[str]) -> list[str]:
    """The names of rows as people read them: "refund 3"; none without an id."""
    return [f"{effect.replace('_', ' ')} {each}" for each in ids if each]


def effect_names(effect: str, rows: Sequence[Row]) -> list[str]:
    """The names of those rows of an effect that show their id."""
    return row_names(effect, [_row_id(each) for each in rows])


def describe_correction(difference: EffectDifference, said: str) -> str:
    """Describe what a correction does, as a phrase with a verb; `said` are the values that differ."""
    names = " and ".join(effect_names(difference.effect, difference.rows))
    effect = difference.effect.replace("_", " ")
    match difference.kind:
        case DifferenceKind.DUPLICATE:
            money = amounts_of(difference.rows, {"currency": difference.currency, **difference.rows[0]})
            total = format_totals((each, difference.currency) for each in money or ())
            return f"reverse {names or f'the further {effect}'}{f' ({total})' if total else ''}"
        case DifferenceKind.SURPLUS:
            over = format_totals([(difference.amount, difference.currency)])
            return f"reverse the surplus of {over}{f' of {names}' if names else ''}"
        case DifferenceKind.MISSING:
            return f"make up the missing {format_totals([(difference.amount, difference.currency)])}"
        case DifferenceKind.VALUE:
            return f"restore what differs{f' ({said})' if said else ''}"


def _row_id(row: Row) -> str:
    found = row.get("id")
    return str(found) if isinstance(found, str | int) and not isinstance(found, bool) else ""


def _is_as_requested(row: Row, asked: Row) -> bool:
    """Return whether a row shows the values of the request under the same names, as far as it shows them."""
    return all(row[name] == value for name, value in asked.items() if name in row)


def _is_about_amount(text: str) -> bool:
    asked = expressions.paths_of(text, "sa", expressions.VARIABLES)
    return all(path[-1:] == ("amount",) for path in asked)


def _in_notation(amount: Decimal, asked: Row) -> int | str:
    """An amount in the notation of the request: minor units as an integer, or text."""
    if isinstance(asked["amount"], int):
        return int(amount.scaleb(decimal_places(str(asked["currency"]))))
    return f"{amount:f}"
