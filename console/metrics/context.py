"""The data of the metrics page: figures in words, drawings, and the table of each, from one report."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString, mark_safe

from console.edge.http import TenantRequest
from console.metrics import figures, queries
from console.metrics.drawings import (
    DAYS,
    DrawnBand,
    DrawnPoint,
    draw_bars,
    draw_flow,
    draw_series,
    draw_strip,
    draw_week,
)
from console.metrics.figures import FigurePoint, MetricFigure, MetricReport
from console.metrics.rules.catalogue import MetricGroup, MetricKind
from console.metrics.rules.delays import distribute
from console.metrics.rules.filters import MetricFilter
from console.metrics.rules.periods import NAMED, MetricPeriod, period_named
from console.web.charts import format_percent
from console.web.spreadsheets import spreadsheet_cell

if TYPE_CHECKING:
    from ledger.models import Tenant

_EDGES: Final = (
    ("up to 1 s", 1_000),
    ("up to 5 s", 5_000),
    ("up to 30 s", 30_000),
    ("up to 2 min", 120_000),
    ("up to 15 min", 900_000),
    ("up to 2 h", 7_200_000),
    ("up to a day", 86_400_000),
)
_BEYOND: Final = "longer"
LEAST_POINTS: Final = 3
FEW: Final = 20
"""Under so many cases a share is told as two counts: a percentage would promise more than they bear out."""
BEHIND_AFTER: Final = timedelta(minutes=2)
"""Counts that go up to a moment longer ago say so on Home."""
_BANDS: Final = (
    ("verified_success", "Verified", "true"),
    ("unchanged", "No change needed", "ended"),
    ("ended_failed", "Failed, without an effect", "false"),
    ("ended_reversed", "Compensated or rolled back", "reversed"),
    ("ended_by_word", "Attested or closed by a person", "held"),
    ("unsettled", "Not settled yet", "unknown"),
)
_HEADLINES: Final = ("M-01", "M-10", "M-06", "M-04", "M-17", "M-25")
TABS: Final = (
    ("metrics", "Metrics"),
    ("hallucinations", "Hallucinations"),
    ("quality", "Reviewer quality"),
    ("costs", "Costs"),
)


def metric_tabs(request: TenantRequest, current: str) -> list[dict[str, Any]]:
    """The pages of figures."""
    return [
        {"href": reverse(name, args=[request.tenant.slug]), "word": word, "current": name == current}
        for name, word in TABS
    ]


def period_tabs(path: str, given: Mapping[str, str], chosen: str) -> list[dict[str, Any]]:
    """The periods as links that keep the filters."""
    kept = {name: value for name, value in given.items() if name != "period" and value}
    return [
        {"href": f"{path}?{urlencode(kept | {'period': name})}", "word": words, "current": name == chosen}
        for name, (words, _, _) in NAMED.items()
    ]


def metrics_context(request: TenantRequest, report: MetricReport) -> dict[str, Any]:
    """Return everything on the page that is derived from the report."""
    tenant_id, slug = request.tenant.id, request.tenant.slug
    cards = [_card(slug, each, report) for each in report.figures.values() if each.points and each.has_cases]
    return {
        "counted_to": queries.counted_to(tenant_id),
        "standing": _standing(report),
        "observations": figures.observed_changes(report),
        "regressions": [each for each in report.versions if each.is_regression],
        "headlines": [_headline(slug, report.figures[name], report) for name in _HEADLINES],
        "flow": _flow(slug, report),
        "groups": [
            {
                "name": str(group),
                "key": group.name.lower(),
                "cards": [each for each in own if each["drawing"]],
                "steady": [each for each in own if not each["drawing"]],
            }
            for group in MetricGroup
            if (own := [card for card in cards if card["group"] is group])
        ],
        "empty": [each.metric for each in report.figures.values() if not each.has_cases],
        "delays": [_delay(report.figures[name], report) for name in ("M-03", "M-04")],
        "week": _week(request, report),
        "versions": report.versions,
    }


def _standing(report: MetricReport) -> str:
    """The period in two sentences: what became of what was executed, and which figures are beyond their limit."""
    counts = report.counts
    parts = [f"{counts[name]:,} {words[0].lower()}{words[1:]}" for name, words, _ in _BANDS if counts.get(name)]
    total = counts.get("executed", 0)
    if not total:
        return f"Nothing was executed in the last {report.period.words}."
    beyond = [each for each in report.figures.values() if each.healthy is False]
    worse = "; ".join(f"{each.metric.words.lower()}, {_tell_now(each)}" for each in beyond)
    said = f"{total:,} action{' was' if total == 1 else 's were'} executed in the last {report.period.words}:"
    return f"{said} {', '.join(parts)}." + (f" Beyond its limit: {worse}." if worse else "")


def format_value(figure: MetricFigure, value: float | None) -> str:
    """A value in readable form: a share in percent, a delay as a duration, a count; "none" without a value."""
    if value is None:
        return "none"
    if figure.metric.kind is MetricKind.DELAY:
        return format_duration(value)
    if figure.metric.kind is MetricKind.COUNT:
        return f"{value:,.0f}"
    limit = figure.metric.limit
    if limit is not None and value != limit and format_share(value) == format_share(limit):
        return f"{'above' if value > limit else 'below'} {format_share(limit)}"
    return format_share(value)


def _tell_now(figure: MetricFigure) -> str:
    return _tell(figure, figure.value, figure.part, figure.whole)


def _tell_before(figure: MetricFigure, report: MetricReport) -> str:
    counts, metric = report.earlier, figure.metric
    return _tell(figure, figure.before, counts.get(metric.part, 0), counts.get(metric.whole, 0))


def _tell(figure: MetricFigure, value: float | None, part: int, whole: int) -> str:
    """A value as `format_value`; a share of few cases as the two counts."""
    if figure.metric.kind is MetricKind.SHARE and 0 < whole < FEW:
        return f"{part} of {whole}"
    return format_value(figure, value)


def format_share(value: float | None) -> str:
    """A share in readable form; it is never rounded to zero or to all."""
    if value is not None and 0 < value < 0.0005:
        return "below 0.1 %"
    if value is not None and 0.9995 < value < 1:
        return "above 99.9 %"
    return format_percent(value)


def format_duration(milliseconds: float | None) -> str:
    """Return a delay in the largest unit that is at least one, with two digits."""
    if milliseconds is None:
        return "none"
    for length, unit in ((86_400_000, "days"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")):
        if milliseconds >= length:
            number = milliseconds / length
            return f"{number:.0f} {unit}" if number >= 10 or number == int(number) else f"{number:.1f} {unit}"
    return f"{milliseconds:.0f} ms"


def actions_href(slug: str, count: str, since: datetime, until: datetime, about: MetricFilter) -> str:
    """Return the page of the actions, or calls, that a count consists of."""
    if count in figures.CALLS_OUTCOME:
        wanted = {"outcome": figures.CALLS_OUTCOME[count], "tool": about.tool, "agent": about.agent}
        named = {name: value for name, value in wanted.items() if value}
        return "&".join(filter(None, (f"{_address('calls', slug)}?{_stretch(since, until)}", urlencode(named))))
    narrowed = _filter_query(about)
    start = f"{_address('metric-actions', slug)}?count={count}&{_stretch(since, until)}"
    return f"{start}&{narrowed}" if narrowed else start


# A page has a thousand of such links, over few stretches of time, which are whole hours or days.
@lru_cache(maxsize=1024)
def _stretch(since: datetime, until: datetime) -> str:
    return "&".join(f"{name}={at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" for name, at in (("from", since), ("to", until)))


@lru_cache(maxsize=1024)
def _filter_query(about: MetricFilter) -> str:
    return urlencode(figures.filter_query(about))


@lru_cache(maxsize=1024)
def _format_time(at: datetime, hourly: bool) -> str:
    return at.strftime("%a %d %b, %H:%M UTC" if hourly else "%a %d %b")


@lru_cache(maxsize=1024)
def _address(name: str, slug: str) -> str:
    return reverse(name, args=[slug])


def _count_of(figure: MetricFigure) -> str:
    """Return the count that a figure's link shows: for a delay, the actions read back or executed."""
    return {"verification": "read_back", "reconcile": "executed"}.get(figure.metric.part, figure.metric.part)


