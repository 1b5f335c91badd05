"""Stated values: finds the values that a sentence states, and those among them that are not on record.

1. A number is stated in any spelling: 1250, 1,250, 12.50 where it may count minor units, `two`. A text is stated by its
   words, whatever stands between them; an address also by the usual short forms. A date is stated by day and month or
   by its weekday, a time of day on either clock, a truth by words such as `enabled` beside the name of its field.
2. What could stand in any sentence (one or two digits, two letters) counts only beside the name of its field, or, of a
   field that counts, before what is counted.
3. Of two moments on one day, and of two times on different days, only what differs is stated; so of lists and objects.
4. A foreign value is an address of mail or an id of the target's shape that nothing on record holds; or an amount,
   where the action has one amount and the sentence states no other that is known. Of several things so many times a
   known amount is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from functools import lru_cache
from typing import Any, NamedTuple

from reviews.guarding.rules.once import once
from reviews.guarding.rules.records import Ground, Record, leaves
from reviews.guarding.rules.values import dates_in, known_values

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
MOST_AMOUNTS = 60


class Value(NamedTuple):
    """A value in a sentence: its type and its spelling."""

    sort: str
    text: str


def states(sentence: str, value: object, *, name: str = "") -> bool:
    """Return whether a sentence in lower case states a value (rules 1 and 2)."""
    return next(places_of(sentence, value, name=name), None) is not None


def places_of(sentence: str, value: object, *, name: str = "") -> Iterator[tuple[int, int]]:
    """Return the positions at which a sentence in lower case states a value of a field (rules 1 and 2)."""
    if isinstance(value, list | tuple):
        for each in value:
            yield from places_of(sentence, each, name=name)
    elif isinstance(value, bool):
        if _names(sentence, name):
            yield from (found.span() for found in _TRUTHS[value].finditer(sentence))
    elif value is not None and (text := " ".join(str(value).lower().split())):
        yield from _moments_at(sentence, text)
        for form in _forms(value, text, name):
            for found in form.finditer(sentence):
                if not _is_common(found.group()) or _is_meant(sentence, found, name):
                    yield found.span()


def differing_parts(asked: object, shown: object) -> tuple[object, object]:
    """Return the part of a requested value that is not shown, and the part shown in its place (rule 3)."""
    if isinstance(asked, list | tuple | dict):
        known = {str(each).lower() for each in leaves(shown)}
        return [each for each in leaves(asked) if str(each).lower() not in known], shown
    if isinstance(asked, bool) is not isinstance(shown, bool):
        one, other = (_TRUTH_OF.get(str(each).lower()) for each in (asked, shown))
        if one is not None and other is not None:
            return one, other
    moments = _MOMENT.fullmatch(str(asked)), _MOMENT.fullmatch(str(shown))
    if moments[0] and moments[1]:
        for part in (1, 2):
            if moments[0][part] == moments[1][part]:
                return moments[0][3 - part], moments[1][3 - part]
    return asked, shown


def names_a_thing(text: str) -> bool:
    """Return whether a text in lower case names something: an id, a path, an address."""
    return _THING.search(text) is not None


class KnownValues:
    """The values of all actions on record, computed when first needed."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground

    @once
    def _totals(self) -> frozenset[float]:
        """The sums and differences of two amounts of the changes, and the sum of all."""
        own = [number for record in self._ground.records if self._ground.changes(record) for number in _amounts(record)]
        own = own[:MOST_AMOUNTS]
        pairs = [(one, other) for one in own for other in own]
        totals = [sum(own), *(one + other for one, other in pairs), *(abs(one - other) for one, other in pairs)]
        return frozenset(round(each, 2) for each in totals)

    def accounts_for(self, amount: float, *, most: int) -> bool:
        """Return whether an amount is on record, in units or as minor units, or follows from two amounts of the
        changes, or is a small multiple (up to `most`) of one that is or does.
        """
        units = {round(amount / times, 2) for times in range(1, most + 1)}
        return any(units & known_values(each).numbers for each in self._ground.records) or bool(units & self._totals)

    def holds(self, name: str) -> bool:
        """Return whether an id or an address occurs anywhere on record."""
        return any(name in record.said for record in self._ground.records)


