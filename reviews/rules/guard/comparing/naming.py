"""Names and words of a class that stand in the place of an action's own (C-15).

1. A person, company or place whom the words name behind "to", "with", "for", "in favour of", or with a title, where the
   argument that names one holds another, and nothing of that is named anywhere.
2. A name of several words that shares one with the action's own and differs in the other.
3. Names joined with "and", one of which the action holds, and another of which nothing on record holds.
4. A word of a class (an environment, a role, an answer, a level) where the argument is another word of that class.
5. How many things, where the action holds how many.
"""

from __future__ import annotations

import re
from functools import cache

from reviews.rules.guard.comparing.slots import Slot, Told, counted, numbers_in, stands_in
from reviews.rules.guard.records import Record
from reviews.rules.guard.words.language import english

_UPPER = r"[A-Z\u00c0-\u00de][^\W\d_]+(?:['\u2019-][A-Z]?[^\W\d_]+)*"
_FULL = rf"{_UPPER}(?:(?:\s(?:of|de|di|da|van|von|del|the))?\s{_UPPER}){{0,3}}"
_TITLE = r"(?:Mr|Mrs|Ms|Dr|Prof|Herr|Frau|Auntie|Uncle|Coach)\.?"
_TOLD = re.compile(rf"(?:\b(?:to|with|in favou?r of)\s(?:the\s)?(?:{_TITLE}\s)?|\b{_TITLE}\s)(?P<name>{_FULL})")
_ANY = re.compile(_FULL)
_LIST = re.compile(
    rf"\b(?:in|on|to|for|with|at|both|between|from|of)\s({_UPPER}(?:,\s{_UPPER})*),?\s(?:and|&)\s({_UPPER})"
)
_HANDLE = re.compile(r"[a-z]{3,20}")
_WORDS = re.compile(r"[^\W\d_]{2,}")


def people(slots: list[Slot], told: Told, record: Record) -> str | None:
    """Rule 1."""
    for slot in slots:
        own = _own_name(slot)
        if not own or any(stands_in(word, told.whole) for word in own):
            continue
        for match in _TOLD.finditer(told.shown):
            words = _name_words(match["name"])
            if words and all(map(told.is_strange, words)) and not any(_is_like(a, b) for a in words for b in own):
                return slot.name
    return None


def _own_name(slot: Slot) -> tuple[str, ...]:
    """The words of the name that an argument holds: a person's, or a handle; none where it may be anything else."""
    if slot.name not in english().sets["recipient"] | english().sets["appointed"]:
        return ()
    text = slot.shown.partition("@")[0] if "@" in slot.shown else slot.shown
    if "@" in slot.shown and "." not in text:
        return ()
    if any(each.isdigit() for each in text) or len(text) > 40:
        return ()
    named = bool(_ANY.fullmatch(slot.shown.strip())) or "@" in slot.shown or bool(_HANDLE.fullmatch(slot.shown))
    words = tuple(each for each in _WORDS.findall(text.lower()) if len(each) > 2)
    return words if named and not set(words) & english().sets["departments"] else ()


def _name_words(name: str) -> list[str]:
    words = [re.sub(r"['\u2019]s$", "", each.lower()) for each in name.split() if each[0].isupper()]
    sets = english().sets
    return [] if set(words) & (sets["calendar"] | sets["departments"] | sets["teams"]) else words


def _is_like(one: str, other: str) -> bool:
    """Whether one name may be short for the other."""
    return one[:3] == other[:3] and (one.startswith(other) or other.startswith(one))


def near_names(slots: list[Slot], told: Told, record: Record) -> str | None:
    """Rule 2."""
    for slot in slots:
        if not _ANY.fullmatch(slot.shown) or " " not in slot.shown:
            continue
        own = set(_WORDS.findall(slot.value)) - _SMALL
        for match in _ANY.finditer(told.shown):
            opens = not match.start() or told.shown[: match.start()].rstrip()[-1:] in _OPENS
            name = match.group().partition(" ")[2] if opens else match.group()
            words = set(_WORDS.findall(name.lower())) - _SMALL
            if _is_near(words, own, told):
                return slot.name or "target"
    return None


