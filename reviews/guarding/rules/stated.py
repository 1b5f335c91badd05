"""Stated values: whether a sentence states a value, and whether it states one that nothing on record holds.

1. A number is stated in any spelling: 1250, 1,250, 12.50 where it may count minor units. A text is stated by its words.
2. What could stand in any sentence (one or two digits, two letters) counts only beside the name of its field.
3. A foreign value is an address of mail or an id of the target's shape that nothing on record holds; or an amount,
   where the action has one amount and the sentence states no other that is known. Of several things so many times a
   known amount is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from reviews.guarding.rules.records import Ground, Record, leaves

_NUMBER = re.compile(r"[-+]?[$\u20ac\u00a3]?\s?\d[\d,]*(?:\.\d+)?")
_AMOUNT = re.compile(
    r"(?:[$\u20ac\u00a3\u00a5]|\b(?:usd|eur|gbp|chf|jpy) )\s?(\d[\d,]*(?:\.\d{1,2})?)(?![\d.]*\d|\s?k\b)"
    r"|\b(\d[\d,]*(?:\.\d{1,2})?)\s?(?:[\u20ac\u00a3]|usd\b|eur\b|euros?\b|gbp\b|chf\b|dollars?\b|pounds?\b)"
)
_MAIL = re.compile(r"[a-z0-9._%+-]{1,64}@[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){1,4}")
_ID = re.compile(r"(?<![\w$.,/@-])#?(?=[\w-]*\d)[a-z0-9][\w-]{2,40}(?![\w@]|\.\w)")
_THING = re.compile(
    r"[a-z0-9_-]+[/@.][a-z0-9_/.-]*[a-z0-9]|#?(?=[\w-]*\d)(?=[\w-]*[a-z_-])[a-z0-9][\w-]{2,}|#\d{2,}|\b\d{4,}\b"
)
_MONEY = re.compile(r"amount|price|total|cents|minor|sum|cost|fee|credit|balance|paid|refund|charge|payment")
_WORDS = re.compile(r"[^a-z0-9]+")
_SEVERAL = re.compile(r"\b(?:in all|total|together|each|per|both|all|two|three|four|five|six|seven|eight|nine)\b")
SHORT = 3
MOST_TIMES = 9


class Value(NamedTuple):
    """A value in a sentence: its sort, and how it is written there."""

    sort: str
    text: str


def states(sentence: str, value: object, *, name: str = "") -> bool:
    """Return whether a sentence in lower case states a value (rules 1 and 2)."""
    for form in _forms(value, name):
        if _stands_in(form, sentence) and (
            not _is_common(form) or _names(sentence, name) or _is_amount(form, sentence)
        ):
            return True
    return False


def names_a_thing(text: str) -> bool:
    """Return whether a text in lower case names something: an id, a path, an address."""
    return _THING.search(text) is not None


class KnownValues:
    """The values of all actions on record, computed when first needed."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground

    @cached_property
    def amounts(self) -> frozenset[float]:
        """Every number on record, in units and as minor units, and the sums and differences of two amounts."""
        records = self._ground.records
        single = [number for record in records for number in _each(_all(record))]
        own = [number for record in records if self._ground.changes(record) for number in _amounts(record)][:60]
        pairs = [(one, other) for one in own for other in own]
        totals = [sum(own), *(one + other for one, other in pairs), *(abs(one - other) for one, other in pairs)]
        return frozenset({*single, *(round(each, 2) for each in totals)})

    def accounts_for(self, amount: float, *, most: int) -> bool:
        """Return whether an amount is on record, or is a small multiple (up to `most`) of one that is."""
        return any(round(amount / times, 2) in self.amounts for times in range(1, most + 1))

    def holds(self, name: str) -> bool:
        """Return whether an id or an address occurs anywhere on record."""
        return any(name in record.said for record in self._ground.records)


def foreign_value(sentence: str, record: Record, known: KnownValues) -> Value | None:
    """A value of a sentence that stands in the place of one of the record's own, and that nothing holds (rule 3)."""
    if len(_units(record)) == 1:
        stated = {found[0].strip(): _plain(found[1] or found[2]) for found in _AMOUNT.finditer(sentence)}
        most = MOST_TIMES if _SEVERAL.search(sentence) else 1
        if stated and not any(known.accounts_for(amount, most=most) for amount in stated.values()):
            return Value("amount", next(iter(stated)))
    return next((value for value in _other_names(sentence, record) if not known.holds(value.text.strip("#"))), None)


