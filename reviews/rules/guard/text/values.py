"""Values: amounts, ids, addresses, dates and times that a claim names, compared with what an action holds (C-15).

1. A claim's value must be one of the record's values of its sort. One that the record does not hold at all says
   nothing; one that the record holds with another content is a conflict: a success for A backs no claim about B.
2. Money compares by number, in units and in minor units; dates by day and month; times by hour and minute; ids by
   their letters and digits, and only with ids of the same shape.
3. Everything is read in one pass with patterns that cannot backtrack over more than one value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, NamedTuple

from reviews.rules.guard.words.language import singular

MOST = 4000
"""Of an action's own text, so many characters are looked at for values."""

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?"
_FOUND = re.compile(
    r"(?:(?<![a-z])|(?=[$€£¥]|https?:))(?:"
    r"(?P<email>[a-z0-9._%+-]{1,64}@[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){1,4})"
    r"|(?P<url>https?://[^\s<>\")\]]{1,500})"
    r"|(?P<iso>\b\d{4}-\d{2}-\d{2})(?:t(?P<isotime>\d{2}:\d{2})[\d:.]*z?)?"
    r"|(?P<money>(?:[$€£¥]|\b(?:usd|eur|gbp|chf|jpy|inr|cad|aud)\s?)\s?\d[\d,]*(?:\.\d{1,2})?(?:\s?k\b)?"
    r"|\b\d[\d,]*(?:\.\d{1,2})?\s?(?:[€£]|(?:usd|eur|euros?|gbp|chf|jpy|inr|cad|aud|dollars?|pounds?|bucks|cents)\b))"
    rf"|\b(?P<monthday>{_MONTH}\s{{1,2}}\d{{1,2}}(?:st|nd|rd|th)?\b(?![:.]\d))"
    rf"|\b(?P<daymonth>\d{{1,2}}(?:st|nd|rd|th)?\s(?:of\s)?{_MONTH}(?![a-z]))"
    r"|\b(?P<time>(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\s(?:am|pm|a\.m\.|p\.m\.)(?![a-z])|\d{1,2}(?::\d{2})?\s?(?:am|pm|a\.m\.|p\.m\.)(?![a-z])|\d{1,2}:\d{2}\b)"
    r"|(?P<ip>\b\d{1,3}(?:\.\d{1,3}){3}(?:/\d{1,2})?(?![\w.]\w))"
    r"|(?P<serial>(?<![\w-])#?\d{2,}(?:-\d{2,})+(?![\w-]))"
    r"|(?P<id>(?<![a-z0-9])#?[a-z0-9]*(?:[a-z][_\-/.:#]?\d|\d[_\-/.:]?[a-z]|#\d)[a-z0-9]*(?:[_\-/.:][a-z0-9]+)*)"
    r"|(?P<path>(?<![\w/])[\w.-]*/[\w./-]+|\b[a-z0-9][\w-]*(?:\.[a-z0-9][\w-]*)+\b|\b[a-z]+(?:[_-][a-z0-9]+)+\b)"
    r"|(?P<number>\b\d[\d,]*(?:\.\d+)?\b%?))"
)
_ORDINARY = re.compile(
    r"(?:\d+(?:st|nd|rd|th|x|k|h|m|s|d|min|hrs?|days?|am|pm|gb|mb|kb|tb|ms)|[a-z]{1,2}|q[1-4]|h[12]|24/7)"
)
_DIGITS = re.compile(r"\d+")


class Value(NamedTuple):
    """One value of a text: its sort, its content in comparable form, and where it stands."""

    sort: str
    key: str
    start: int
    end: int


@dataclass(frozen=True)
class Held:
    """The values that an action holds, by sort; `text` is all of it in lower case."""

    by_sort: Mapping[str, frozenset[str]] = field(default_factory=dict)
    text: str = ""
    words: frozenset[str] = frozenset()


def values(text: str, at: int = 0) -> tuple[Value, ...]:
    """The values of a text in lower case, in order, with their places from `at` on (rule 3)."""
    return tuple(_values(text, at)) if _MAY_HOLD.search(text) else ()


_MAY_HOLD = re.compile(r"[\d@/_-]|\w\.\w|[ap]m|[ap]\.m\.")
"""What every value has somewhere: a digit, a sign of an address or a name of several parts, a half of the day."""


def _values(text: str, at: int = 0) -> Iterator[Value]:
    for match in _FOUND.finditer(text):
        sort = match.lastgroup or ""
        found = match.group()
        start, end = match.span()
        if sort == "isotime":
            yield Value("date", _iso(match["iso"]), at + start, at + end)
            yield Value("time", match["isotime"], at + start, at + end)
            continue
        made = _READ[sort](found)
        if made is not None:
            yield Value(made[0], made[1], at + start, at + end)


def _iso(text: str) -> str:
    return f"{int(text[5:7])}-{int(text[8:10])}"


def _money(text: str) -> tuple[str, str] | None:
    number = _number("".join(each for each in text if each.isdigit() or each == "."))
    if number is None:
        return None
    if text.rstrip().endswith("k"):
        number *= 1000
    if text.endswith("cents"):
        number /= 100
    return "money", _plain(number)


def _number(text: str) -> Decimal | None:
    try:
        return Decimal(text.replace(",", "").strip("."))
    except InvalidOperation:
        return None


