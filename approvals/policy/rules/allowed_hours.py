"""Allowed hours: when an approved action may be released.

1. Hours are days of the week and a time of day from and to, in a named time zone; what a clock on the wall there shows
   counts, in summer as in winter. A night shift (from 22:00 to 06:00) belongs to the day on which it begins.
2. Nobody is kept from voting outside the hours: judgement does not depend on them. Nothing is released outside them,
   though, and the time to release runs from the moment when it is first possible. Else whatever is approved in the
   evening would have lapsed by the morning.
3. Several hours at once hold when all of them do.
4. Hours that begin and end at the same minute are refused: nobody can tell whether that is never or always.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from datetime import time as TimeOfDay
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_LOOK_AHEAD = 15


@dataclass(frozen=True, kw_only=True)
class AllowedHours:
    """Days and times of day in one zone; `begin` and `end` are written as "09:30"."""

    days: tuple[str, ...]
    begin: str
    end: str
    zone: str

    def document(self) -> dict[str, Any]:
        """The hours as a policy writes them."""
        return {"days": list(self.days), "from": self.begin, "to": self.end, "zone": self.zone}


def read(document: Mapping[str, Any]) -> AllowedHours:
    """Parse the hours of a document; the default is all seven days in UTC. `ValueError` if they are invalid."""
    days = tuple(day for day in DAYS if day in document.get("days", DAYS))
    found = AllowedHours(days=days, begin=document["from"], end=document["to"], zone=document.get("zone", "UTC"))
    if _clock(found.begin) == _clock(found.end):
        raise ValueError("The hours begin and end at the same time.")
    if not days:
        raise ValueError("The hours name no day.")
    _zone(found.zone)
    return found


def are_open(hours: Iterable[AllowedHours], *, at: datetime) -> bool:
    """Return whether something may be released now: all of the hours hold (rule 3)."""
    return all(_is_open(each, at) for each in hours)


def next_opening(hours: Iterable[AllowedHours], *, at: datetime) -> datetime | None:
    """Return the next moment from `at` on at which a release is allowed; None if there is none within two weeks."""
    wanted = tuple(hours)
    if are_open(wanted, at=at):
        return at
    begins = sorted({begin for each in wanted for begin in _begins(each, at) if begin > at})
    return next((begin for begin in begins if are_open(wanted, at=begin)), None)


def _is_open(hours: AllowedHours, at: datetime) -> bool:
    here = at.astimezone(_zone(hours.zone))
    begin, end, now = _clock(hours.begin), _clock(hours.end), here.time()
    if begin < end:
        return _is_on(hours, here.date()) and begin <= now < end
    return (now >= begin and _is_on(hours, here.date())) or (now < end and _is_on(hours, here.date() - timedelta(1)))


def _begins(hours: AllowedHours, at: datetime) -> list[datetime]:
    """The starts of the hours in the next days, in UTC; a time that the clock skips begins after the gap."""
    zone = _zone(hours.zone)
    today = at.astimezone(zone).date()
    days = [today + timedelta(number) for number in range(-1, _LOOK_AHEAD)]
    moments = [datetime.combine(day, _clock(hours.begin), tzinfo=zone) for day in days if _is_on(hours, day)]
    return [moment.astimezone(UTC) for moment in moments]


def _is_on(hours: AllowedHours, day: date) -> bool:
    return DAYS[day.weekday()] in hours.days


def _clock(text: str) -> TimeOfDay:
    return TimeOfDay.fromisoformat(text)


@lru_cache(maxsize=64)
def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"There is no time zone `{name:.60}`.") from None
