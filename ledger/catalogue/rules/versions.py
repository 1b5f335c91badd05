"""Chooses which version of a tool's contract is used.

1. Where an agent's registration names a version (`1.4.0`) or a range (`1.x`, `1.4.x`, `*`), the newest one in force
   that it covers. Only so does a weaker version reach an agent.
2. Where it names none, the versions are followed from the first on, and a version that is weaker than the one reached
   so far is passed over. One that is as strong again is followed again, and so is one that was released: its gates are
   passed, its difference is signed, and two people put it in force for everybody.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ledger.catalogue.rules.contract import Contract
from ledger.catalogue.rules.weakenings import weakenings
from ledger.record.rules.refusals import Refused

_RANGE = re.compile(r"\*|[0-9A-Za-z][0-9A-Za-z.+-]{0,63}")


class BadRange(Refused):
    """A version or a range is like 1.4.0, 1.4.x, 1.x or *."""

    code = "BAD_RANGE"
    status = 422


@dataclass(frozen=True)
class ActiveVersion:
    """A version in force: the version it was compared with, whether it was weaker, and whether it came by release."""

    version: str
    compared_with: str
    is_weaker: bool
    contract: Callable[[], Contract]
    is_released: bool = False


def check_range(wanted: str) -> None:
    """Refuse a text that is neither a version nor a range."""
    if not _RANGE.fullmatch(wanted):
        raise BadRange


def covers(wanted: str, version: str) -> bool:
    """Return whether a version is the named one or in the range."""
    if wanted.endswith(".x"):
        return version.startswith(wanted[:-1])
    return wanted in ("*", version)


def choose_version(steps: Sequence[ActiveVersion], wanted: str) -> int | None:
    """The index of the used version among those in force, oldest first; None if there is none."""
    if wanted:
        return next((place for place in reversed(range(len(steps))) if covers(wanted, steps[place].version)), None)
    reached: int | None = None
    for place, step in enumerate(steps):
        if reached is None or _follows(steps[reached], step):
            reached = place
    return reached


def _follows(reached: ActiveVersion, step: ActiveVersion) -> bool:
    if step.is_released:
        return True
    if step.compared_with in ("", reached.version):
        return not step.is_weaker
    return not weakenings(reached.contract(), step.contract())
