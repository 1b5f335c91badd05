"""M-19: whether a version of the verification policy finds more failures than the one before it (R-MT-07, C-49).

1. Compared are consecutive versions, in the order in which they were released, each over the actions that it judged in
   the period. The rise is the rate of the newer one less that of the older; M-19 is the larger rise of M-02 and M-06.
2. A rate of nothing has no rise.
3. It is called a regression only where both versions judged at least `LEAST_CASES` actions and chance would bring such
   a rise about less than once in two hundred times (two shares with a common variance, one-sided).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from typing import Final

LEAST_CASES: Final = 30
BEYOND_CHANCE: Final = 2.58
_COMPARED: Final = (("verification_failed", "executed"), ("mismatched", "read_back"))


@dataclass(frozen=True)
class VersionComparison:
    """One version compared with the previous one; a rise is in shares (0.1 is ten in a hundred more)."""

    version: str
    previous: str
    failure_rise: float | None
    discrepancy_rise: float | None
    cases: int
    is_regression: bool

    @property
    def value(self) -> float | None:
        """M-19 of this step."""
        return max((each for each in (self.failure_rise, self.discrepancy_rise) if each is not None), default=None)


def compare_versions(judged: Sequence[tuple[str, Mapping[str, int]]]) -> list[VersionComparison]:
    """Compare every version that judged something with the previous one, oldest first."""
    known = [(version, counts) for version, counts in judged if counts.get("executed")]
    return [_compare(old, new) for old, new in pairwise(known)]


def _compare(old: tuple[str, Mapping[str, int]], new: tuple[str, Mapping[str, int]]) -> VersionComparison:
    rises = [share_rise(old[1], new[1], part, whole) for part, whole in _COMPARED]
    return VersionComparison(
        version=new[0],
        previous=old[0],
        failure_rise=rises[0],
        discrepancy_rise=rises[1],
        cases=new[1]["executed"],
        is_regression=any(
            exceeds_chance(old[1], new[1], part, whole) and (rise or 0) > 0
            for (part, whole), rise in zip(_COMPARED, rises, strict=True)
        ),
    )


def share_rise(old: Mapping[str, int], new: Mapping[str, int], part: str, whole: str) -> float | None:
    """The rise of a share in `new`; None if either has no cases (rule 2)."""
    if not old.get(whole) or not new.get(whole):
        return None
    return new.get(part, 0) / new[whole] - old.get(part, 0) / old[whole]


def exceeds_chance(
    old: Mapping[str, int], new: Mapping[str, int], part: str, whole: str, *, bound: float = BEYOND_CHANCE
) -> bool:
    """Return whether two shares differ by more than chance explains, over enough cases (rule 3);
    `bound` is in spreads.
    """
    first, second = old.get(whole, 0), new.get(whole, 0)
    if min(first, second) < LEAST_CASES:
        return False
    common = (old.get(part, 0) + new.get(part, 0)) / (first + second)
    spread = sqrt(common * (1 - common) * (1 / first + 1 / second))
    apart = abs(new.get(part, 0) / second - old.get(part, 0) / first)
    return apart > bound * spread
