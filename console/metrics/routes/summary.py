"""The metrics of a period over HTTP: every figure with the period before and its series, as JSON and as a table."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Literal
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Query, Router, Schema
from pydantic import Field

from console.edge import paging
from console.edge.auth import admits, caller_of
from console.edge.openapi import response_content
from console.edge.schemas import EARLIEST, Answer, Body, Moment, Page, Time
from console.edge.transaction import in_tenancy
from console.metrics import figures, queries
from console.metrics.context import summary_table
from console.metrics.figures import MetricFigure, MetricReport
from console.metrics.rules.catalogue import Metric
from console.metrics.rules.facts import OF_ACTIONS
from console.metrics.rules.filters import MetricFilter
from console.metrics.rules.periods import DAY, HOUR, MOST_STEPS, MetricPeriod, period_between
from ledger.actions.queries import actions
from ledger.record.rules.refusals import NotFound, Refused
from reviews.reporting.operations import reports

router = Router(tags=["Operations"])
READERS = ("oper", "audit", "person")
PERIOD = timedelta(days=7)
_STEPS = {"hour": HOUR, "day": DAY}
_Name = Annotated[str, Field(max_length=200)]


class PeriodTooLong(Refused):
    """The period has more steps than can be answered at once."""

    code = "PERIOD_TOO_LONG"
    status = 422


class FigureFilter(Schema):
    """Which actions and calls; what is left out narrows nothing."""

    tool: _Name = ""
    agent: _Name = ""
    side_effect_class: Annotated[str, Field(alias="class", max_length=32)] = ""
    version: Annotated[str, Field(max_length=64, description="Version of the verification policy.")] = ""

    def as_filter(self) -> MetricFilter:
        return MetricFilter(self.tool, self.agent, self.side_effect_class, self.version)


class FiguresWanted(FigureFilter):
    since: Annotated[Moment | None, Field(alias="from")] = None
    until: Annotated[Moment | None, Field(alias="to")] = None
    step: Literal["hour", "day"] = "day"


class ActionsBehind(FigureFilter):
    count: Literal[OF_ACTIONS]  # type: ignore[valid-type]
    since: Annotated[Moment, Field(alias="from")]
    until: Annotated[Moment, Field(alias="to")]
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    cursor: Annotated[str, Field(max_length=200)] = ""


class SeriesPoint(Answer):
    since: Time = Field(alias="from")
    until: Time = Field(alias="to")
    value: float | None
    part: int
    whole: int
    actions: str | None = Field(
        description="The address of the actions that `part` counts; null where it counts calls."
    )


class DelayFigures(Answer):
    count: int
    mean_ms: float | None
    median_ms: int | None
    p95_ms: int | None


class Figure(Answer):
    id: str
    name: str
    words: str
    detects: str
    formula: str
    kind: str = Field(description="share, count, delay (milliseconds; the value is the median) or difference.")
    value: float | None = Field(description="Null if there are no cases.")
    before: float | None = Field(description="The same over the previous period.")
    part: int
    whole: int
    limit: float | None = Field(description="The healthy limit, if there is one.")
    healthy: bool | None
    delay: DelayFigures | None
    points: list[SeriesPoint]
    actions: str | None


class VersionStep(Answer):
    version: str
    previous: str
    failure_rise: float | None = Field(description="Rise of M-02, as a share.")
    discrepancy_rise: float | None = Field(description="Rise of M-06, as a share.")
    cases: int
    is_regression: bool = Field(description="Statistically significant, over thirty actions or more of each version.")


class MetricSummary(Answer):
    since: Time = Field(alias="from")
    until: Time = Field(alias="to")
    counted_to: Time | None = Field(description="Everything recorded up to this time is counted.")
    counts: dict[str, int]
    figures: list[Figure]
    verification_versions: list[VersionStep]


class ActionBehind(Answer):
    action_id: UUID
    tool: str
    agent: str
    side_effect_class: str = Field(alias="class")
    state: str
    proposed_at: Time


class FalseSuccessBody(Body):
    told: Annotated[str, Field(min_length=1, max_length=2000, description="Where it was reported, and in which words.")]
    reason: Annotated[str, Field(min_length=1, max_length=2000)]


class FalseSuccessFiled(Answer):
    action_id: UUID
    filed: bool


@router.get(
    "/metrics/summary",
    summary="All metrics of a period, compared with the previous one",
    response=MetricSummary,
    by_alias=True,
)
@admits(*READERS)
@in_tenancy
def get_summary(request: HttpRequest, wanted: Query[FiguresWanted]) -> MetricSummary:
    tenant_id = caller_of(request).tenant_id
    report = figures.metric_report(tenant_id, _period(wanted, at=timezone.now()), wanted.as_filter())
    return MetricSummary.of(
        report.period,
        counted_to=queries.counted_to(tenant_id),
        counts=dict(report.counts),
        figures=[_figure(each, report) for each in report.figures.values()],
        verification_versions=[VersionStep.of(each) for each in report.versions],
    )


@router.get(
    "/metrics/summary.csv",
    summary="The metrics as CSV, one line per metric and step",
    openapi_extra=response_content("text/csv"),
    response=str,
)
@admits(*READERS)
@in_tenancy
def export_summary(request: HttpRequest, wanted: Query[FiguresWanted]) -> HttpResponse:
    period = _period(wanted, at=timezone.now())
    report = figures.metric_report(caller_of(request).tenant_id, period, wanted.as_filter())
    answer = HttpResponse(summary_table(report), content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = 'attachment; filename="metrics.csv"'
    return answer


@router.get("/metrics/actions", summary="The actions behind a count", response=Page[ActionBehind], by_alias=True)
@admits(*READERS)
@in_tenancy
def list_actions_behind(request: HttpRequest, wanted: Query[ActionsBehind]) -> Page[ActionBehind]:
    tenant_id = caller_of(request).tenant_id
    ids = queries.actions_behind(
        tenant_id,
        wanted.count,
        since=wanted.since,
        until=wanted.until,
        about=wanted.as_filter(),
        before=paging.decode_cursor(wanted.cursor),
        limit=wanted.limit + 1,
    )
    rows = actions.actions_by_id(tenant_id, ids)
    found = [rows[each] for each in ids if each in rows]
    return paging.page_of(lambda row: ActionBehind.of(row, action_id=row.id), found, wanted.limit)


@router.post(
    "/actions/{action_id}/false-success",
    summary="Report a false success",
    response={201: FalseSuccessFiled},
)
@admits("oper", "operator")
@in_tenancy
def file_false_success(request: HttpRequest, action_id: UUID, body: FalseSuccessBody) -> FalseSuccessFiled:
    caller = caller_of(request)
    if actions.action(caller.tenant_id, action_id) is None:
        raise NotFound
    reports.record_false_success(
        tenant_id=caller.tenant_id,
        action_id=action_id,
        told=body.told,
        reason=body.reason,
        by=caller.actor,
        at=timezone.now(),
    )
    return FalseSuccessFiled(action_id=action_id, filed=True)


def _period(wanted: FiguresWanted, *, at: datetime) -> MetricPeriod:
    return checked_period(wanted.since, wanted.until, step=_STEPS[wanted.step], length=PERIOD, at=at)


def checked_period(
    since: datetime | None, until: datetime | None, *, step: timedelta, length: timedelta, at: datetime
) -> MetricPeriod:
    """The period that was asked for, of this length and until now where nothing is said; `PeriodTooLong`."""
    until = until or at
    period = period_between(since or max(until - length, EARLIEST), until, step=step)
    if (period.until - period.since) / period.step > MOST_STEPS:
        raise PeriodTooLong(f"At most {MOST_STEPS} steps; ask for fewer days, or for steps of a day.")
    if period.since - (period.until - period.since) < EARLIEST:
        raise PeriodTooLong("The previous period would begin too early.")
    return period


def _figure(figure: MetricFigure, report: MetricReport) -> Figure:
    metric = figure.metric
    return Figure(
        id=metric.id,
        name=metric.name,
        words=metric.words,
        detects=metric.detects,
        formula=metric.formula,
        kind=str(metric.kind),
        value=figure.value,
        before=figure.before,
        part=figure.part,
        whole=figure.whole,
        limit=metric.limit,
        healthy=figure.healthy,
        delay=DelayFigures.of(figure.delay) if figure.delay else None,
        points=[
            SeriesPoint.of(each, actions=_address(metric, each.since, each.until, report)) for each in figure.points
        ],
        actions=_address(metric, report.period.since, report.period.until, report),
    )


def _address(metric: Metric, since: datetime, until: datetime, report: MetricReport) -> str | None:
    if metric.part not in OF_ACTIONS:
        return None
    query = figures.query_behind(metric.part, since, until, report.about)
    return f"/api/v1/metrics/actions?{urlencode(query)}"
