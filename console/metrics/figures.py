"""The figures of a period for page, API and export: with the previous period, the series and the actions behind.

Nothing is told here that a query of the roll-ups did not count; the catalogue says what is divided by what.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from console.metrics import queries
from console.metrics.rules.catalogue import METRICS, Metric, MetricKind, is_healthy, value_of
from console.metrics.rules.delays import DelaySummary, summarize_delays
from console.metrics.rules.filters import MetricFilter
from console.metrics.rules.observations import Observation, observe_changes
from console.metrics.rules.periods import MetricPeriod, fold_steps
from console.metrics.rules.regression import VersionComparison, compare_versions
from ledger.catalogue import queries as catalogue
from ledger.record.rules.envelope import instant

Lengths = dict[int, tuple[int, int]]
StepDelays = dict[str, dict[datetime | None, Lengths]]
_SLICES: Final = ("tool", "agent")


@dataclass(frozen=True)
class FigurePoint:
    """One step of a series; `part` and `whole` are the counts, of a delay how many there were."""

    since: datetime
    until: datetime
    value: float | None
    part: int
    whole: int


@dataclass(frozen=True)
class MetricFigure:
    """One metric over a period. Of a delay `value` is the median in milliseconds, and `delay` the whole summary."""

    metric: Metric
    value: float | None
    before: float | None
    part: int
    whole: int
    points: Sequence[FigurePoint]
    before_points: Sequence[float | None]
    healthy: bool | None
    delay: DelaySummary | None = None
    lengths: Mapping[int, int] | None = None

    @property
    def has_cases(self) -> bool:
        """Return whether the figure had any cases, now or in the period before."""
        return self.value is not None or self.before is not None


@dataclass(frozen=True)
class MetricReport:
    """Every figure of a period, with its counts."""

    period: MetricPeriod
    about: MetricFilter
    figures: Mapping[str, MetricFigure]
    counts: Mapping[str, int]
    earlier: Mapping[str, int]
    versions: Sequence[VersionComparison]
    slices: Mapping[str, Mapping[tuple[bool, str], Mapping[str, int]]]


def metric_report(tenant_id: UUID, period: MetricPeriod, about: MetricFilter) -> MetricReport:
    """The twenty-five figures of a period (R-MT-01 to R-MT-05, R-MT-07, R-MT-09)."""
    both = queries.count_both_periods(
        tenant_id,
        since=period.earlier.since,
        middle=period.since,
        until=period.until,
        span=period.span,
        about=about,
    )
    now = {(start,): counts for start, counts in both["start"].items() if start >= period.since}
    then = {(start,): counts for start, counts in both["start"].items() if start < period.since}
    steps, counts = fold_steps(now, period), _sum_counts(now.values())
    steps_before, earlier = fold_steps(then, period.earlier), _sum_counts(then.values())
    versions = _compare_released(
        tenant_id, {value: found for (later, value), found in both["version"].items() if later}
    )
    figures: dict[str, MetricFigure] = {}
    delays, delays_before = _delays(tenant_id, period, about)
    for metric in METRICS:
        if metric.kind is MetricKind.DELAY:
            figures[metric.id] = _delay_figure(metric, period, delays, delays_before)
        elif metric.kind is MetricKind.DIFFERENCE:
            figures[metric.id] = _difference(metric, versions)
        else:
            figures[metric.id] = _share_figure(metric, period, counts, earlier, steps, steps_before)
    slices = {name: both[name] for name in _SLICES}
    return MetricReport(period, about, figures, counts, earlier, versions, slices)


def observed_changes(report: MetricReport) -> list[Observation]:
    """Return the changes from the period before, in words, with the tool or agent that accounts for each."""
    parts = {}
    for name, found in report.slices.items():
        for key in sorted({value for _, value in found} - {""}):
            parts[name, key] = (found.get((True, key), {}), found.get((False, key), {}))
    return observe_changes(report.counts, report.earlier, parts=parts, period=report.period.words)


def _sum_counts(rows: Iterable[Mapping[str, int]]) -> dict[str, int]:
    whole: dict[str, int] = {}
    for counts in rows:
        for name, value in counts.items():
            whole[name] = whole.get(name, 0) + value
    return whole


def _share_figure(
    metric: Metric,
    period: MetricPeriod,
    counts: Mapping[str, int],
    earlier: Mapping[str, int],
    steps: Mapping[datetime, Mapping[str, int]],
    steps_before: Mapping[datetime, Mapping[str, int]],
) -> MetricFigure:
    value = value_of(metric, counts)
    return MetricFigure(
        metric=metric,
        value=value,
        before=value_of(metric, earlier),
        part=counts.get(metric.part, 0),
        whole=counts.get(metric.whole, 0),
        points=[
            FigurePoint(
                start,
                start + period.step,
                value_of(metric, here),
                here.get(metric.part, 0),
                here.get(metric.whole, 0),
            )
            for start in period.starts()
            for here in [steps.get(start, {})]
        ],
        before_points=[value_of(metric, steps_before.get(start, {})) for start in period.earlier.starts()],
        healthy=is_healthy(metric, value),
    )


def _delays(tenant_id: UUID, period: MetricPeriod, about: MetricFilter) -> tuple[StepDelays, StepDelays]:
    """The delays of a period and the previous one, by kind and step; None represents the whole period."""
    rows = queries.delays_by_step(
        tenant_id,
        since=period.earlier.since,
        until=period.until,
        step=period.step,
        span=period.span,
        about=about,
    )
    now: StepDelays = {}
    before: StepDelays = {}
    for (kind, start), lengths in rows.items():
        steps = (now if start >= period.since else before).setdefault(kind, {})
        steps[start] = lengths
        whole = steps.setdefault(None, {})
        for rounded, (count, total) in lengths.items():
            known = whole.get(rounded, (0, 0))
            whole[rounded] = (known[0] + count, known[1] + total)
    return now, before


def _delay_figure(
    metric: Metric,
    period: MetricPeriod,
    delays: Mapping[str, Mapping[datetime | None, Lengths]],
    delays_before: Mapping[str, Mapping[datetime | None, Lengths]],
) -> MetricFigure:
    now, before = delays.get(metric.part, {}), delays_before.get(metric.part, {})
    whole = _summary(now.get(None))
    steps = [(start, _summary(now.get(start))) for start in period.starts()]
    return MetricFigure(
        metric=metric,
        value=whole.median_ms,
        before=_summary(before.get(None)).median_ms,
        part=whole.count,
        whole=whole.count,
        points=[
            FigurePoint(start, start + period.step, found.median_ms, found.count, found.count) for start, found in steps
        ],
        before_points=[_summary(before.get(start)).median_ms for start in period.earlier.starts()],
        healthy=None,
        delay=whole,
        lengths={rounded: count for rounded, (count, _) in now.get(None, {}).items()},
    )


def _summary(lengths: Lengths | None) -> DelaySummary:
    known = lengths or {}
    counted = {rounded: count for rounded, (count, _) in known.items()}
    return summarize_delays(counted, total_ms=sum(total for _, total in known.values()))


def version_comparisons(tenant_id: UUID, period: MetricPeriod, about: MetricFilter) -> list[VersionComparison]:
    """Each version of the verification policy that judged in a period, compared with the previous one."""
    rows = queries.count_by(tenant_id, "version", since=period.since, until=period.until, span=period.span, about=about)
    return _compare_released(tenant_id, {version: counts for (version,), counts in rows.items()})


def _compare_released(tenant_id: UUID, judged: Mapping[str, Mapping[str, int]]) -> list[VersionComparison]:
    released = catalogue.policy_versions_by_digest(tenant_id, "verification").values()
    return compare_versions([(version, judged[version]) for version in dict.fromkeys(released) if version in judged])


def _difference(metric: Metric, versions: Sequence[VersionComparison]) -> MetricFigure:
    last = versions[-1] if versions else None
    return MetricFigure(
        metric=metric,
        value=last.value if last else None,
        before=versions[-2].value if len(versions) > 1 else None,
        part=last.cases if last else 0,
        whole=last.cases if last else 0,
        points=(),
        before_points=(),
        healthy=not last.is_regression if last else None,
    )


def query_behind(count: str, since: datetime, until: datetime, about: MetricFilter) -> dict[str, Any]:
    """Return the query of the actions that a count over a time range consists of; links and API use the same one."""
    return {"count": count, "from": instant(since), "to": instant(until), **filter_query(about)}


def filter_query(about: MetricFilter) -> dict[str, str]:
    """The part of a query that selects the figures."""
    return {"class" if name == "side_effect_class" else name: value for name, value in about.columns().items()}


def week_of_hours(tenant_id: UUID, period: MetricPeriod, about: MetricFilter) -> dict[tuple[int, int], tuple[int, int]]:
    """By weekday and hour: executed actions, and those of them that were not verified."""
    since = min(period.since, period.until - timedelta(days=28))
    found = queries.count_by_hour_of_week(
        tenant_id, "executed", "verified_success", since=since, until=period.until, about=about
    )
    return {place: (executed, executed - verified) for place, (executed, verified) in found.items()}


CALLS_OUTCOME: Final = {
    "calls": "",
    "calls_accepted": "accepted",
    "calls_undisclosed": "undisclosed",
    "calls_valid": "accepted",
    "calls_failed": "failed",
    "calls_arguments": "argument",
    "calls_phantom": "phantom",
}
"""The counts of calls, and the outcome by which the list of calls finds them."""
