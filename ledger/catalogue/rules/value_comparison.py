"""Compares two values in any notation: equal, different, or undecidable (None).

A wrong "no" accuses an honest agent or a tool that did its work, so "no" needs two values of one kind that are plainly
two. What is cut off, masked, of another kind or in a notation that is not read here cannot be told.

1. Texts are folded: case, spacing, `_` and `-`, the marks around an id (`#W12`, `orders/W12`). Where the schema lists
   the choices, another choice is another value; else a text that contains the other cannot be told from it, nor a
   code (`CA`) or an id (`C024BE`) from a name (`California`), nor what is masked or longer than `LONG` characters.
2. Numbers are equal whatever their notation: 12.5, "12.50", "$12.50", "1.250,00 EUR".
3. Money: an integer may count minor units. Where the contract says in which unit the answer counts, an integer that was
   asked for counts minor units (as everywhere, `ledger.catalogue.rules.money`), and both sides are converted. Where it
   does not say, but a currency is known, 1250 and "12.50" are the same; without one it cannot be told whether they are,
   nor whether an amount is the same where only its sign differs. Nor a share: 10 and 0.1.
4. Dates: a date and a time of that day, one instant in two zones, seconds since 1970. Less than a day apart, where a
   zone is missing, cannot be told.
5. An object is the same where everything that was asked of it and is shown is the same.
6. A list is the same where each member that was asked for stands in what is listed, whatever else is listed there and
   in whatever order; `in_order` (the schema has `prefixItems`) compares place by place.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

LONG: Final = 120
"""Longer texts are free text, which tools cut, wrap and format."""
_HUGE: Final = 20_000
_DEEPEST: Final = 6
_MOST_PAIRS: Final = 5_000
_NEAR: Final = Decimal("1e-6")
_DAY: Final = timedelta(days=1)
_YES: Final = frozenset({"true", "yes", "y", "on", "1", "enabled", "active"})
_NO: Final = frozenset({"false", "no", "n", "off", "0", "disabled", "inactive"})
_QUOTES: Final = {0x2018: "'", 0x2019: "'", 0x201C: '"', 0x201D: '"'}
_BETWEEN: Final = re.compile(r"^https?://(www\.)?|[\s_\-\u2010-\u2015]+")
_SIGN: Final = re.compile(r"[$€£¥₹]|^[A-Z]{3}(?=\s)|(?<=\s)[A-Z]{3}$")
_NUMERAL: Final = re.compile(r"[-+]?\d{1,15}(?:[.,'\u2019 ]\d{1,10})*")
_DATED: Final = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}.{0,21})?")
_PHONE: Final = re.compile(r"\+?[\d\s().-]{7,20}")
_MASK: Final = re.compile(r"[*•…]|\.\.\.|x{3,}", re.IGNORECASE)
_ID: Final = re.compile(r"(?=\S*\d)\S+")
_CODE: Final = re.compile(r"[A-Z]{1,3}")


@dataclass(frozen=True, slots=True)
class Notation:
    """The notation of one field's values: the `choices` of its schema, and for money its unit.

    `minor` says whether the shown number counts minor units, None if the contract does not say; `places` is the number
    of decimal places of the currency, None if no currency is known.
    """

    choices: tuple[Any, ...] = ()
    in_order: bool = False
    is_money: bool = False
    is_share: bool = False
    minor: bool | None = None
    places: int | None = None


PLAIN: Final = Notation()


def same_value(asked: object, shown: object, notation: Notation = PLAIN, *, depth: int = 0) -> bool | None:
    """Compare a shown value with the requested one; None if they cannot be compared."""
    if asked is None or shown is None or depth > _DEEPEST or _is_huge(asked) or _is_huge(shown):
        return None
    if isinstance(asked, Mapping) or isinstance(shown, Mapping):
        return _same_object(asked, shown, depth)
    if _is_list(asked) or _is_list(shown):
        return _same_list(asked, shown, notation, depth)
    if isinstance(asked, bool) or isinstance(shown, bool):
        return _same_truth(asked, shown)
    moments = _moment(asked), _moment(shown)
    if moments != (None, None):
        return _same_moment(asked, shown, *moments)
    numbers = _numbers(asked), _numbers(shown)
    if all(numbers):
        return _same_number(asked, shown, numbers, notation)
    if any(numbers) and not (isinstance(asked, str) and isinstance(shown, str)):
        return None
    return _same_text(str(asked), str(shown), notation.choices)


def fold_text(value: object) -> str:
    """Return a text in the form for comparing: one case, no spacing, no marks between or around its words, `cancelled`
    as `canceled`.
    """
    text = unicodedata.normalize("NFKC", str(value)).casefold().strip().lstrip("#").rstrip("/.")
    return _BETWEEN.sub("", text.translate(_QUOTES)).replace("ll", "l")


def _is_huge(value: Any) -> bool:
    """Return whether a number or a text is too long to compare."""
    return (isinstance(value, int) and value.bit_length() > 128) or (isinstance(value, str) and len(value) > _HUGE)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _same_object(asked: Any, shown: Any, depth: int) -> bool | None:
    if not isinstance(asked, Mapping):
        return True if not _is_list(asked) and _is_value_of(asked, shown) else None
    if not isinstance(shown, Mapping):
        return None
    named = {fold_text(name): value for name, value in shown.items()}
    pairs = ((value, named[name]) for key, value in asked.items() if (name := fold_text(key)) in named)
    told = [same_value(value, other, depth=depth + 1) for value, other in pairs]
    if False in told:
        return False
    return True if told and None not in told else None


def _is_value_of(member: Any, thing: Mapping[str, Any]) -> bool:
    """Return whether a plain value is one of the values of an object, such as its id or name."""
    plain = (value for value in thing.values() if not isinstance(value, Mapping | bool) and not _is_list(value))
    return any(same_value(member, value) is True for value in plain)


def _same_list(asked: Any, shown: Any, notation: Notation, depth: int) -> bool | None:
    if not _is_list(shown) or not _is_list(asked):
        # A list beside a plain value or a text with commas: it may agree, and says nothing where it does not.
        return True if set(_memberships(_parts(asked), _parts(shown), depth)) == {True} else None
    if not asked:
        return True if not shown else None
    if notation.in_order:
        told = [same_value(one, other, depth=depth + 1) for one, other in zip(asked, shown, strict=False)]
        told += [False] * (len(asked) - len(shown))
    else:
        told = list(_memberships(asked, shown, depth))
    if False in told:
        return False
    return True if None not in told else None


def _parts(value: Any) -> Sequence[Any]:
    if _is_list(value):
        return value  # type: ignore[no-any-return]
    return [one.strip() for one in value.split(",")] if isinstance(value, str) else [value]


def _memberships(asked: Sequence[Any], shown: Sequence[Any], depth: int) -> Iterator[bool | None]:
    """Yield for each member if it is in the list; None if nothing in the list can be compared with it."""
    listed = {fold_text(one) for one in shown if isinstance(one, str | int) and not _is_huge(one)}
    pairs = 0
    for member in asked:
        if isinstance(member, str | int) and not _is_huge(member) and fold_text(member) in listed:
            yield True
            continue
        pairs += len(shown)
        told = {same_value(member, other, depth=depth + 1) for other in shown} if pairs <= _MOST_PAIRS else {None}
        yield True if True in told else None if None in told else False


def _same_truth(asked: Any, shown: Any) -> bool | None:
    one, other = fold_text(asked), fold_text(shown)
    if not {one, other} <= _YES | _NO:
        return None
    return (one in _YES) is (other in _YES)


def _same_moment(asked: Any, shown: Any, one: date | None, other: date | None) -> bool | None:
    if one is None or other is None:
        return _same_epoch(one or other, shown if one is not None else asked)
    if type(one) is type(other) is date:
        return one == other
    first, second = _as_utc(one), _as_utc(other)
    if isinstance(one, datetime) and isinstance(other, datetime) and (one.tzinfo is None) is (other.tzinfo is None):
        return abs(first - second) < timedelta(seconds=1)
    if first.replace(tzinfo=UTC) == second.replace(tzinfo=UTC) or (
        type(one) is not type(other) and first.date() == second.date()
    ):
        return True
    return None if abs(first - second) < _DAY else False


def _moment(value: Any) -> date | None:
    if not isinstance(value, str) or _DATED.fullmatch(value.strip()) is None:
        return None
    text = value.strip()
    try:
        return date.fromisoformat(text) if len(text) == len("2000-01-01") else datetime.fromisoformat(text)
    except ValueError:
        return None


def _as_utc(moment: date) -> datetime:
    at = moment if isinstance(moment, datetime) else datetime(moment.year, moment.month, moment.day)  # noqa: DTZ001
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _same_epoch(moment: date | None, value: Any) -> bool | None:
    """Compare seconds or milliseconds since 1970 with a time; anything else with a time is undecidable."""
    if moment is None or isinstance(value, bool) or not isinstance(value, int | float):
        return None
    seconds = _as_utc(moment).timestamp()
    return True if any(abs(seconds - value / scale) < 1 for scale in (1, 1000)) else None


def _numbers(value: Any) -> tuple[Decimal, ...]:
    """The number in a value, the likelier reading first: "1,250" is twelve hundred and fifty, or one and a quarter."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        found = Decimal(str(value))
        return (found,) if found.is_finite() else ()
    if not isinstance(value, str) or len(value) > 40:
        return ()
    text = _SIGN.sub("", value).strip().removesuffix("%").strip()
    text = text.removeprefix("-").strip() if (negative := text.startswith("-")) else text
    if _NUMERAL.fullmatch(text) is None:
        return ()
    read = tuple(dict.fromkeys(Decimal(spelled) for spelled in _spellings(re.sub(r"['\u2019 ]", "", text))))
    return tuple(-one for one in read) if negative else read


