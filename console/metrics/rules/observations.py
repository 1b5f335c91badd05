"""Observations: significant changes from the previous period to this one, as sentences.

1. An observation compares one share over two periods of the same length. It is made only over at least `LEAST_CASES`
   in both, which chance would not bring about (`regression.exceeds_chance`), and where the share has changed by a
   half of itself or by ten points.
2. Where one tool or agent accounts for most of the change, the sentence names it.
3. The worst come first: changes in the direction that deserves a look, the larger first. At most `MOST` are made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from console.metrics.rules.catalogue import METRICS, Metric, MetricKind, value_of
from console.metrics.rules.regression import exceeds_chance, share_rise

MOST: Final = 5
_POINTS, _HALF, _ACCOUNTS_FOR = 0.1, 0.5, 0.6
Counts = Mapping[str, int]


@dataclass(frozen=True)
class Observation:
    """One sentence about one metric; `is_worse`: it deserves attention, `where`: the tool or agent it names."""

    metric: Metric
    sentence: str
    is_worse: bool | None
    change: float
    where: Mapping[str, str]


def observe_changes(
    now: Counts, earlier: Counts, *, parts: Mapping[tuple[str, str], tuple[Counts, Counts]], period: str
) -> list[Observation]:
    """The observations about a period; `parts` are the counts now and before by (kind of slice, its name)."""
    found = [_observe(metric, now, earlier, parts, period) for metric in METRICS if metric.kind is MetricKind.SHARE]
    told = [each for each in found if each is not None]
    return sorted(told, key=lambda each: (not each.is_worse, -abs(each.change)))[:MOST]


def _observe(
    metric: Metric, now: Counts, earlier: Counts, parts: Mapping[tuple[str, str], tuple[Counts, Counts]], period: str
) -> Observation | None:
    rise = share_rise(earlier, now, metric.part, metric.whole)
    before, after = value_of(metric, earlier), value_of(metric, now)
    if rise is None or before is None or after is None or not exceeds_chance(earlier, now, metric.part, metric.whole):
        return None
    if abs(rise) < _POINTS and abs(rise) < _HALF * before:
        return None
    where = _where(metric, rise, now, earlier, parts)
    said = f"{metric.words}: {describe_change(before, after)} in the last {period}"
    said += f", from {format_share(before)} to {format_share(after)}"
    said += f"; {where[1]} accounts for most of it." if where else "."
    worse = None if metric.high_is_bad is None else (rise > 0) == metric.high_is_bad
    return Observation(metric, said, worse, rise, dict([where]) if where else {})


def describe_change(before: float, after: float) -> str:
    """Describe the change of a share in one or two words."""
    if before == 0:
        return "new"
    ratio = after / before
    if ratio >= 1.8:
        return "doubled" if ratio < 2.5 else f"{ratio:.0f} times as often"
    if ratio <= 0.6:
        return "halved" if ratio > 0.4 else "far less often"
    return "more often" if ratio > 1 else "less often"


def format_share(value: float) -> str:
    """A share in percent, with at most one digit behind the point."""
    text = f"{value * 100:.1f}"
    return f"{text.removesuffix('.0')} %"


def _where(
    metric: Metric, rise: float, now: Counts, earlier: Counts, parts: Mapping[tuple[str, str], tuple[Counts, Counts]]
) -> tuple[str, str] | None:
    """Return the slice without which the change would be small, if there is one (rule 2)."""
    sizes = {}
    for key, (after, before) in parts.items():
        if after.get(metric.whole, 0) == now.get(metric.whole, 0):
            # It is the whole, so naming it says nothing.
            continue
        rest = share_rise(_subtract(earlier, before, metric), _subtract(now, after, metric), metric.part, metric.whole)
        if rest is not None and rest / rise < 1 - _ACCOUNTS_FOR:
            sizes[key] = rest / rise
    return min(sizes, key=lambda key: (sizes[key], key)) if sizes else None


def _subtract(whole: Counts, part: Counts, metric: Metric) -> Counts:
    return {name: whole.get(name, 0) - part.get(name, 0) for name in (metric.part, metric.whole)}