def _is_near(words: set[str], own: set[str], told: Told) -> bool:
    """Whether a name shares a word with the action's, and has a strange one in the place of another."""
    other, left = words - own, own - words
    if not (words & own and other and left) or words & english().sets["calendar"]:
        return False
    return all(map(told.is_strange, other)) and not any(stands_in(word, told.whole) for word in left)


_OPENS = frozenset({".", "!", "?", ":"})
"""The first word behind these is written large, a name or not."""
_SMALL = frozenset({"of", "the", "de", "di", "da", "van", "von", "del", "mr", "mrs", "ms", "dr", "prof"})


def lists(slots: list[Slot], told: Told, record: Record) -> str | None:
    """Rule 3."""
    for match in _LIST.finditer(told.shown):
        names = [each.lower() for each in (*match[1].split(", "), match[2])]
        held = [name for name in names if any(stands_in(name, slot.value) for slot in slots)]
        if held and any(told.is_strange(name) for name in names) and not set(names) & english().sets["calendar"]:
            return next(slot.name for slot in slots if any(stands_in(name, slot.value) for name in held))
    return None


def choices(slots: list[Slot], told: Told, record: Record) -> str | None:
    """Rule 4; words of two letters ("up", "no") mean much else."""
    if not _any_class().search(told.about):
        return None
    for slot in slots:
        own = _group(slot.value) if slot.name else None
        if own is None:
            continue
        number, words = own
        if any(stands_in(word, told.whole) for word in words):
            continue
        for word in _classes()[number]:
            if len(word) > 2 and word not in words and stands_in(word, told.about) and told.is_strange(word):
                return slot.name
    return None


def _group(value: str) -> tuple[int, frozenset[str]] | None:
    """The class that a value is a word of, and the words that mean the same."""
    parts = {value, *(re.split(r"[-_.]", value)[1:] if " " not in value else ())}
    for number, groups in enumerate(english().data["reading"]["choices"]):
        for group in groups:
            if not parts.isdisjoint(group):
                return number, frozenset(group)
    return None


@cache
def _any_class() -> re.Pattern[str]:
    """Any word of a class that is long enough."""
    words = {re.escape(word) for words in _classes() for word in words if len(word) > 2}
    return re.compile("|".join(sorted(words, key=len, reverse=True)))


@cache
def _classes() -> tuple[frozenset[str], ...]:
    return tuple(
        frozenset(word for group in groups for word in group) for groups in english().data["reading"]["choices"]
    )


_MANY = frozenset(
    {
        "qty",
        "quantity",
        "count",
        "copies",
        "units",
        "guests",
        "party",
        "pax",
        "covers",
        "replicas",
        "pieces",
        "boxes",
        "bags",
        "seats",
        "tickets",
        "items",
        "nights",
        "rooms",
        "recipients",
        "instances",
    }
)
_RESULT = re.compile(r"\b(?:rows?|affected|count|deleted|updated|removed|records?|items|files|sent)\b")
_THINGS = re.compile(
    r"(?<![\w.,:/$\u20ac\u00a3#-])(\d{1,6}|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)"
    r"(?:\s(?!of\b|out\b)(?:\d+\s?[a-z]{1,2}\s)?[a-z]{3,}|(?=\s*$|\s*\n))"
)


def counts(slots: list[Slot], told: Told, record: Record) -> str | None:
    """Rule 5."""
    own = {counted(slot.value) for slot in slots if slot.name in _MANY and slot.value.isdigit()}
    own |= {number for each in record.evidence if _RESULT.search(each.lower()) for number in numbers_in(each.lower())}
    if not own or own & numbers_in(told.whole):
        return None
    named = [counted(number) for number in _THINGS.findall(told.about)]
    return "count" if named and not any(stands_in(f"{number}", told.held) for number in named) else None