def other_target(sentence: str, records: Sequence[Record]) -> str | None:
    """A thing of the records' kind that a sentence names by an id, and that is the target of none of them."""
    for record in records:
        kind, _, name = record.target.lower().partition("/")
        for found in _ID.finditer(sentence) if any(map(str.isdigit, name)) else ():
            text = found.group().strip("#")
            is_one = re.search(rf"\b{re.escape(kind)}\w*\W+(?:\w+\W+){{0,5}}#?$", sentence[: found.start()])
            if is_one and id_shape(text) == id_shape(name) and not any(text in each.said for each in records):
                return text
    return None


def _other_names(sentence: str, record: Record) -> Iterator[Value]:
    own = record.said
    if _MAIL.search(own):
        yield from (Value("address", found) for found in _MAIL.findall(sentence) if found.strip(".") not in own)
    shapes = {id_shape(part) for part in re.split(r"[/\s]", record.target.lower()) if any(map(str.isdigit, part))}
    for found in _ID.findall(sentence) if shapes else ():
        if id_shape(found) in shapes and found.strip("#") not in own:
            yield Value("id", found)


def id_shape(name: str) -> str:
    """The common form of ids of one sort: letters as they are, every digit alike."""
    return re.sub(r"\d", "9", name.strip("#."))


@lru_cache(maxsize=4096)
def _pattern(form: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.,/-]){re.escape(form)}(?![\w/-]|[.,]\d)")


def _stands_in(form: str, sentence: str) -> bool:
    return form in sentence and _pattern(form).search(sentence) is not None


def _is_common(form: str) -> bool:
    return len(form) < SHORT or form in _COMMON


_COMMON = frozenset(
    {"yes", "true", "false", "none", "null", "new", "all", "the", "and", "for", "order", "item", "items"}
)


def _is_amount(form: str, sentence: str) -> bool:
    """Return whether a number occurs in a sentence as an amount of money."""
    amounts = (found[1] or found[2] for found in _AMOUNT.finditer(sentence))
    return any(form == amount for amount in amounts)


def _names(sentence: str, name: str) -> bool:
    return any(len(word) >= SHORT and word in sentence for word in _WORDS.split(name.lower()))


def _forms(value: Any, name: str) -> Iterator[str]:
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, list | tuple):
        for each in value:
            yield from _forms(each, name)
        return
    text = " ".join(str(value).lower().split())
    if isinstance(value, int | float) or _NUMBER.fullmatch(text):
        yield from _numbers(text, name, whole=isinstance(value, int))
    elif text:
        yield text
        if "_" in text:
            yield text.replace("_", " ")


def _numbers(text: str, name: str, *, whole: bool) -> Iterator[str]:
    bare = text.lstrip("+-$\u20ac\u00a3 ").replace(",", "")
    number = float(bare)
    yield bare
    for amount in (number, number / 100) if whole and _MONEY.search(name.lower()) else (number,):
        yield from {f"{amount:.2f}", f"{amount:,.2f}"}
        if amount == int(amount):
            yield from {f"{int(amount)}", f"{int(amount):,}"}


def _plain(text: str) -> float:
    return round(float(text.replace(",", "")), 2)


def _amounts(record: Record) -> frozenset[float]:
    """The amounts of money among a record's own fields, by the names of the fields."""
    named = [value for source in (record.arguments, record.answer, record.reading) for value in _money_in(source)]
    return frozenset(_each(named))


def _units(record: Record) -> frozenset[float]:
    """The distinct amounts that were asked for or read back, each once: 2000 minor units are 20.00."""
    stated = [value for source in (record.arguments, record.reading) for value in _money_in(source)]
    numbers = {number for value in stated for number in _numbers_of(value)}
    return frozenset(number for number in numbers if number * 100 not in numbers)


def _money_in(source: Any) -> Iterator[Any]:
    if isinstance(source, dict):
        for name, value in source.items():
            if isinstance(value, dict | list):
                yield from _money_in(value)
            elif _MONEY.search(str(name).lower()):
                yield value
    elif isinstance(source, list | tuple):
        for value in source:
            yield from _money_in(value)


def _all(record: Record) -> Iterator[Any]:
    for source in (record.arguments, record.answer, record.reading, list(record.evidence)):
        yield from leaves(source)


def _each(values: Iterable[Any]) -> Iterator[float]:
    for value in values:
        for number in _numbers_of(value):
            yield from (round(abs(number), 2), round(abs(number) / 100, 2))


def _numbers_of(value: Any) -> list[float]:
    if isinstance(value, bool):
        return []
    if isinstance(value, int | float):
        return [float(value)]
    return [float(found.replace(",", "")) for found in re.findall(r"\d[\d,]{0,14}(?:\.\d{1,4})?", str(value)[:4000])]