def _headline(slug: str, figure: MetricFigure, report: MetricReport) -> dict[str, Any]:
    return {
        "word": figure.metric.words if figure.metric.kind is not MetricKind.DELAY else "Median time to settle",
        "figure": _tell_now(figure),
        "before": _tell_before(figure, report),
        "none": figure.value is None,
        "healthy": figure.healthy,
        "href": actions_href(slug, _count_of(figure), report.period.since, report.period.until, report.about),
        "id": figure.metric.id,
    }


def _card(slug: str, figure: MetricFigure, report: MetricReport) -> dict[str, Any]:
    points = [_draw_point(slug, figure, each, report) for each in figure.points]
    # Two points are no course, and a line along the bottom says less than a number.
    known = [each.value for each in points if each.value is not None]
    moved = len(known) >= LEAST_POINTS and any(known)
    words = (
        f"{figure.metric.words} over the last {report.period.words}: {_tell_now(figure)},"
        f" {_tell_before(figure, report)} in the previous period"
    )
    return {
        "id": figure.metric.id,
        "key": figure.metric.id.lower(),
        "group": figure.metric.group,
        "words": figure.metric.words,
        "detects": figure.metric.detects,
        "formula": figure.metric.formula,
        "value": _tell_now(figure),
        "before": _tell_before(figure, report),
        "cases": _cases(figure),
        "unhealthy": figure.healthy is False,
        "limit": format_share(figure.metric.limit) if figure.metric.limit is not None else "",
        "href": actions_href(slug, _count_of(figure), report.period.since, report.period.until, report.about),
        "drawing": draw_series(points, figure.before_points, words=words, limit=figure.metric.limit) if moved else "",
        "table": _table(figure, points),
        "first": figure.points[0].since,
        "last": figure.points[-1].since,
        "hourly": report.period.step.total_seconds() < 86_400,
    }


