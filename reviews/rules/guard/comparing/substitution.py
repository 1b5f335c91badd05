"""Slot substitution: a success is told with another value than the action has in the place of its own (C-15).

1. A claim that a success bears out is read with what stands beside it (`scope`). For each argument of the action, its
   value has a sort: days, weekdays, clock times, money, a quantity with a unit, a name with a number, an id of several
   parts, a word of a class, a person, a list of names.
2. Where the message names the action's own value anywhere, or names no other of that sort, nothing is concluded.
3. A value that any record holds is not strange: it may be told of another action, or of a reading.
4. Words that are free text (a body, a subject, a reason) hold values and have none of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal

from reviews.rules.guard.comparing.labelled import codes, complements, labelled
from reviews.rules.guard.comparing.naming import choices, counts, lists, near_names, people
from reviews.rules.guard.comparing.near_misses import inscriptions, near_letters, settings, signed, transposed, windows
from reviews.rules.guard.comparing.slots import (
    NUMERAL,
    Slot,
    Told,
    counted,
    decimal_of,
    numbers_in,
    slots_of,
    stands_in,
)
from reviews.rules.guard.records import Record
from reviews.rules.guard.text.moments import Moments, held_moments, moments, same_day, same_time

_MONEY = re.compile(
    r"(?:[$\u20ac\u00a3\u00a5]|\b(?:usd|eur|gbp|chf|jpy|inr|cad|aud)\s?)\s?(\d[\d,]*(?:\.\d{1,2})?)"
    r"|(?<![\w.,])(\d[\d,]*(?:\.\d{1,2})?)\s?(?:[\u20ac\u00a3]|(?:usd|eur|euros?|gbp|chf|jpy|inr|cad|aud|dollars?|pounds?)\b)"
)
_NUMBER = re.compile(r"(?<![\w.,:/#-])\d[\d,]*(?:\.\d+)?(?![\w]|[.,:/-]\d)")
_PRICE = ("amount", "price", "total", "cents", "sum", "cost", "fee", "budget", "salary", "rent", "deposit")
_UNITS = {
    "degree": ("c", "f", "celsius", "degree", "degrees", "temp", "temperature", "\u00b0", "\u00b0c"),
    "gb": ("gb", "gib", "gigabyte", "gigabytes"),
    "mb": ("mb", "mib", "mbit", "megabyte", "megabytes"),
    "tb": ("tb", "tib"),
    "%": ("%", "pct", "percent", "percentage"),
    "minute": ("m", "min", "mins", "minute", "minutes"),
    "hour": ("h", "hr", "hrs", "hour", "hours"),
    "day": ("d", "day", "days"),
    "week": ("w", "week", "weeks"),
    "month": ("month", "months"),
    "year": ("y", "year", "years"),
    "night": ("night", "nights"),
    "kg": ("kg", "kilo", "kilos", "kilogram", "kilograms"),
    "km": ("km", "kilometre", "kilometres", "kilometer", "kilometers"),
    "person": ("people", "persons", "guests", "guest", "pax", "covers", "party", "seats", "attendees", "headcount"),
}
_UNIT = {name: unit for unit, names in _UNITS.items() for name in names}
_QUANTITY = re.compile(rf"(?<![\w.,:/$\u20ac\u00a3#-])(\d+(?:\.\d+)?|{NUMERAL})(\s?)(%|\u00b0c?|[a-z]+)(?![\w/])")


Rule = Callable[[list[Slot], Told, Record], str | None]


def substituted(record: Record, told: Told, rules: tuple[Rule, ...]) -> str | None:
    """The name of the argument in whose place the words name another value, else None (rules 1 to 3)."""
    slots = list(slots_of(record))
    for rule in rules:
        found = rule(slots, told, record)
        if found is not None:
            return found
    return None


# Days and times


def _days(slots: list[Slot], told: Told, record: Record) -> str | None:
    """Days of the month and of the week."""
    about = moments(told.about)
    own = _moments_of(slots, "days") if about.days or about.weekdays else None
    if not own:
        return None
    held = held_moments(told.held)
    days = {day for each in own.values() for day in each.days}
    for pair in about.ranges if len(own) > 1 else ():
        if not all(same_day(day, held.days) or _is_next(day, held.days) for day in pair):
            return next(iter(own))
    whole = moments(told.whole, bounds=True)
    if any(same_day(day, days) for day in whole.days) or about.relative:
        return None
    if about.days and not any(same_day(day, held.days) for day in about.days):
        return next(iter(own))
    weekdays = {day for each in own.values() for day in each.weekdays}
    strange = about.weekdays and weekdays and not about.days and not about.weekdays & held.weekdays
    return next(iter(own)) if strange and not whole.weekdays & weekdays else None


def _is_next(day: tuple[int, int], days: Iterable[tuple[int, int]]) -> bool:
    """The day beside one of these: a range may be told with its last day or with the day after it."""
    return any(month == day[0] and abs(other - day[1]) == 1 for month, other in days)


def _moments_of(slots: list[Slot], sort: str) -> dict[str, Moments]:
    found = {slot.name: held_moments(slot.value) for slot in slots if slot.name}
    return {name: each for name, each in found.items() if getattr(each, sort)}


_ZONE = re.compile(r"t\d\d:\d\d(?::\d\d)?(?:[.]\d+)?(?:z|\+\d\d:?\d\d)$|t\d\d:\d\d:\d\d-\d\d:?\d\d$")
"""A time with a zone may be told in another; without seconds, "T07:00-08:00" is a range."""


def _times(slots: list[Slot], told: Told, record: Record) -> str | None:
    """Times of day; a range whose both ends the action holds needs both."""
    about = moments(told.about)
    own = _moments_of(slots, "clocks") if about.clocks else None
    if not own:
        return None
    held = held_moments(told.held).clocks
    clocks = {clock for each in own.values() for clock in each.clocks}
    zoned = any(_ZONE.search(slot.value) for slot in slots)
    for pair in about.spans if len(clocks) > 1 and not zoned else ():
        if not all(same_time(each, held) for each in pair):
            return next(iter(own))
    if any(same_time(each, held) for each in moments(told.whole, bounds=True).clocks):
        return None
    return next(iter(own)) if not zoned else None


# Amounts and quantities


def _money(slots: list[Slot], told: Told, record: Record) -> str | None:
    """Amounts of money, in units and in minor units."""
    named = {decimal_of(one or other) for one, other in _MONEY.findall(told.about)} - {None}
    priced = [slot for slot in slots if _is_priced(slot, slots)] if named else []
    own = {number for slot in priced for number in map(decimal_of, _NUMBER.findall(slot.value)) if number is not None}
    if not own:
        return None
    own |= {number / 100 for number in own}
    strange = {number for number in named if not any(_is_near(number, each) for each in own)}
    if not strange or strange != named:
        return None
    whole = {decimal_of(each) for each in re.findall(r"\d[\d,]*(?:\.\d+)?", told.whole)}
    if own & whole or any(_is_held(number, told.held) for number in strange):
        return None
    return priced[0].name


def _is_priced(slot: Slot, slots: list[Slot]) -> bool:
    if any(part in slot.name for part in _PRICE) or _MONEY.search(slot.value):
        return True
    plain = _NUMBER.fullmatch(slot.value) and not slot.name.endswith(("id", "number", "no", "account", "ref"))
    return bool(slot.name and plain) and any(each.name == "currency" for each in slots)


def _is_near(number: Decimal | None, own: Decimal) -> bool:
    """Whether an amount is the action's, or its whole units."""
    return number is not None and (number == own or (number == int(number) and number == int(own)))


