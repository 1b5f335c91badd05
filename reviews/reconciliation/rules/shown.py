"""The newest decisive reading of an attempt, in words for people: no reading, no result, or what it showed.

1. A decisive run stands before every other, whatever came after it. Among those that settled nothing, a strong reading
   stands before a weak one, and one that was answered before one that was not.
2. What a reading showed instead of the request is told with its values: how often an effect is there that was wanted
   once, which effects are missing, and each field with both values, amounts as money.
3. Values come from outside. Each is cut to one short line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from ledger.catalogue.rules.fields import FieldSource, compare_fields
from ledger.catalogue.rules.money import MONEY, format_money
from reviews.reconciliation.rules.discrepancies import Discrepancy
from reviews.reconciliation.rules.reading import DECISIVE as STRONG
from reviews.reconciliation.rules.verdict import LACKING, VerificationResult

if TYPE_CHECKING:
    from ledger.catalogue.rules.contract import Contract

DECISIVE: Final = frozenset(VerificationResult) - {VerificationResult.PENDING, VerificationResult.UNKNOWN}
_NOTHING_THERE: Final = frozenset({Discrepancy.NO_OP_FAILURE, Discrepancy.TARGET_MISSING})
_MOST_NAMED: Final = 5
_LONGEST: Final = 60
_FIELD: Final = re.compile(r"\bsa\.(?:effects\.\w+\.)?([a-z_]\w*)", re.ASCII)


class Shown(StrEnum):
    """The result of the newest decisive reading, or the reason why there is none."""

    NOT_READ = "NOT_READ"
    WEAK = "WEAK"
    UNDECIDED = "UNDECIDED"
    AS_REQUESTED = "AS_REQUESTED"
    NO_EFFECT = "NO_EFFECT"
    DIFFERENT = "DIFFERENT"


@dataclass(frozen=True, kw_only=True)
class LastReading:
    """The newest decisive reading.

    `difference` has the values if it is DIFFERENT, and is empty if they were erased; `exact` has all of them and uncut,
    for comparing. `run` is the pointer of its evidence.
    """

    shown: Shown = Shown.NOT_READ
    difference: str = ""
    exact: str = ""
    run: str = ""


NOT_READ: Final = LastReading()


def shown_by(*, source: str, consistency: str, result: str, discrepancy: str) -> Shown:
    """The result of a run, from its codes (rule 1)."""
    if result not in DECISIVE:
        if not source:
            return Shown.NOT_READ
        return Shown.UNDECIDED if consistency in STRONG else Shown.WEAK
    if result == VerificationResult.ABSENT or discrepancy in _NOTHING_THERE:
        return Shown.NO_EFFECT
    return Shown.AS_REQUESTED if result == VerificationResult.SUCCESS else Shown.DIFFERENT


def describe_difference(findings: Mapping[str, Any], contract: Contract | None) -> str:
    """Describe what a run's readings showed instead of the request, as "quantity 10 instead of 1" (rules 2 and 3)."""
    said = _differences(findings, contract, longest=_LONGEST)
    more = len(said) - _MOST_NAMED
    return ", ".join(said[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def describe_effects(effects: Iterable[Sequence[Any]]) -> str:
    """Describe how often effects were found and which are missing, each given as (name, found, count)."""
    found = [dict(zip(("name", "found", "count"), each, strict=True)) for each in effects]
    return ", ".join(_effects({"effects": found}))


def exact_difference(findings: Mapping[str, Any], contract: Contract | None) -> str:
    """The same with every field, uncut, and with each check that fails: equal only where the same is there."""
    verdict = findings.get("verdict", {})
    failed = [[each["text"], each["actual"]] for each in verdict.get("predicates", ()) if each["holds"] == "FALSE"]
    said = [verdict.get("discrepancy"), _differences(findings, contract, longest=None), failed]
    return json.dumps(said, ensure_ascii=False, sort_keys=True)


def _differences(findings: Mapping[str, Any], contract: Contract | None, *, longest: int | None) -> list[str]:
    verdict = findings.get("verdict", {})
    said = [*_effects(verdict), *_fields(findings, contract, longest)]
    return said or [WITHOUT_VALUES.get(verdict.get("discrepancy") or "", "not what was requested")]


WITHOUT_VALUES: Final[Mapping[str, str]] = {
    Discrepancy.NO_OP_SUCCESS: "the wanted state, from before the action",
    Discrepancy.WRONG_TARGET_MODIFIED: "a change of another target",
    Discrepancy.STALE_STATE: "a target that had changed in between",
    Discrepancy.COMPENSATION_REQUIRED: "an effect that must be reversed",
    Discrepancy.DUPLICATE_SIDE_EFFECT: "one effect where the tool reported more",
}


def _effects(verdict: Mapping[str, Any]) -> Iterator[str]:
    effects = verdict.get("effects", ())
    names = {each["name"]: str(each["name"]).replace("_", " ") for each in effects}
    for each in effects:
        if each["count"] > 1:
            yield f"{names[each['name']]} {each['count']} times instead of once"
    lacking = [names[each["name"]] for each in effects if each["found"] in LACKING]
    if lacking:
        there = " and ".join(names[each["name"]] for each in effects if each["found"] not in LACKING)
        yield f"{there}{', but ' if there else ''}no {' and no '.join(lacking)}"


def _fields(findings: Mapping[str, Any], contract: Contract | None, longest: int | None) -> Iterator[str]:
    """Return each argument with a different shown value, then each failed check of a field that is not an argument."""
    layers = findings.get("layers", {})
    asked, reading = layers.get("sr"), layers.get("sa")
    told = set()
    if isinstance(asked, Mapping) and reading:
        compared = [
            each
            for each in compare_fields(asked, contract=contract, reading=reading)
            if each.differs and each.source is FieldSource.READ
        ]
        shown = {each.name: each.shown for each in compared}
        currency = asked.get("currency")
        for each in compared:
            told.add(each.name.rpartition(".")[2])
            there = _value(each.name, each.shown, shown.get("currency", currency), longest)
            yield f"{_in_words(each.name)} {there} instead of {_value(each.name, each.asked, currency, longest)}"
    currency = asked.get("currency") if isinstance(asked, Mapping) else None
    for check in findings.get("verdict", {}).get("predicates", ()):
        about = set(_FIELD.findall(check["text"])) - {"effects", "exists", "count", "target"}
        if check["holds"] != "FALSE" or len(about) != 1 or about & told or check["expected"] is None:
            continue
        (name,) = about
        told.add(name)
        there = _value(name, check["actual"], currency, longest)
        yield f"{_in_words(name)} {there} instead of {_value(name, check['expected'], currency, longest)}"


def _in_words(name: str) -> str:
    return name.replace("_", " ").replace(".", " ")


def _value(name: str, value: object, currency: object, longest: int | None) -> str:
    """A value in one short line; an amount as money."""
    if set(re.split(r"[._]", name.lower())) & MONEY and (money := format_money(value, currency)):
        return money
    if value is None:
        return "none"
    line = single_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), longest)
    return f"“{line}”" if isinstance(value, str) and not re.fullmatch(r"[\w./@:+-]+", line) else line


def single_line(text: str, longest: int | None) -> str:
    """A text on one line without control characters, cut to this length."""
    line = re.sub(r"[\s\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]+", " ", text).strip()
    return line if longest is None or len(line) <= longest else f"{line[: longest - 1]}…"
