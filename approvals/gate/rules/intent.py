"""Finds contradictions between an agent's own words and its payload (B35).

What a reviewer decides about is rendered from the canonical bytes, so words change nothing on the page. But an agent
that says 24.00 and sends 240.00 is wrong in one of the two, and the reviewer is told so:

1. An amount with a currency in the words, where the payload has amounts of money and none of them is that amount.
   A number that can be read in two ways ("1.234 EUR") contradicts only if neither reading fits.
2. A currency in the words that no amount of the payload has.
3. A name of the payload's own kind in the words (`ch_…` beside `ch_…`, a mail address beside a mail address), where
   none of the payload's names of that kind is among them.
4. An expectation about one field (`sa.amount == 24000`) whose value is another in the payload.

Words that say nothing of the kind contradict nothing; the rule reads no meaning. Same input, same answer.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from approvals.requests.rules.rendering import mark_hidden
from ledger.catalogue.rules.money import decimal_places, format_money, to_decimal
from ledger.record.rules.canonical import canonical

_READ = 20_000
_MOST = 200
_SHOWN = 120
_SIGNS = {"€": "EUR", "$": "USD", "£": "GBP", "¥": "JPY", "₹": "INR"}
_NAMED = {"euro": "EUR", "euros": "EUR", "dollar": "USD", "dollars": "USD", "pound": "GBP", "pounds": "GBP"}
_TIMES = {"": 1, "k": 1_000, "thousand": 1_000, "m": 1_000_000, "million": 1_000_000}
_NUMBER = r"\d(?:[\d.,'\u2019 ]{0,20}\d)?"
_UNIT = r"[€$£¥₹]|\b[A-Z]{3}\b"
_MONEY = re.compile(
    rf"(?:(?P<before>{_UNIT}) ?(?P<first>{_NUMBER})(?: ?(?P<first_times>k|m|thousand|million)\b)?)"
    rf"|(?:(?P<second>{_NUMBER}) ?(?P<times>k|m|thousand|million)? ?"
    rf"(?P<after>{_UNIT}|\b(?:euros?|dollars?|pounds?)\b))"
)
_MAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")
_NAME = re.compile(r"\b([A-Za-z]{1,12}[_-])[\w-]{1,100}")
_COMPARED = re.compile(r"\s*s[iroa]\.(\w+(?:\.\w+)*)\s*==\s*(\"[^\"\\]*\"|'[^'\\]*'|-?\d+(?:\.\d+)?|true|false)\s*")


@dataclass(frozen=True)
class AgentStatement:
    """A text of the agent and its source: goal, restated goal or expectation."""

    where: str
    text: str


@dataclass(frozen=True)
class Contradiction:
    """A contradiction; both sides are safe to show; `code` is AMOUNT, CURRENCY, NAME or EXPECTATION."""

    code: str
    where: str
    said: str
    sent: str

    @property
    def sentence(self) -> str:
        """The contradiction in one line."""
        return f"The agent said {self.said}, the payload says {self.sent}."


def find_contradictions(payload: object, words: Iterable[AgentStatement]) -> tuple[Contradiction, ...]:
    """Every contradiction between the agent's words and its payload, each once."""
    fields = tuple(_walk(payload, ""))
    found: list[Contradiction] = []
    for said in words:
        if said.where == "expectation":
            found += _check_expectation(fields, said)
        else:
            text = unicodedata.normalize("NFKC", said.text[:_READ])
            found += [*_amounts(fields, said.where, text), *_names(fields, said.where, text)]
    return tuple(dict.fromkeys(found))


