"""Acceptance of an agent's calls at the gate, and the flags that follow from it (R-TG-05 to R-TG-07, R-MC-14, R-MC-15).

1. Every call is in one measuring class. `valid` and `valid_execution_failed` passed the gate; the tool of the second
   then failed. `argument_hallucination` named a real tool wrongly, `phantom` a tool that exists nowhere;
   `gate_rejection` is every other refusal, an undisclosed tool among them (R-MC-14, C-30, C-36).
2. A rate is a share of all calls of its period; without a call there is none, and that is no zero. A call that a freeze
   held back counts in none: it says nothing about the agent.
3. The phantom share is healthy below 2 % (`HEALTHY_PHANTOMS`, M-25). It counts phantom calls and nothing else: a few
   malformed calls in a hundred are usual (C-37).
4. Flags: PHANTOM_SHARE at 2 % or more, LOW_ACCEPTANCE below the tenant's floor, both only over enough calls; PROBING
   when one session tried many different tools that it was refused (R-TG-07, R-TG-11).
5. A flag stands until the numbers are healthy again over enough calls, or there has been no call in the whole window,
   or another version of the agent has taken its place. Too few calls neither raise nor clear it. Probing is over when
   no session in the window shows it.
6. An attempted undisclosed call is a refused call of a name that the session was not shown, whether such a tool exists
   or not (R-TG-05, M-21): a phantom is one as well, and is counted in its own share besides (C-30).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from enum import StrEnum
from typing import Any

UNDISCLOSED_NAMES = ("PHANTOM_TOOL", "UNDISCLOSED_TOOL")
"""The codes of refused calls of names that a session was not shown (rule 6)."""
HELD_BACK = ("TARGET_FROZEN",)
"""The codes of refused calls that count in no rate (rule 2)."""

HEALTHY_PHANTOMS = 0.02
CHECKLIST = (
    ("Tools loaded", "Are the tools that the agent needs among those that its sessions disclose, and not many more?"),
    ("Renames", "Was a tool renamed or taken away that the agent's instructions still name?"),
    ("Model tier", "Does a weaker model run behind the agent than its tools were written for?"),
)
"""What to look at when the phantom share is not healthy."""


class Flag(StrEnum):
    """The reason why an agent is flagged."""

    PHANTOM_SHARE = "PHANTOM_SHARE"
    LOW_ACCEPTANCE = "LOW_ACCEPTANCE"
    PROBING = "PROBING"


@dataclass(frozen=True)
class FlagThresholds:
    """The thresholds at which a tenant flags an agent: percent, calls, different names, hours."""

    acceptance_floor_pct: int = 80
    least_calls: int = 50
    probing_names: int = 10
    window_h: int = 24

    @property
    def window(self) -> timedelta:
        """The period over which calls are considered."""
        return timedelta(hours=self.window_h)


@dataclass(frozen=True)
class CallTally:
    """The calls made, by kind; `failed` are accepted ones whose tool then failed. `undisclosed` includes `phantom`."""

    made: int = 0
    accepted: int = 0
    phantom: int = 0
    argument: int = 0
    undisclosed: int = 0
    failed: int = 0

    def __add__(self, other: CallTally) -> CallTally:
        return CallTally(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    @property
    def acceptance_rate(self) -> float | None:
        """M-20."""
        return share(self.accepted, self.made)

    @property
    def phantom_share(self) -> float | None:
        """M-25."""
        return share(self.phantom, self.made)

    @property
    def argument_share(self) -> float | None:
        """M-24."""
        return share(self.argument, self.made)

    @property
    def failed_share(self) -> float | None:
        """M-23."""
        return share(self.failed, self.made)

    @property
    def valid_share(self) -> float | None:
        """M-22: the calls that passed and whose tool did not fail."""
        return share(self.accepted - self.failed, self.made)

    @property
    def refused(self) -> int:
        """Calls that the gate did not let through."""
        return self.made - self.accepted

    @property
    def healthy(self) -> bool | None:
        """Return True if the phantom share is below the limit; None if there is no share."""
        return None if self.phantom_share is None else self.phantom_share < HEALTHY_PHANTOMS


def share(part: int, whole: int) -> float | None:
    """A share of the whole, or None if the whole is zero (rule 2)."""
    return part / whole if whole else None


def flag_thresholds(watch: Mapping[str, Any]) -> FlagThresholds:
    """Return the limits in an autonomy policy; defaults apply to omitted ones."""
    return FlagThresholds(**{each.name: int(watch.get(each.name, each.default)) for each in fields(FlagThresholds)})


def current_flags(
    tally: CallTally, *, names: int, standing: Mapping[str, Any], version: str, limits: FlagThresholds
) -> dict[Flag, dict[str, Any]]:
    """The flags that an agent has now, each with its numbers (rules 4 and 5).

    `names` is the largest number of different refused tools that one session of the window tried; `standing` are the
    flags so far.
    """
    kept = {flag for flag, facts in standing.items() if facts.get("version") == version and tally.made}
    enough = tally.made >= limits.least_calls
    raised = {
        Flag.PHANTOM_SHARE: not tally.healthy if enough else Flag.PHANTOM_SHARE in kept,
        Flag.LOW_ACCEPTANCE: _low(tally, limits) if enough else Flag.LOW_ACCEPTANCE in kept,
        Flag.PROBING: names >= limits.probing_names,
    }
    facts = {
        Flag.PHANTOM_SHARE: {"phantom": tally.phantom, "calls": tally.made},
        Flag.LOW_ACCEPTANCE: {"accepted": tally.accepted, "calls": tally.made, "floor": limits.acceptance_floor_pct},
        Flag.PROBING: {"names": names, "limit": limits.probing_names},
    }
    return {flag: facts[flag] | {"version": version} for flag, is_raised in raised.items() if is_raised}


def _low(tally: CallTally, limits: FlagThresholds) -> bool:
    # Whole numbers: 80 of 100 is not below a floor of 80 %.
    return tally.accepted * 100 < limits.acceptance_floor_pct * tally.made


def disclosure_band(disclosed: int) -> tuple[int, int | None]:
    """Return the band of a number of disclosed tools as (from, to); `to` is None for the last band."""
    return next((low, high) for low, high in BANDS if high is None or disclosed <= high)


BANDS: tuple[tuple[int, int | None], ...] = ((0, 5), (6, 10), (11, 20), (21, 30), (31, None))


def sum_tallies(tallies: Iterable[CallTally]) -> CallTally:
    """The sum of these tallies."""
    return sum(tallies, CallTally())