def foreign_value(sentence: str, record: Record, known: KnownValues) -> Value | None:
    """Return a value in a sentence, at the position of a recorded value, that is not on record (rule 4)."""
    if len(_units(record)) == 1:
        stated = {found[0].strip(): _plain(found[1] or found[2]) for found in _AMOUNT.finditer(sentence)}
        most = MOST_TIMES if _SEVERAL.search(sentence) else 1
        if stated and not any(known.accounts_for(amount, most=most) for amount in stated.values()):
            return Value("amount", next(iter(stated)))
    return next((value for value in _other_names(sentence, record) if not known.holds(value.text.strip("#"))), None)


def other_target(sentence: str, records: Sequence[Record]) -> str | None:
    """Return a thing of the records' kind that a sentence names by an id and that is no record's target."""
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


def _is_common(form: str) -> bool:
    return len(form) < SHORT or form in _COMMON


_COMMON = frozenset(
    {"yes", "true", "false", "none", "null", "new", "all", "the", "and", "for", "order", "item", "items"}
)
_OF_ANY_FIELD = frozenset({"number", "count", "new", "the", "value", "total", "size", "time", "date", "day"})
# fmt: off
_NUMERALS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
)
# fmt: on
_COUNTS = re.compile(
    r"(?:^|_)(?:number|num|no_of|count|quantity|qty|size|party|people|guests?|seats?|tickets?|items?|units?|copies"
    r"|replicas?|instances?|passengers?|travell?ers?|adults|children|bags|baggages|rooms?|users?|licen[cs]es)(?:$|_)"
)
_LASTS = re.compile(r"length|duration|period|(?:^|_)term")
_COUNTED = re.compile(r" ([a-z]{3,})\b")
_UNIT_OF_TIME = re.compile(r"business|working|night|day|week|month|year|hour|min|sec")
_TRUTH_OF = {
    **dict.fromkeys(("true", "yes", "on", "enabled", "active"), True),
    **dict.fromkeys(("false", "no", "off", "disabled", "inactive"), False),
}
_TRUTHS = {
    True: re.compile(r"\b(?:on|yes|true|enabled|active|activated|included|added|allowed)\b"),
    False: re.compile(r"\b(?:off|false|disabled|inactive|deactivated|removed|excluded)\b"),
}
_MOMENT = re.compile(r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2})(?::\d{2}(?:\.\d+)?)?(?:[Zz]|[-+]\d{2}:?\d{2})?")
_CLOCK = re.compile(
    r"(?<![\d:.])(?:(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?(?::\d{2})?(?:\s?(?P<half>a\.?m|p\.?m)\b\.?)?"
    r"|\b(?P<word>noon|midnight)\b)(?![\d:])"
)
_BETWEEN = re.compile(r"[\s,_-]+")
_SPELLINGS = {
    each: f"(?:{'|'.join(group)})\\.?"
    for group in (
        *(("street", "st"), ("avenue", "ave", "av"), ("road", "rd"), ("boulevard", "blvd"), ("drive", "dr")),
        *(("lane", "ln"), ("court", "ct"), ("place", "pl"), ("square", "sq"), ("highway", "hwy"), ("suite", "ste")),
        *(("apartment", "apt"), ("north", "n"), ("south", "s"), ("east", "e"), ("west", "w"), ("floor", "fl")),
        *(("cancelled", "canceled"), ("doctor", "dr"), ("saint", "st")),
    )
    for each in group
}


def _is_meant(sentence: str, found: re.Match[str], name: str) -> bool:
    """Return True if a common word or number is the value of a field here (rule 2)."""
    form = found.group()
    if _names(sentence, name) or any(form == (each[1] or each[2]) for each in _AMOUNT.finditer(sentence)):
        return True
    counted = _COUNTED.match(sentence, found.end())
    if counted is None:
        return False
    if unit := _UNIT_OF_TIME.match(counted[1]):
        return _LASTS.search(name) is not None or unit.group() in name
    return _COUNTS.search(name) is not None


