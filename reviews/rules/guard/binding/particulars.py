"""Particulars: what a claim names beside ids and amounts, and an action holds otherwise (C-15).

1. A count with a unit that is an argument of the action ("14 days", "two bags") must be that argument.
2. A name in backticks behind a preposition must be one of the action's values, where it holds such names.
3. A person or company whom the claim names behind "to", "with", "for" must be one that the action names, where it names
   any; initials and parts of a name are enough. Nothing is concluded where a value agreed already.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date

from reviews.rules.guard.reading.claims import Claim
from reviews.rules.guard.records import Record
from reviews.rules.guard.text.values import Held
from reviews.rules.guard.words.language import english, singular

_COUNT = re.compile(
    r"(?<![\w.,])(\d+(?:\.\d+)?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)"
    r"\s+(?:\w+\s+)?([a-z]+)\b"
)
_CODE = re.compile(r"\b(?:to|from|on|in|into|of)\s+`([^`\n]{1,80})`")
_NAME = re.compile(
    r"\b(?:to|with|for|from|asking|asked|told|told|notified|emailed|texted|by)\s+(?:the\s+)?(?:(?:Mr|Mrs|Ms|Dr|Prof|Herr|Frau|Coach)\.?\s+)?"
    r"([A-Z][\w'-]+(?:\s+[A-Z][\w'-]+){0,2})"
)
_NUMBERED = re.compile(
    r"(?:#|\b(?:ending in|ending|no\.?|number|order|invoice|ticket|card|case|issue|pr|matter|account)\s+#?)(\d{3,})\b"
)
_LABELLED = re.compile(r"\b([a-z]+) (?:at |to |is |of |= ?)?(\d{1,9})\b(?![.:/-]\d)")
_VERSION = re.compile(r"\bv?\d+\.\d+(?:\.\d+)?(?:-[\w.]+)?\b(?!@)")


def odd(claim: Claim, record: Record, own: Held, hits: int) -> int:
    """How many particulars of a claim the action holds otherwise (rules 1 to 3)."""
    quote = claim.quote.replace("*", "")
    small = quote.lower()
    found = _opposites(small, own) + _weekdays(small, own)
    if _FIGURE.search(small):
        small = _THOUSANDS.sub("", small)
        found += _numbered(small, record, own) + _versions(_THOUSANDS.sub("", quote), record)
        found += _currency(small, record)
    found += _counts(small, record)
    found += _codes(quote, record) if "`" in quote else 0
    return found or _names(quote, record, own, hits)


_FIGURE = re.compile(r"\d")


def _counts(quote: str, record: Record) -> int:
    named = {singular(name.lower()): value for name, value in record.arguments.items() if _is_number(value)}
    if not named:
        return 0
    numbers: Mapping[str, int] = english().data["reading"]["numbers"]
    odd_ones = 0
    for match in _COUNT.finditer(quote):
        count = float(numbers.get(match[1], match[1]))
        unit = singular(match[2])
        if unit in named:
            odd_ones += float(named[unit]) != count
        elif singular(match[0].split()[1]) in named:
            odd_ones += float(named[singular(match[0].split()[1])]) != count
    odd_ones += _quantity(quote, record)
    for match in _LABELLED.finditer(quote):
        unit = singular(match[1])
        odd_ones += unit in named and float(named[unit]) != float(match[2])
    return odd_ones


def _quantity(quote: str, record: Record) -> int:
    """A count of things, where the action holds how many: "40 toner cartridges" of four."""
    held = {int(value) for name, value in record.arguments.items() if name.lower() in _QUANTITIES and _is_number(value)}
    said = set(map(int, _MANY.findall(quote))) if held else set()
    return int(bool(held and said and not held & said))


_MANY = re.compile(r"(?<![\w.,:/#-])(\d{1,6})(?=\s+[a-z])")
_THOUSANDS = re.compile(
    r"(?<=\b\d)[ \u00a0](?=\d{3}\b)|(?<=\b\d\d)[ \u00a0](?=\d{3}\b)|(?<=\b\d{3})[ \u00a0](?=\d{3}\b)"
    r"|(?<=\d),(?=\d{3}\b)"
)
_QUANTITIES = frozenset({"qty", "quantity", "count"})


_DOLLARS = frozenset({"usd", "cad", "aud", "nzd", "sgd", "hkd"})
_CURRENCIES = {
    "$": _DOLLARS,
    "dollar": _DOLLARS,
    "\u20ac": frozenset({"eur"}),
    "euro": frozenset({"eur"}),
    "\u00a3": frozenset({"gbp"}),
    "pound": frozenset({"gbp"}),
    "\u00a5": frozenset({"jpy", "cny"}),
    **{code: frozenset({code}) for code in (*_DOLLARS, "eur", "gbp", "chf", "jpy", "cny", "inr", "sek", "nok", "dkk")},
}
_CURRENCY = re.compile(
    r"([$\u20ac\u00a3\u00a5])\s?\d|\b([a-z]{3}) ?\d|\d\s?([\u20ac\u00a3])|\d ([a-z]{3})\b|\d (dollar|euro|pound)s?\b"
)


def _currency(quote: str, record: Record) -> int:
    """Money in another currency than the action's."""
    own = {str(value).lower() for name, value in record.arguments.items() if "currency" in name.lower()} & set(
        _CURRENCIES
    )
    if not own:
        return 0
    found = (next(filter(None, each)) for each in _CURRENCY.findall(quote))
    said = [_CURRENCIES[each] for each in found if each in _CURRENCIES]
    return int(bool(said) and not any(own & each for each in said))


