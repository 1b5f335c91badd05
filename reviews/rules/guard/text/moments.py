"""Moments: the days, weekdays and clock times that a text names, in figures and in words (C-15).

1. A day is its month and day ("7 to 18 December" names two); "the 5th" is a day of some month. A weekday is its number.
2. A clock time is its minute of the day. One without am, pm, a part of the day or an hour past twelve may be of either
   half of the day. "Between 7 and 8 in the evening", "twenty past ten" and "2 till 5" are read as they are meant.
3. What stands behind "by", "until", "since" or "of" bounds or tells of something else, unless it ends a range: it is no
   moment of what is told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

from reviews.rules.guard.words.language import english

HALF = 720
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b"
)
_TO = r"\s?(?:-|\u2013|\u2014|to|till|until|through|and|&)\s?"
_NTH = r"(?:st|nd|rd|th)?"
_DAY = re.compile(
    rf"(?P<iso>\b\d{{4}}-\d\d-\d\d)"
    rf"|\b(?P<a>\d{{1,2}}){_NTH}(?:{_TO}(?P<b>\d{{1,2}}){_NTH})?\s(?:of\s)?(?P<m>{_MONTH})"
    rf"|\b(?P<n>{_MONTH})\.?\s(?P<c>\d{{1,2}}){_NTH}(?:{_TO}(?P<d>\d{{1,2}}){_NTH})?(?![\w:.,]?\d)"
    r"|\bthe\s(?P<e>\d{1,2})(?:st|nd|rd|th)\b(?!\s(?:of|time|floor|edition|place|row|century))"
)
_WORDS = "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
_HOUR = rf"(?:\d{{1,2}}|{_WORDS})"
_HALF = r"a\.m\.?|p\.m\.?|[ap]m\b|(?:in\sthe|this)\s(?:morning|afternoon|evening)|at\snight|tonight"
_CLOCK = re.compile(
    rf"\b(?P<past>half|quarter|five|ten|twenty|twenty-five)\s(?P<way>past|to)\s(?P<ph>{_HOUR})\b(?:\s(?P<pp>{_HALF}))?"
    rf"|(?<![\w.,:/$\u20ac\u00a3#-])(?:(?P<cue>between|from|at)\s)?(?P<rh>{_HOUR})(?::(?P<rm>\d\d))?(?:\s?(?P<rp>{_HALF}))?"
    rf"(?P<to>{_TO})(?P<sh>{_HOUR})(?::(?P<sm>\d\d))?(?:\s?(?P<sp>{_HALF}))?(?![\w%]|[-./:]\d)(?:\s?o'clock)?"
    rf"|(?<![\w.,:/-])(?P<h>\d{{1,2}})[:.](?P<min>\d\d)(?:\s?(?P<p>{_HALF}))(?![\w:])"
    rf"|(?<![\w.,:/-])(?P<h2>\d{{1,2}}):(?P<min2>\d\d)(?![\w:])"
    rf"|\b(?P<h3>{_HOUR})\s?(?:(?P<p3>{_HALF})|o'clock\b)"
    r"|\b(?P<noon>noon|midday|midnight)\b"
)
_BOUND = re.compile(
    r"\b(?:by|before|until|till|after|since|of|than|within|every)\s(?:the\s)?(?:\w+day,?\s)?(?:the\s)?$"
)
_STAMP = re.compile(r"\b(\d{4}-\d\d-\d\d)(?:t(\d\d:\d\d))?(?:[-/](\d\d:\d\d))?")
_PLAIN = re.compile(r"(?<![\d:])(\d\d?):(\d\d)(?![\d:])")
_WEEKDAY = re.compile(r"\b(mon|tues|wednes|thurs|fri|satur|sun)days?\b")
_RELATIVE = re.compile(
    r"\b(?:today|tomorrow|tonight|yesterday|now|next\s\w+|this\s\w+|in\s\w+\s(?:day|week|month|hour)s?)\b"
)


_MAY_HOLD = re.compile(rf"\d|days?\b|noon|midday|midnight|\b(?:{_WORDS})\b")
"""What every moment has: a figure, a number in words, or the name of a day or a time."""


@dataclass(frozen=True, slots=True)
class Clock:
    """A time of day in minutes; `sure` where it says which half of the day it is in."""

    minute: int
    sure: bool


@dataclass(frozen=True)
class Moments:
    """The moments of a text: days as (month or 0, day), the pairs that are ranges, weekdays, clock times."""

    days: frozenset[tuple[int, int]] = frozenset()
    ranges: frozenset[tuple[tuple[int, int], tuple[int, int]]] = frozenset()
    weekdays: frozenset[int] = frozenset()
    clocks: frozenset[Clock] = frozenset()
    spans: frozenset[tuple[Clock, Clock]] = frozenset()
    relative: bool = False


@lru_cache(maxsize=2048)
def moments(text: str, *, bounds: bool = False) -> Moments:
    """The moments of a text in lower case; with `bounds` also those behind "by", "until" and the like (rule 3)."""
    if not _MAY_HOLD.search(text):
        return Moments(relative=bool(_RELATIVE.search(text)))
    found = [each for each in _days(text) if bounds or each[1] is not None or not _is_bound(text, each[2])]
    clocks = [each for each in _clocks(text) if bounds or each[1] is not None or not _is_bound(text, each[2])]
    return Moments(
        frozenset(day for one, other, _ in found for day in (one, other) if day is not None),
        frozenset((one, other) for one, other, _ in found if other is not None),
        frozenset(map(_weekday_number, _WEEKDAY.findall(text))),
        frozenset(clock for one, other, _ in clocks for clock in (one, other) if clock is not None),
        frozenset((one, other) for one, other, _ in clocks if other is not None),
        bool(_RELATIVE.search(text)),
    )


def _is_bound(text: str, at: int) -> bool:
    return bool(_BOUND.search(text, max(0, at - 30), at))


def _weekday_number(name: str) -> int:
    names: list[str] = english().data["reading"]["weekdays"]
    return next(number for number, each in enumerate(names) if each.startswith(name))


Day = tuple[int, int]


def _days(text: str) -> Iterator[tuple[Day, Day | None, int]]:
    for match in _DAY.finditer(text):
        if match["iso"]:
            yield (int(match["iso"][5:7]), int(match["iso"][8:])), None, match.start()
            continue
        month = _MONTHS.index((match["m"] or match["n"])[:3]) + 1 if match["m"] or match["n"] else 0
        first = int(match["a"] or match["c"] or match["e"])
        second = match["b"] or match["d"]
        if 1 <= first <= 31:
            yield (month, first), (month, int(second)) if second else None, match.start()


def _clocks(text: str) -> Iterator[tuple[Clock, Clock | None, int]]:
    for match in _CLOCK.finditer(text):
        if match["noon"]:
            yield Clock(0 if match["noon"] == "midnight" else HALF, True), None, match.start()
        elif match["past"]:
            minutes = {"half": 30, "quarter": 15, "five": 5, "ten": 10, "twenty": 20}.get(match["past"], 25)
            at = _clock(match["ph"], "0", match["pp"])
            if at is not None:
                late = at.minute + (minutes if match["way"] == "past" else -minutes)
                yield Clock(late % (2 * HALF), at.sure), None, match.start()
        elif match["rh"]:
            yield from _range(match)
        else:
            hour, half = match["h"] or match["h2"] or match["h3"], match["p"] or match["p3"]
            at = _clock(hour, match["min"] or match["min2"] or "0", half)
            if at is not None:
                yield at, None, match.start()


def _range(match: re.Match[str]) -> Iterator[tuple[Clock, Clock | None, int]]:
    """A range of times, where a cue tells that it is one: minutes, a half of the day, "between", "till"."""
    told = match["rm"] or match["sm"] or match["rp"] or match["sp"]
    if not told and match["to"].strip() != "till":
        return
    end = _clock(match["sh"], match["sm"] or "0", match["sp"] or (match["rp"] if not match["sm"] else None))
    start = _clock(match["rh"], match["rm"] or "0", match["rp"])
    if start is None or end is None:
        return
    if not start.sure and end.sure and not match["rm"]:
        late = start.minute + HALF if end.minute >= HALF and start.minute + HALF <= end.minute else start.minute
        start = Clock(late, True)
    yield start, end, match.start()


def _clock(hour: str, minute: str, half: str | None) -> Clock | None:
    number = int(hour) if hour.isdigit() else english().data["reading"]["numbers"][hour]
    if number > 24 or int(minute) > 59 or (half and number > 12 and "p" not in half):
        return None
    late = half is not None and (half[0] == "p" or any(part in half for part in ("afternoon", "evening", "night")))
    if half and number <= 12:
        number = number % 12 + 12 * late
    return Clock(number % 24 * 60 + int(minute), bool(half) or number > 12 or (hour[0] == "0" and len(hour) == 2))


@lru_cache(maxsize=2048)
def held_moments(text: str) -> Moments:
    """The moments of an argument's value: stamps, plain times, and days in words; weekdays of its dates."""
    days: set[Day] = set()
    weekdays: set[int] = set()
    for stamp, _, _ in _STAMP.findall(text):
        try:
            day = date.fromisoformat(stamp)
        except ValueError:
            continue
        days.add((day.month, day.day))
        weekdays.add(day.weekday())
    told = moments(_STAMP.sub(" ", text), bounds=True)
    times = {Clock(int(hour) * 60 + int(minute), True) for hour, minute in _PLAIN.findall(_stamped(text))}
    return Moments(
        frozenset(days) | told.days,
        frozenset(),
        frozenset(weekdays) | told.weekdays,
        frozenset(times) | told.clocks,
    )


def _stamped(text: str) -> str:
    return re.sub(r"(\d{4}-\d\d-\d\d)t(?=\d\d:\d\d)", " ", text)


def same_day(told: Day, own: Iterable[Day]) -> bool:
    """Whether a day is one of these; one without a month needs only their day."""
    return any(told[1] == day and told[0] in (0, month) for month, day in own)


def same_time(told: Clock, own: Iterable[Clock]) -> bool:
    """Whether a time is one of these; one of either half of the day needs only their minute."""
    return any(
        told.minute == each.minute or (not (told.sure and each.sure) and (told.minute - each.minute) % HALF == 0)
        for each in own
    )