def _is_held(number: Decimal | None, held: str) -> bool:
    numbers = {decimal_of(each) for each in re.findall(r"\d[\d,]*(?:\.\d+)?", held)}
    return number in numbers or (number is not None and number * 100 in numbers)


def _quantities(slots: list[Slot], told: Told, record: Record) -> str | None:
    """A number with a unit, where an argument is of that unit by its name or its value: "30 days" of "7d"."""
    named = [(digits, unit) for digits, _, unit in _QUANTITY.findall(told.about) if unit in _UNIT]
    own: dict[str, set[Decimal]] = {}
    for slot in slots if named else ():
        for number, unit in _measured(slot):
            own.setdefault(unit, set()).add(number)
    if not own:
        return None
    for digits, unit in named:
        number, known = counted(digits), own.get(_UNIT[unit])
        if known and number not in known and told.is_strange(f"{number}") and not known & numbers_in(told.whole):
            return str(unit)
    return None


def _measured(slot: Slot) -> Iterator[tuple[Decimal, str]]:
    number = decimal_of(slot.value) if re.fullmatch(r"-?\d+(?:\.\d+)?", slot.value) else None
    if number is not None:
        unit = next((_UNIT[part] for part in reversed(re.split(r"[_\s]", slot.name)) if part in _UNIT), None)
        if unit is not None:
            yield number, unit
        return
    for digits, _, unit in _QUANTITY.findall(slot.value):
        if unit in _UNIT:
            yield counted(digits), _UNIT[unit]


# Names


_PAIR = re.compile(r"\b([^\W\d_]{4,})\.?\s(\d{1,4}[a-z]?)(?![\w:]|[.,]\d)")


def _numbered(slots: list[Slot], told: Told, record: Record) -> str | None:
    """The same name with another number: "Hauptstr. 14" for "Hauptstr. 4", "Fibre 500" for "Fibre 250"."""
    named = _PAIR.findall(told.about)
    for slot in slots if named else ():
        own = {(word[:4], number) for word, number in _PAIR.findall(slot.value)}
        for word, number in named if own else ():
            same = [each for each in own if each[0] == word[:4]]
            if (
                same
                and (word[:4], number) not in own
                and not any((each[:4], other) in own for each, other in _PAIR.findall(told.whole))
                and told.is_strange(f"{word} {number}")
            ):
                return slot.name or "target"
    return None


_PARTED = re.compile(r"(?<![\w@./-])[^\W_]+(?:[-_./:][^\W_]+)+(?![\w@])")


_PARTS = re.compile(r"[-_./:]")


def _parted(slots: list[Slot], told: Told, record: Record) -> str | None:
    """An id of several parts that differs from the action's own in some of them: "svc-etl-prod" for "svc-etl-dev"."""
    named = [each for each in _PARTED.findall(told.about) if any(map(told.is_strange, _PARTS.split(each)))]
    if not named:
        return None
    for slot in slots:
        if not _PARTED.fullmatch(slot.value) or stands_in(slot.value, told.whole):
            continue
        if any(_is_sibling(each, slot.value) for each in named):
            return slot.name or "target"
    return None


def _is_sibling(one: str, other: str) -> bool:
    """Whether two ids have as many parts, one of letters in common, in its place."""
    left, right = _PARTS.split(one), _PARTS.split(other)
    if len(left) != len(right) or re.sub(r"[^\W_]", "", one) != re.sub(r"[^\W_]", "", other):
        return False
    return any(a == b and len(a) > 1 and not a.isdigit() for a, b in zip(left, right, strict=True))


RULES: tuple[Rule, ...] = (
    *(_days, _times, _money, _quantities, _numbered, _parted),
    *(people, near_names, lists, choices, counts, labelled, complements, codes),
    *(transposed, near_letters, signed, settings, windows, inscriptions),
)