def _cases(figure: MetricFigure) -> str:
    kind = figure.metric.kind
    if kind is MetricKind.DELAY:
        return f"{figure.whole:,}"
    return f"{figure.part:,} of {figure.whole:,}" if kind is MetricKind.SHARE and figure.whole >= FEW else ""


def _draw_point(slug: str, figure: MetricFigure, point: FigurePoint, report: MetricReport) -> DrawnPoint:
    when = _format_time(point.since, report.period.step.total_seconds() < 86_400)
    counted = figure.metric.kind is MetricKind.SHARE and point.whole >= FEW
    of = f" ({point.part:,} of {point.whole:,})" if counted else ""
    href = actions_href(slug, _count_of(figure), point.since, point.until, report.about)
    return DrawnPoint(point.value, f"{when}: {_tell(figure, point.value, point.part, point.whole)}{of}", href)


def _table(figure: MetricFigure, points: Sequence[DrawnPoint]) -> SafeString:
    """Return the rows of a drawing's table, rendered here because there are many."""
    cells = (
        (
            drawn.words.rpartition(": ")[0],
            drawn.href,
            _tell(figure, point.value, point.part, point.whole),
            format_value(figure, before),
            f"{point.part:,}" if figure.metric.kind is not MetricKind.DELAY else "",
            f"{point.whole:,}" if figure.metric.whole or figure.metric.kind is MetricKind.DELAY else "",
        )
        for point, drawn, before in zip(figure.points, points, figure.before_points, strict=True)
        if point.value is not None or before is not None
    )
    # Escaped once each and joined as text: `format_html` takes most of the time of a page with so many cells.
    rows = (
        f'<tr><th scope="row">{when}</th><td class="num"><a href="{escape(href)}">{value}</a></td>'
        f'<td class="num">{earlier}</td><td class="num">{part}</td><td class="num">{whole}</td></tr>'
        for when, href, value, earlier, part, whole in cells
    )
    return mark_safe("".join(rows))


def last_day(tenant: Tenant, *, at: datetime) -> dict[str, Any]:
    """The actions executed in the last 24 hours by present outcome, as a strip, how many were over their SLA, and up to
    when they are counted if that is a while ago or never.
    """
    counted_to = queries.counted_to(tenant.id)
    period, about = period_named("day", at=at), MetricFilter()
    counted = queries.count_by(tenant.id, since=period.since, until=period.until, span=period.span, about=about)
    counts = counted.get((), {})
    overdue = counts.get("pending_over_sla", 0)
    href = actions_href(tenant.slug, "pending_over_sla", period.since, period.until, about)
    return _by_outcome(tenant.slug, counts, period, about, draw_strip) | {
        "overdue": overdue,
        "overdue_href": href,
        "counted_to": counted_to,
        "is_behind": counted_to is None or at - counted_to > BEHIND_AFTER,
    }


