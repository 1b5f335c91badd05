"""Values that a message states and that are not on record: amounts of money, dates and ids.

1. On record is everything that the session knows: what the user and the system said, every argument, every answer and
   reading, targets and reasons. Ids and dates are compared in any usual spelling.
2. An amount may also follow: from up to three amounts of the changes and of what their arguments name, from their sums,
   or as a small multiple of one.
3. Times, plain counts, links and code are left alone: too many of them are the speaker's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import combinations, combinations_with_replacement
from typing import Any, NamedTuple

from reviews.guarding.rules.effects import Effects
from reviews.guarding.rules.once import once
from reviews.guarding.rules.records import Ground, Record, leaves

# fmt: off
_MONTHS = {name: number for number, name in enumerate((
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
), 1)}
# fmt: on
_MONTHS |= {name[:3]: number for name, number in _MONTHS.items()} | {"sept": 9}
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_ANY_MONTH = re.compile(r"\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)")
_DIGIT = re.compile(r"\d")
_CODE = re.compile(r"https?://\S+|`[^`]*`|\{\{[^{}]*\}\}")
_AMOUNT = re.compile(
    r"(?:(?<![\w.])|(?<=\bus))[-+\u2212]?\s?[$\u20ac\u00a3\u00a5]\s?[-+\u2212]?(\d[\d,]*(?:\.\d+)?)(?!\s?[km]\b)"
    r"|(?<![\w.,$])(\d[\d,]*(?:\.\d+)?)\s?(?:[\u20ac\u00a3]|(?:usd|eur|gbp|chf|dollars?|euros?|pounds?)\b)"
)
_CURRENCIES = ("$", "\u20ac", "\u00a3", "\u00a5", "usd", "eur", "gbp", "chf", "dollar", "pound")
_ISO = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})(?!\d)")
_SLASHED = re.compile(r"\b(\d{1,2})/(\d{1,2})/(\d{4})\b")
_MONTH_DAY = re.compile(rf"\b({_MONTH})\.?\s+(\d{{1,2}})(?:st|nd|rd|th)?\b(?:,?\s+(\d{{4}})\b)?")
_DAY_MONTH = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?({_MONTH})\b(?:,?\s+(\d{{4}})\b)?")
_ID = re.compile(r"(?<![\w$.,/@#-])#?(?=[\w-]*\d)[a-z0-9_][\w-]{3,60}(?![\w@%]|\.\w|/\w)")
_MEASURE = re.compile(
    r"\d+(?:st|nd|rd|th|x\d*|[a-z]{1,4}|inch|inches|years?|days?|hours?|minutes?|seconds?|weeks?|months?|pieces?|pack"
    r"|percent|pixels?|watts?)s?(?:-\w+)*"
)
_SPOKEN = re.compile(r"[a-z]{3,}-\d+|\d+-[a-z]{2,}.*|[a-z]+-\d+-[a-z]+.*|\d{1,4}(?:-\d{1,4}){1,2}")
_YEAR = re.compile(r"(?:19|20)\d\d")
_NUMBER = re.compile(r"\d[\d,]{0,14}(?:\.\d{1,6})?")
_MONEY_NAME = re.compile(
    r"amount|price|total|cost|fee|fare|sum|paid|refund|charge|payment|difference|balance|cents|minor|credit|value"
)
MOST_AMOUNTS = 40
MOST_OF_THREE = 25
MOST_OF_SUBSETS = 12
MOST_TIMES = 10
SHORTEST_ID = 4
LONGEST_SEARCHED = 2_000_000


class StatedValue(NamedTuple):
    """A value in a text: its type (amount, date, id), its position, and its content."""

    sort: str
    span: tuple[int, int]
    value: Any


def stated_values(text: str) -> tuple[StatedValue, ...]:
    """The amounts, dates and ids in a text in lower case (rule 3)."""
    return _find_stated(text) if _DIGIT.search(text) is not None else ()


@lru_cache(maxsize=64)
def _find_stated(text: str) -> tuple[StatedValue, ...]:
    found: list[StatedValue] = []
    taken = [each.span() for each in _CODE.finditer(text)] if "`" in text or "{{" in text or "://" in text else []

    def take(sort: str, span: tuple[int, int], value: Any) -> None:
        if not any(start < span[1] and span[0] < end for start, end in taken):
            taken.append(span)
            if value is not None:
                found.append(StatedValue(sort, span, value))

    for each in _AMOUNT.finditer(text) if any(map(text.__contains__, _CURRENCIES)) else ():
        take("amount", each.span(), _plain(each[1] or each[2]))
    for each, value in dates_in(text):
        take("date", each.span(), value)
    for each in _ID.finditer(text):
        take("id", each.span(), _id_of(each.group()))
    return tuple(sorted(found, key=lambda each: each.span))


class OnRecord:
    """The values in a session's record, and those that follow from its changes; computed on first use."""

    def __init__(self, ground: Ground, effects: Effects) -> None:
        self._ground = ground
        self._effects = effects

    def unknown_in(self, text: str) -> list[StatedValue]:
        """Return the values of a text in lower case that are not on record (rules 1 and 2)."""
        return [each for each in stated_values(text) if not self.holds(each)]

    def holds(self, stated: StatedValue) -> bool:
        """Return True if a value is on record, or follows from it."""
        if stated.sort == "amount":
            return any(stated.value in each.numbers for each in self._texts) or stated.value in self._following
        if stated.sort == "id":
            if any(stated.value in each.text for each in self._texts):
                return True
            bare = _bare(stated.value)
            return any(bare in each.bare_text for each in self._texts)
        month, day, year = stated.value
        dates = (one for each in self._texts for one in each.dates)
        return any(each[:2] == (month, day) and (year is None or each[2] in (None, year)) for each in dates)

    def has_text(self, text: str) -> bool:
        """Return whether a text in lower case stands anywhere on record."""
        return any(text in each.text for each in self._texts)

    @once
    def _texts(self) -> list[KnownText]:
        """The values of each record, and of what was heard."""
        heard = [KnownText(self._ground.heard.lower())] if self._ground.heard else []
        return heard + [known_values(each) for each in self._ground.records]

    @once
    def _following(self) -> frozenset[float]:
        """Return the amounts that follow from those of the changes and of the things their arguments name (rule 2)."""
        changes = [each for each in self._ground.records if self._ground.changes(each)]
        named = [amount for each in changes for amount in self._named_amounts(each)]
        pool = sorted({round(abs(each), 2) for each in (*named, *self._shown_amounts(changes)) if each})[:MOST_AMOUNTS]
        made = {round(one * times, 2) for one in pool for times in range(2, MOST_TIMES)}
        for one, other in combinations_with_replacement(pool, 2):
            made |= {round(one + other, 2), round(abs(one - other), 2)}
        if len(pool) <= MOST_OF_THREE:
            for one, two, three in combinations(pool, 3):
                made |= {round(abs(each), 2) for each in (one + two + three, one + two - three, one - two + three)}
                made.add(round(abs(two + three - one), 2))
        return frozenset(made | _sums(named) | _sums(self._money_moved(changes)))

    def _named_amounts(self, record: Record) -> list[float]:
        """Return the prices of the things that a change's arguments name, once for each mention."""
        found = []
        for each in leaves(record.arguments):
            told = self._effects.read_of(str(each))
            found += [float(value) for name, value in told.items() if _is_amount(name, value)][:1]
        return found

    def _shown_amounts(self, changes: Iterable[Record]) -> Iterator[float]:
        for record in changes:
            for source in (record.arguments, record.answer, record.reading):
                yield from _amounts_in(source)

    def _money_moved(self, changes: Iterable[Record]) -> list[float]:
        return [each.amount for record in changes for each in self._effects.money_of(record)]