def _spellings(text: str) -> list[str]:
    """A numeral with a point before its fraction, in each way in which it may be meant."""
    commas, points = text.count(","), text.count(".")
    if commas and points:
        decimal = max(",.", key=text.rfind)
        other = "," if decimal == "." else "."
        return [text.replace(other, "").replace(decimal, ".")] if text.count(decimal) == 1 else []
    mark = "," if commas else "."
    if commas + points == 0:
        return [text]
    if commas + points > 1:
        return [text.replace(mark, "")] if all(len(part) == 3 for part in text.split(mark)[1:]) else []
    grouped = len(text.rpartition(mark)[2]) == 3
    meant = [text.replace(mark, "."), *([text.replace(mark, "")] if grouped else [])]
    return meant if mark == "." or not grouped else list(reversed(meant))


def _same_number(
    asked: Any, shown: Any, numbers: tuple[tuple[Decimal, ...], tuple[Decimal, ...]], notation: Notation
) -> bool | None:
    if notation.minor is not None:
        scale = -(notation.places if notation.places is not None else 2)
        wanted = [one.scaleb(scale) if isinstance(asked, int) else one for one in numbers[0]]
        return _meet(wanted, [one.scaleb(scale) if notation.minor else one for one in numbers[1]])
    signs = [_SIGN.findall(one) if isinstance(one, str) else [] for one in (asked, shown)]
    if all(signs) and signs[0] != signs[1] and len(signs[0][0]) == len(signs[1][0]):
        return False
    if _meet(*numbers):
        return True
    if notation.is_share and any(_meet([one.scaleb(by) for one in numbers[0]], numbers[1]) for by in (2, -2)):
        return None
    if not notation.is_money and not any(signs):
        return False
    if _meet([-one for one in numbers[0]], numbers[1]):
        return None
    scale = notation.places if notation.places is not None else 2
    if not any(_meet([one.scaleb(by) for one in numbers[0]], numbers[1]) for by in (scale, -scale)):
        return False
    # One of the two counts minor units: nobody says which one without a currency.
    return True if notation.places is not None and isinstance(asked, int) is not isinstance(shown, int) else None