def _plain(number: Decimal) -> str:
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _day(text: str) -> tuple[str, str] | None:
    digits = _DIGITS.search(text)
    month = next((number for number, name in enumerate(_MONTHS, 1) if re.search(rf"\b{name}|\d\s?{name}", text)), None)
    if digits is None or month is None or not 1 <= int(digits.group()) <= 31:
        return None
    return "date", f"{month}-{int(digits.group())}"


_HOURS = ["twelve", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


def _time(text: str) -> tuple[str, str] | None:
    if text[0].isalpha():
        text = f"{_HOURS.index(text.split()[0]) or 12} {text.split()[1]}"
    hour, minute = [*map(int, _DIGITS.findall(text)), 0][:2]
    if "p" in text and hour < 12:
        hour += 12
    if "a" in text and hour == 12:
        hour = 0
    return ("time", f"{hour:02d}:{minute:02d}") if hour < 25 and minute < 60 else None


def _id(text: str) -> tuple[str, str] | None:
    return None if _ORDINARY.fullmatch(text) else ("id", id_key(text))


def id_key(text: str) -> str:
    """An id by its letters and digits only."""
    return "".join(each for each in text.lower() if each.isalnum())


def _plain_number(text: str) -> tuple[str, str] | None:
    if text.endswith("%"):
        return None
    number = _number(text)
    return ("number", _plain(number)) if number is not None else None


_READ = {
    "email": lambda text: ("email", text.strip(".")),
    "url": lambda text: ("url", text.rstrip(".,;:!?/")),
    "iso": lambda text: ("date", _iso(text)),
    "money": _money,
    "monthday": _day,
    "daymonth": _day,
    "time": _time,
    "id": _id,
    "ip": lambda text: ("ip", text),
    "serial": lambda text: ("id", id_key(text)),
    "path": lambda text: ("path", text.strip(".,:;-")),
    "number": _plain_number,
}


def held(target: str, arguments: Mapping[str, Any], further: Iterable[str] = ()) -> Held:
    """What an action holds: the values of its target, its arguments and its evidence."""
    said = list(leaves(arguments))
    texts = [target, *target.split("/"), *(f"{name} {leaf}" for name, leaf in said), *further]
    return _held("\n".join(texts)[:MOST].lower(), tuple((name, str(leaf)) for name, leaf in said if _is_number(leaf)))


@lru_cache(maxsize=4096)
def _held(text: str, numbers: tuple[tuple[str, str], ...]) -> Held:
    by_sort: dict[str, set[str]] = {}
    for value in _values(text):
        by_sort.setdefault(value.sort, set()).add(value.key)
    for name, leaf in numbers:
        number = _number(leaf)
        if number is None:
            continue
        number = abs(number)  # A credit may be held as a negative charge.
        by_sort.setdefault("number", set()).add(_plain(number))
        if _is_money(name.lower()):
            by_sort.setdefault("money", set()).add(_plain(number))
            by_sort["money"].add(_plain(number / 100))
    for key in by_sort.get("number", ()):
        by_sort.setdefault("id", set()).add(key)
    found = re.findall(r"[a-z]+|\d+", text)
    words = frozenset((*found, *map(singular, found)))
    return Held({sort: frozenset(keys) for sort, keys in by_sort.items()}, text, words)


def _is_money(name: str) -> bool:
    parts = ("amount", "price", "total", "cents", "minor", "value", "sum", "cost", "fee", "credit", "balance", "paid")
    return any(part in name for part in parts)


def _is_number(leaf: Any) -> bool:
    return not isinstance(leaf, bool) and _number(str(leaf)) is not None


def leaves(value: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The values of nested arguments, each with its name."""
    if isinstance(value, Mapping) and depth < 8:
        for key, each in value.items():
            yield from leaves(each, str(key), depth + 1)
    elif isinstance(value, list | tuple) and depth < 8:
        for each in value:
            yield from leaves(each, name, depth + 1)
    elif value is not None:
        yield name, value


def shape(key: str) -> str:
    """What an id begins with: ids of one shape are of one sort of thing."""
    return re.match(r"[a-z]*", key).group()  # type: ignore[union-attr]


def compare(value: Value, own: Held) -> int:
    """1 where the action holds this value, -1 where it holds another of its sort, 0 where it says nothing (rule 1)."""
    keys = own.by_sort.get(value.sort, frozenset())
    if value.key in keys or _within(value, own):
        return 1
    if value.sort == "id":
        return -1 if any(shape(each) == shape(value.key) for each in keys) else 0
    if value.sort in {"number", "path", "url"}:
        return 0
    if value.sort == "time" and own.by_sort.get("time"):
        return 0 if _half_day(value.key) in own.by_sort["time"] else -1
    return -1 if keys else 0


def _half_day(key: str) -> str:
    hour = int(key[:2])
    return f"{(hour + 12) % 24:02d}{key[2:]}"


def _stands_in(key: str, text: str) -> bool:
    """Whether a value stands in a text, and is not the beginning of a longer number there."""
    at = text.find(key)
    while at >= 0:
        end = at + len(key)
        if not (key[-1].isdigit() and text[end : end + 1].isdigit()):
            return True
        at = text.find(key, at + 1)
    return False


def _within(value: Value, own: Held) -> bool:
    if value.sort in {"id", "path", "email", "url"}:
        return _stands_in(value.key, own.text) or any(
            value.key in each or each in value.key
            for each in own.by_sort.get("id", ())
            if len(each) > 3 or each == value.key
        )
    if value.sort == "number":
        return any(value.key in own.by_sort.get(sort, ()) for sort in ("money", "id")) or value.key in own.words
    if value.sort == "money":
        return value.key in own.by_sort.get("number", ())
    return False