class KnownText:
    """A text in lower case with its values, found when first needed."""

    def __init__(self, text: str) -> None:
        self.text = text[:LONGEST_SEARCHED]

    @once
    def bare_text(self) -> str:
        """The text without what stands between the parts of ids."""
        return _bare(self.text)

    @once
    def numbers(self) -> frozenset[float]:
        """The numbers in it, whole ones also as minor units."""
        numbers = set(map(_plain, set(_NUMBER.findall(self.text))))
        minor = {round(each / 100, 2) for each in numbers if each.is_integer()}
        return frozenset(numbers | minor)

    @once
    def dates(self) -> frozenset[tuple[int, int, int | None]]:
        """The dates in it, each as month, day and year."""
        return frozenset(value for _, value in dates_in(self.text) if value is not None)


def known_values(record: Record) -> KnownText:
    """The values of everything that a record holds, found once."""
    found = record.derived.get("known")
    if found is None:
        names = " ".join(map(str, record.answer))
        text = f"{record.said}\n{names}\n{record.action_id} {record.call_id}".lower()
        found = record.derived["known"] = KnownText(text)
    return found


def _bare(text: str) -> str:
    return text.replace("-", "").replace("_", "")


def follows_from(amount: float, amounts: Iterable[float]) -> bool:
    """Return whether an amount is the sum or the difference of two of these, or the sum of all."""
    known = sorted(amounts)[:MOST_AMOUNTS]
    pairs = {round(one + other, 2) for one, other in combinations(known, 2)}
    pairs |= {round(abs(one - other), 2) for one, other in combinations(known, 2)}
    return amount in pairs or amount == round(sum(known), 2)


