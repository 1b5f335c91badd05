"""Delays, stored so that hours can be added up: each rounded to two significant digits and counted.

1. A delay is a whole number of milliseconds, never below zero. It is kept under the value that its first two digits
   give, rounded half up: 2,340 ms stands at 2,300, 47 ms at 47. So a median is at most 5 % from the exact one; the mean
   is exact, since the sum is kept too.
2. The median and the 95th percentile are by nearest rank: the smallest value that is not exceeded by half, and by 95
   of a hundred, of all delays. Without a delay there is none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class DelaySummary:
    """Count, and in milliseconds the mean, the median and the 95th percentile; None without a delay."""

    count: int
    mean_ms: float | None
    median_ms: int | None
    p95_ms: int | None


def round_delay(exact_ms: int) -> int:
    """The value under which a delay is kept (rule 1)."""
    unit = int(10 ** max(len(str(exact_ms)) - 2, 0))
    return (exact_ms + unit // 2) // unit * unit


def summarize_delays(counted: Mapping[int, int], *, total_ms: int) -> DelaySummary:
    """Summarise delays counted by their rounded value; `total_ms` is their exact sum (rule 2)."""
    count = sum(counted.values())
    if not count:
        return DelaySummary(0, None, None, None)
    return DelaySummary(count, total_ms / count, _rank(counted, count, 50), _rank(counted, count, 95))


def _rank(counted: Mapping[int, int], count: int, percent: int) -> int:
    # Rounded up, in whole numbers.
    wanted, reached = -(-count * percent // 100), 0
    for value in sorted(counted):
        reached += counted[value]
        if reached >= wanted:
            return value
    return max(counted)


def distribute(counted: Mapping[int, int], edges: Iterable[int]) -> list[int]:
    """Count the delays up to each edge and above the one before; the last count has all larger ones."""
    bounds = list(edges)
    parts = [0] * (len(bounds) + 1)
    for value, count in counted.items():
        parts[next((place for place, edge in enumerate(bounds) if value <= edge), len(bounds))] += count
    return parts