def _by_outcome(
    slug: str, counts: Mapping[str, int], period: MetricPeriod, about: MetricFilter, draw: Callable[..., SafeString]
) -> dict[str, Any]:
    total = counts.get("executed", 0)
    bands = [
        DrawnBand(
            counts.get(name, 0),
            f"{words}: {counts.get(name, 0):,} of {total:,}",
            family,
            actions_href(slug, name, period.since, period.until, about),
        )
        for name, words, family in _BANDS
    ]
    said = "; ".join(each.words for each in bands if each.count)
    rows = [
        {
            "words": words,
            "family": family,
            "count": f"{counts.get(name, 0):,}" if counts.get(name) else "",
            "share": format_share(counts.get(name, 0) / total) if total >= FEW else "",
            "href": band.href,
        }
        for (name, words, family), band in zip(_BANDS, bands, strict=True)
    ]
    return {
        "total": f"{total:,}" if total else "",
        "href": actions_href(slug, "executed", period.since, period.until, about),
        "drawing": draw(total, bands, words=f"Executed actions by current outcome. {said}"),
        "rows": rows,
    }


def _flow(slug: str, report: MetricReport) -> dict[str, Any]:
    counts = report.counts
    return _by_outcome(slug, counts, report.period, report.about, draw_flow) | {
        "proposed": f"{counts.get('actions', 0):,}",
        "never_ran": f"{counts.get('never_ran', 0):,}",
        "answered": f"{counts.get('answered', 0):,}",
    }


def _delay(figure: MetricFigure, report: MetricReport) -> dict[str, Any]:
    summary = figure.delay
    parts = distribute(figure.lengths or {}, [edge for _, edge in _EDGES])
    named = list(zip([*(name for name, _ in _EDGES), _BEYOND], parts, strict=True))
    assert summary is not None
    said = ", ".join(f"{name}: {count}" for name, count in named if count)
    return {
        "id": figure.metric.id,
        "key": figure.metric.id.lower(),
        "words": figure.metric.words,
        "count": summary.count,
        "mean": format_duration(summary.mean_ms),
        "median": format_duration(summary.median_ms),
        "p95": format_duration(summary.p95_ms),
        "before": format_duration(figure.before),
        "rows": [{"name": name, "count": count} for name, count in named],
        "drawing": draw_bars(named, words=f"{figure.metric.words}: {said}") if summary.count else "",
    }


def _week(request: TenantRequest, report: MetricReport) -> dict[str, Any]:
    hours = figures.week_of_hours(request.tenant.id, report.period, report.about)
    total = sum(count for count, _ in hours.values())
    busiest = max(hours, key=lambda place: (hours[place][0], place)) if hours else None
    said = f"Busiest: {DAYS[busiest[0] - 1]} {busiest[1]:02}:00 UTC with {hours[busiest][0]}" if busiest else ""
    rows = format_html_join(
        "",
        '<tr><th scope="row">{}</th>{}</tr>',
        (
            (
                DAYS[day - 1],
                format_html_join(
                    "", '<td class="num">{}</td>', ((hours.get((day, h), (0, 0))[0] or "",) for h in range(24))
                ),
            )
            for day in range(1, 8)
        ),
    )
    return {
        "total": total,
        "said": said,
        "drawing": draw_week(hours, words=f"Executed actions by weekday and hour. {said}") if total else "",
        "rows": rows,
        "hours": [f"{hour:02}" for hour in range(24)],
        "days": DAYS,
    }


def summary_table(report: MetricReport) -> str:
    """The report as CSV: the whole period of each metric, and then its steps."""
    text = io.StringIO()
    written = csv.writer(text)
    written.writerow(("metric", "name", "from", "to", "value", "part", "whole"))
    for each in report.figures.values():
        whole = FigurePoint(report.period.since, report.period.until, each.value, each.part, each.whole)
        for point in (whole, *each.points):
            value = "" if point.value is None else point.value
            times = (point.since.isoformat(), point.until.isoformat())
            cells = (each.metric.id, each.metric.name, *times, value, point.part, point.whole)
            written.writerow([spreadsheet_cell(cell) for cell in cells])
    return text.getvalue()