def _numbered(quote: str, record: Record, own: Held) -> int:
    """Numbers that name a thing ("card ending in 9902") against the numbers that name the action's.

    What the action holds in any of its words is its own: "Visa ending 4417" of "visa-4417".
    """
    named = _NUMBERED.findall(quote)
    if not named or any(number in own.words for number in named):
        return 0
    known = set(_LONG.findall(f"{record.target} {' '.join(record.evidence)}"))
    known |= {str(value) for name, value in record.arguments.items() if str(value).isdigit() and len(str(value)) > 2}
    return len(named) if known and not known & set(_LONG.findall(quote)) else 0


_LONG = re.compile(r"\d{3,}")


def _opposites(quote: str, own: Held) -> int:
    """Words that exclude each other, such as staging and production."""
    said = english().opposites.intersection(_COMPOUND.findall(quote))
    if not said:
        return 0
    known = set(_COMPOUND.findall(own.text))
    for groups in english().data["reading"]["opposites"]:
        held = [set(group) for group in groups if set(group) & known]
        named = [set(group) for group in groups if set(group) & said]
        if held and named and not any(group in held for group in named):
            return 1
    return 0


def _weekdays(quote: str, own: Held) -> int:
    """The days of the week that a claim names, against those of the action's dates."""
    names = english().data["reading"]["weekdays"]
    said = {names.index(name) for name in _WEEKDAY.findall(quote)} if "day" in quote else set()
    if not said:
        return 0
    days = {_weekday(text) for text in _DATE.findall(own.text)} - {None}
    return int(bool(days) and not said & days)


_COMPOUND = re.compile(r"[a-z]+(?:-[a-z]+)*")
_WEEKDAY = re.compile(r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b")
_DATE = re.compile(r"\b\d{4}-\d\d-\d\d")


def _weekday(text: str) -> int | None:
    try:
        return date.fromisoformat(text).weekday()
    except ValueError:
        return None


def _is_number(value: object) -> bool:
    return (isinstance(value, int | float) and not isinstance(value, bool)) or (
        isinstance(value, str) and value.isdigit()
    )


def _codes(quote: str, record: Record) -> int:
    names = [each for each in _strings(record) if " " not in each and len(each) < 80]
    known = {
        part
        for each in (*names, record.target, *record.evidence)
        for part in (each, each.rpartition("/")[2], each.partition("/")[2])
    }
    if not names or not record.target:
        return 0
    odd_ones = [match[1] for match in _CODE.finditer(quote) if match[1] not in known]
    agreed = any(match[1] in known for match in re.finditer(r"`([^`]+)`", quote))
    return 0 if agreed else sum(any(_alike(name, each) for each in known) for name in odd_ones)


def _alike(name: str, known: str) -> bool:
    """Whether two names are of one sort: both plain words, or both paths."""
    return (
        bool(known)
        and known.replace("_", "").replace("-", "").isalpha()
        and name.replace("_", "").replace("-", "").isalpha()
    )


def _versions(quote: str, record: Record) -> int:
    known = {found.lstrip("v") for each in (*_strings(record), record.target) for found in _VERSION.findall(each)}
    named = [found.lstrip("v") for found in _VERSION.findall(quote)]
    return sum(
        one not in known and any(one.count(".") == each.partition("-")[0].count(".") for each in known) for one in named
    )


def _names(quote: str, record: Record, own: Held, hits: int) -> int:
    known = set(_people(record))
    if not known:
        return 0
    odd_ones = 0
    if known & set(re.findall(r"\w+", quote.lower())):
        hits = 1  # The action's own person is named: another name has another part in it.
    for match in _NAME.finditer(quote):
        words = [re.sub(r"'s$", "", word.lower()) for word in match[1].split()]
        if words[0] in english().sets["calendar"]:
            continue
        same = [_is_one_of(word, known) or word in own.words for word in words]
        if not any(same):
            odd_ones += not hits
        elif not all(same) and len(words) == 2 and words[0] in known and len(known) > 1:
            odd_ones += 1
    return odd_ones


def _is_one_of(word: str, known: set[str]) -> bool:
    return any(
        word == each or (len(each) > 4 and word.startswith(each)) or (len(word) > 4 and each.startswith(word))
        for each in known
    )


def _people(record: Record) -> Iterator[str]:
    """The words of the names that an action's arguments hold."""
    for name, value in record.arguments.items():
        if name.lower() not in english().sets["recipient"]:
            continue
        for each in value if isinstance(value, list) else [value]:
            text = str(each)
            if "@" in text:
                local = text.partition("@")[0]
                yield from (part for part in re.split(r"[._-]", local) if "." in local and len(part) > 1)
            elif re.search(r"[A-Z]", text):
                yield from (part.lower() for part in re.findall(r"\w+", text) if part.lower() not in _TITLES)


_TITLES = frozenset({"mr", "mrs", "ms", "dr", "prof", "herr", "frau", "coach"})


def _strings(record: Record) -> list[str]:
    return [value for value in record.arguments.values() if isinstance(value, str)]