def _sums(amounts: list[float]) -> set[float]:
    """The sums of any of these amounts."""
    sums = {0.0}
    for each in amounts[:MOST_OF_SUBSETS]:
        sums |= {round(one + each, 2) for one in sums}
    return sums | {round(sum(amounts), 2)}


def _amounts_in(value: Any, name: str = "") -> Iterator[float]:
    if isinstance(value, Mapping):
        for inner, each in value.items():
            yield from _amounts_in(each, str(inner))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _amounts_in(each, name)
    elif _is_amount(name, value):
        yield float(value)


def _is_amount(name: str, value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and bool(_MONEY_NAME.search(name.lower()))


def dates_in(text: str) -> Iterator[tuple[re.Match[str], tuple[int, int, int | None] | None]]:
    """The dates in a text in lower case, each with its month, day and year; None where there is no such day."""
    for each in _ISO.finditer(text) if "-" in text else ():
        yield each, _date(each[2], each[3], each[1])
    for each in _SLASHED.finditer(text) if "/" in text else ():
        yield each, _date(each[1], each[2], each[3])
    if _ANY_MONTH.search(text) is None:
        return
    for each in _MONTH_DAY.finditer(text):
        yield each, _date(str(_MONTHS[each[1]]), each[2], each[3])
    for each in _DAY_MONTH.finditer(text):
        yield each, _date(str(_MONTHS[each[2]]), each[1], each[3])


def _date(month: str, day: str, year: str | None) -> tuple[int, int, int | None] | None:
    found = int(month), int(day), int(year) if year else None
    return found if 1 <= found[0] <= 12 and 1 <= found[1] <= 31 else None


def _id_of(text: str) -> str | None:
    """Return the id that a word is; None for a measure, a year, or a word with a number."""
    name = text.strip("#-_")
    is_none = _MEASURE.fullmatch(name) or _SPOKEN.fullmatch(name) or _YEAR.fullmatch(name)
    if is_none or len(re.sub(r"[^0-9a-z]", "", name)) < SHORTEST_ID:
        return None
    return name


def _plain(text: str) -> float:
    return round(float(text.replace(",", "") or 0), 2)
