"""Settings of the installation by role: when a session ends, and which roles need a second factor. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from console.accounts.members.rules import ROLES

EVERYBODY: Final = ""
"""The key of the minutes that hold for whoever has no role with minutes of its own."""


class BadRoleSetting(Exception):
    """A setting by role that cannot be read, in one sentence."""


class SessionEnd(StrEnum):
    """The reason for which a session ended by itself."""

    IDLE = "idle"
    AGE = "age"


def read_idle_minutes(text: str) -> dict[str, int]:
    """Read `60`, or `60 administrator=15 reviewer=30`: minutes for everybody, and for roles of their own."""
    minutes: dict[str, int] = {}
    for word in text.replace(",", " ").split():
        role, _, number = word.rpartition("=")
        if not number.isdecimal() or (role or EVERYBODY) in minutes or (role and role not in ROLES):
            raise BadRoleSetting(f"{word!r} is neither minutes nor one of {_examples('=15')}.")
        minutes[role or EVERYBODY] = int(number)
    return minutes


def read_roles(text: str) -> frozenset[str]:
    """Read `reviewer administrator`, or `all`."""
    words = text.replace(",", " ").split()
    if words == ["all"]:
        return frozenset(ROLES)
    if unknown := [each for each in words if each not in ROLES]:
        raise BadRoleSetting(f"{unknown[0]!r} is neither `all` nor one of {_examples()}.")
    return frozenset(words)


def idle_minutes(minutes: Mapping[str, int], roles: Collection[str]) -> int:
    """The minutes without activity after which a person's session ends, of the strictest of their roles; 0 is never."""
    applying = [minutes.get(role, minutes.get(EVERYBODY, 0)) for role in roles] or [minutes.get(EVERYBODY, 0)]
    return min((each for each in applying if each), default=0)


def session_end(*, began: datetime, active: datetime, at: datetime, idle: int, longest: timedelta) -> SessionEnd | None:
    """The reason for which a session has ended by now; None if it goes on."""
    if at - began >= longest:
        return SessionEnd.AGE
    return SessionEnd.IDLE if idle and at - active >= timedelta(minutes=idle) else None


def end_sentence(end: SessionEnd, after: int) -> str:
    """The sentence for the person; `after` counts minutes for a session without activity, and hours for an old one."""
    if end is SessionEnd.AGE:
        return (
            f"You were signed out because your session was {after} hour{'' if after == 1 else 's'} old. Sign in again."
        )
    return f"You were signed out after {after} minute{'' if after == 1 else 's'} without activity. Sign in again."


def _examples(ending: str = "") -> str:
    return ", ".join(f"{role}{ending}" for role in ROLES)