def _meet(first: Sequence[Decimal], second: Sequence[Decimal]) -> bool:
    return any(abs(one - other) <= _NEAR for one in first for other in second)


def _same_text(asked: str, shown: str, choices: tuple[Any, ...]) -> bool | None:
    one, other = fold_text(asked), fold_text(shown)
    if one == other:
        return True
    if _ends_with_id(one, other) or _ends_with_id(other, one):
        return True
    folded = {fold_text(each) for each in choices}
    if {one, other} <= folded:
        return False
    if not one or not other or one in other or other in one:
        return None
    if max(len(asked), len(shown)) > LONG or _MASK.search(asked) or _MASK.search(shown):
        return None
    if _PHONE.fullmatch(asked) and _PHONE.fullmatch(shown):
        ends = sorted((re.sub(r"\D", "", asked).lstrip("0"), re.sub(r"\D", "", shown).lstrip("0")), key=len)
        return ends[1].endswith(ends[0])
    if bool(_CODE.fullmatch(asked.strip())) is not bool(_CODE.fullmatch(shown.strip())):
        return None
    if bool(_ID.fullmatch(asked.strip())) is not bool(_ID.fullmatch(shown.strip())):
        return None
    return False


def _ends_with_id(whole: str, end: str) -> bool:
    """Return whether one is the address of the other, as with `orders/w12` and `w12`."""
    return bool(end) and (whole.endswith(f"/{end}") or whole.endswith(f":{end}"))