def _walk(value: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield (path, value, container) for every value of a payload."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            here = f"{path}.{name}" if path else str(name)
            yield here, part, value
            yield from _walk(part, here)
    elif isinstance(value, list):
        for number, part in enumerate(value):
            here = f"{path}.{number}"
            yield here, part, value
            yield from _walk(part, here)


def _sent_money(fields: Iterable[tuple[str, Any, Any]]) -> dict[str, list[tuple[Decimal, str]]]:
    """The payload's amounts by currency, each as a number and as people read it (rule 1)."""
    sent: dict[str, list[tuple[Decimal, str]]] = {}
    for path, value, around in fields:
        currency = around.get("currency") if isinstance(around, Mapping) else None
        number = to_decimal(value, currency)
        if number is not None and path.rpartition(".")[2].lower().endswith("amount"):
            sent.setdefault(str(currency).upper(), []).append((number, format_money(value, currency)))
    return sent


def _amounts(fields: Iterable[tuple[str, Any, Any]], where: str, text: str) -> Iterator[Contradiction]:
    sent = _sent_money(fields)
    stated = list(_stated_money(text)) if sent else []
    for currency in dict.fromkeys(each for each, _, _ in stated):
        ours = [(readings, shown) for each, readings, shown in stated if each == currency]
        if currency not in sent:
            everything = ", ".join(shown for amounts in sent.values() for _, shown in amounts)
            yield _contradiction("CURRENCY", where, ours[0][1], everything)
        elif not any(number in readings for readings, _ in ours for number, _ in sent[currency]):
            yield _contradiction(
                "AMOUNT", where, ", ".join(shown for _, shown in ours), ", ".join(shown for _, shown in sent[currency])
            )


def _stated_money(text: str) -> Iterator[tuple[str, frozenset[Decimal], str]]:
    """(currency, readings, words) of every amount with a currency in a text."""
    for found in list(_MONEY.finditer(text))[:_MOST]:
        unit = found["before"] or found["after"]
        currency = _SIGNS.get(unit) or _NAMED.get(unit) or unit
        times = _TIMES[found["first_times"] or found["times"] or ""]
        readings = frozenset(number * times for number in _readings(found["first"] or found["second"], currency))
        yield currency, readings, found[0].strip()


def _readings(text: str, currency: str) -> Iterator[Decimal]:
    """The possible values of a written number: the last point or comma is the decimal mark, or groups thousands."""
    bare = re.sub(r"['\u2019 ]", "", text)
    digits = re.sub(r"[.,]", "", bare)
    last = max(bare.rfind("."), bare.rfind(","))
    after = len(bare) - last - 1 if last >= 0 else 0
    repeated = last >= 0 and bare.count(bare[last]) > 1
    if last >= 0 and not repeated:
        yield Decimal(digits).scaleb(-after)
    if last < 0 or repeated or (after == 3 and decimal_places(currency) != 3):
        yield Decimal(digits)


def _names(fields: Iterable[tuple[str, Any, Any]], where: str, text: str) -> Iterator[Contradiction]:
    """Rule 3: compare the names in the text, of a kind that the payload has, with the payload's."""
    sent = _by_kind(name for _, value, _ in fields if isinstance(value, str) for name in _name_of(value))
    if not sent:
        return
    stated = _by_kind((*_mails(text), *_names_with_digits(text)))
    for kind, names in sent.items():
        said = stated.get(kind, {})
        if said and not said.keys() & names.keys():
            yield _contradiction("NAME", where, ", ".join(said.values()), ", ".join(names.values()))


def _by_kind(names: Iterable[tuple[str, str]]) -> dict[str, dict[str, str]]:
    kinds: dict[str, dict[str, str]] = {}
    for kind, name in names:
        kinds.setdefault(kind, {})[name.casefold()] = name
    return kinds


def _name_of(value: str) -> list[tuple[str, str]]:
    """The name that a whole value is, if it is one."""
    plain = unicodedata.normalize("NFKC", value[:_READ])
    if _MAIL.fullmatch(plain):
        return [("@", plain)]
    found = _NAME.fullmatch(plain)
    return [(found[1].casefold(), plain)] if found and _has_digit(plain) else []


def _mails(text: str) -> list[tuple[str, str]]:
    return [("@", found[0].rstrip(".")) for found in list(_MAIL.finditer(text))[:_MOST]]


def _names_with_digits(text: str) -> list[tuple[str, str]]:
    found = [each for each in _NAME.finditer(text) if _has_digit(each[0])]
    return [(each[1].casefold(), each[0].rstrip("-_")) for each in found[:_MOST]]


def _has_digit(name: str) -> bool:
    """Return True if a name has a digit; words with a hyphen are ordinary words."""
    return any(letter.isdigit() for letter in name)


def _check_expectation(fields: Iterable[tuple[str, Any, Any]], said: AgentStatement) -> Iterator[Contradiction]:
    """Rule 4: one field compared with one value."""
    found = _COMPARED.fullmatch(said.text[:_READ])
    sent = {path: value for path, value, _ in fields}
    if found is None or found[1] not in sent:
        return
    ours, theirs = sent[found[1]], _literal(found[2])
    if isinstance(ours, Mapping | list) or (type(ours) is type(theirs) and ours == theirs):
        return
    if not isinstance(ours, bool) and not isinstance(theirs, bool) and _same_number(ours, theirs):
        return
    yield _contradiction("EXPECTATION", said.where, f"{found[1]} {found[2]}", canonical(ours).decode())


def _literal(text: str) -> Any:
    if text[0] in "\"'":
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    return float(text) if "." in text else int(text)


def _same_number(one: Any, other: Any) -> bool:
    return isinstance(one, int | float) and isinstance(other, int | float) and one == other


def _contradiction(code: str, where: str, said: str, sent: str) -> Contradiction:
    return Contradiction(code, where, _short(said), _short(sent))


def _short(text: str) -> str:
    """Shorten a text for display and mark the omission."""
    shown, _ = mark_hidden(text)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}… ({len(shown)} characters)"