def _names(sentence: str, name: str) -> bool:
    words = (word.removesuffix("s") for word in _WORDS.split(name.lower()))
    return any(len(word) >= SHORT and word in sentence for word in words if word not in _OF_ANY_FIELD)


def _moments_at(sentence: str, text: str) -> Iterator[tuple[int, int]]:
    """Return the positions at which a date or a time of day is stated."""
    moment = _MOMENT.fullmatch(text)
    day, clock = (moment[1], moment[2]) if moment else (text, text)
    if (dated := next(dates_in(day), None)) and dated[0].group() == day and dated[1] is not None:
        month, number, year = dated[1]
        for found, value in dates_in(sentence):
            if value is not None and value[:2] == (month, number) and value[2] in (None, year):
                yield found.span()
        if year is not None and (weekday := _weekday(year, month, number)):
            yield from (found.span() for found in re.finditer(rf"\b{weekday}\b", sentence))
    if (timed := _CLOCK.fullmatch(clock)) and (time := _time_of(timed)) is not None:
        yield from (found.span() for found in _CLOCK.finditer(sentence) if _time_of(found) == time)


def _weekday(year: int, month: int, day: int) -> str:
    try:
        return f"{date(year, month, day):%A}".lower()
    except ValueError:
        return ""


def _time_of(found: re.Match[str]) -> tuple[int, int] | None:
    """Return the hour and minute of a time of day; None for a mere number."""
    if found["word"]:
        return (12, 0) if found["word"] == "noon" else (0, 0)
    hour, minute = int(found["hour"]), int(found["minute"] or 0)
    if found["half"]:
        return hour % 12 + (12 if found["half"].startswith("p") else 0), minute
    return None if found["minute"] is None else (hour, minute)


def _forms(value: Any, text: str, name: str) -> Iterator[re.Pattern[str]]:
    if not isinstance(value, int | float) and not _NUMBER.fullmatch(text):
        yield _words_of(text)
        return
    for number in dict.fromkeys(_numbers(text, name, whole=isinstance(value, int))):
        yield _number_pattern(number)
    if text.isdigit() and int(text) < len(_NUMERALS):
        yield _number_pattern(_NUMERALS[int(text)])


@lru_cache(maxsize=4096)
def _number_pattern(form: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.,/-])(?<!\d:){re.escape(form)}(?![\w/-]|[.,:]\d)")


@lru_cache(maxsize=4096)
def _words_of(text: str) -> re.Pattern[str]:
    """Return the words of a text in their usual spellings, regardless of separators."""
    words = [_SPELLINGS.get(each.strip("."), re.escape(each)) for each in _BETWEEN.split(text) if each]
    joined = r"[\s,_-]+".join(words) if words else re.escape(text)
    return re.compile(rf"(?<![\w.,/-]){joined}(?![\w/-]|[.,]\d)")


def _numbers(text: str, name: str, *, whole: bool) -> Iterator[str]:
    bare = text.lstrip("+-$\u20ac\u00a3 ").replace(",", "")
    number = float(bare)
    yield bare
    for amount in (number, number / 100) if whole and _MONEY.search(name.lower()) else (number,):
        yield from (f"{amount:.2f}", f"{amount:,.2f}")
        if amount == int(amount):
            yield from (f"{int(amount)}", f"{int(amount):,}")


def _plain(text: str) -> float:
    return round(float(text.replace(",", "")), 2)


def _amounts(record: Record) -> frozenset[float]:
    """The amounts of money among a record's own fields, by the names of the fields."""
    named = [value for source in (record.arguments, record.answer, record.reading) for value in _money_in(source)]
    return frozenset(_each(named))


def _units(record: Record) -> frozenset[float]:
    """Return the distinct amounts that were requested or read back: 2000 minor units are 20.00."""
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
