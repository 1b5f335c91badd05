"""Alert rules and alerts over the metrics, for programs and for people."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self
from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router
from pydantic import Field

from console.edge import paging
from console.edge.auth import admits, caller_of
from console.edge.schemas import Answer, Body, Page, Paged, ReasonBody, TextOrNull, Time
from console.edge.transaction import in_tenancy
from console.metrics import queries
from console.metrics.alerts import operations as alerts
from console.metrics.rules.alerts import ALL, SHARES, AlertTerms, describe_rule
from console.metrics.rules.filters import MetricFilter

if TYPE_CHECKING:
    from console.models import AlertRule

router = Router(tags=["Operations"])
WRITERS = ("oper", "operator", "administrator")
READERS = ("oper", "audit", "person")
Threshold = Annotated[int, Field(ge=0, le=ALL, description="In hundredths of a percent: 1000 is 10 %.")]


class ThresholdsBody(Body):
    raise_at: Threshold
    clear_at: Threshold
    least_cases: Annotated[int, Field(ge=1, le=1_000_000, description="With fewer cases, the rule does not fire.")] = 30
    hold_min: Annotated[
        int, Field(ge=0, le=10_080, description="Minutes for which the threshold must be exceeded.")
    ] = 15

    def thresholds(self) -> dict[str, Any]:
        return {
            "raise_at": self.raise_at,
            "clear_at": self.clear_at,
            "least_cases": self.least_cases,
            "hold": timedelta(minutes=self.hold_min),
        }


class AlertRuleBody(ThresholdsBody):
    metric: Literal[tuple(each.id for each in SHARES)]  # type: ignore[valid-type]
    window_h: Literal[1, 6, 24, 168] = 24
    tool: Annotated[str, Field(max_length=200)] = ""
    agent: Annotated[str, Field(max_length=128)] = ""
    side_effect_class: Annotated[str, Field(max_length=32)] = ""

    def terms(self) -> AlertTerms:
        about = MetricFilter(self.tool, self.agent, self.side_effect_class)
        return AlertTerms(metric=self.metric, about=about, window_h=self.window_h, **self.thresholds())


class AlertRuleShown(Answer):
    """A share that is watched."""

    alert_rule_id: UUID = Field(validation_alias="id")
    metric: str
    tool: TextOrNull
    agent: TextOrNull
    side_effect_class: TextOrNull = Field(description="The side-effect class.")
    window_h: int
    raise_at: int = Field(description="In hundredths of a percent.")
    clear_at: int = Field(description="In hundredths of a percent.")
    least_cases: int
    hold_min: int
    said: str = Field(description="The rule as one sentence.")
    made_at: Time
    ended_at: Time | None

    @classmethod
    def of(cls, row: AlertRule, /, **more: Any) -> Self:
        return super().of(row, said=describe_rule(alerts.terms_of(row)), **more)


class AlertShown(Answer):
    """What people were told, and of its end."""

    alert_id: UUID = Field(validation_alias="id")
    alert_rule_id: UUID | None = Field(validation_alias="rule_id", description="Null for a regression.")
    about: TextOrNull = Field(description='For a regression: "verification", or "contract" and its name.')
    version: TextOrNull
    previous: TextOrNull
    said: str
    raised_at: Time
    cleared_said: TextOrNull
    cleared_at: Time | None


class AlertsWanted(Paged):
    open: bool | None = Field(None, description="Default: open and cleared alerts.")


@router.post("/alert-rules", summary="Create an alert rule for a share", response={201: AlertRuleShown})
@admits(*WRITERS)
@in_tenancy
def make_rule(request: HttpRequest, body: AlertRuleBody) -> AlertRuleShown:
    caller = caller_of(request)
    return AlertRuleShown.of(
        alerts.make_rule(tenant_id=caller.tenant_id, terms=body.terms(), by=caller.actor, at=timezone.now())
    )


@router.get("/alert-rules", summary="Alert rules", response=Page[AlertRuleShown])
@admits(*READERS)
@in_tenancy
def list_rules(request: HttpRequest, wanted: Query[Paged]) -> Page[AlertRuleShown]:
    return paging.page_of_whole_list(AlertRuleShown.of, queries.alert_rules(caller_of(request).tenant_id), wanted)


@router.post(
    "/alert-rules/{alert_rule_id}/change",
    summary="Change the thresholds of an alert rule",
    response=AlertRuleShown,
)
@admits(*WRITERS)
@in_tenancy
def change_rule(request: HttpRequest, alert_rule_id: UUID, body: ThresholdsBody) -> AlertRuleShown:
    caller = caller_of(request)
    row = alerts.change_rule(
        tenant_id=caller.tenant_id, rule_id=alert_rule_id, by=caller.actor, at=timezone.now(), **body.thresholds()
    )
    return AlertRuleShown.of(row)


@router.post(
    "/alert-rules/{alert_rule_id}/end",
    summary="End an alert rule; its open alert is cleared",
    response=AlertRuleShown,
)
@admits(*WRITERS)
@in_tenancy
def end_rule(request: HttpRequest, alert_rule_id: UUID, body: ReasonBody) -> AlertRuleShown:
    caller = caller_of(request)
    row = alerts.end_rule(
        tenant_id=caller.tenant_id, rule_id=alert_rule_id, reason=body.reason, by=caller.actor, at=timezone.now()
    )
    return AlertRuleShown.of(row)


@router.get("/alerts", summary="Metric alerts, newest first", response=Page[AlertShown])
@admits(*READERS)
@in_tenancy
def list_alerts(request: HttpRequest, wanted: Query[AlertsWanted]) -> Page[AlertShown]:
    before = paging.decode_cursor(wanted.cursor)
    found = queries.alerts(caller_of(request).tenant_id, is_open=wanted.open, before=before, limit=wanted.limit + 1)
    return paging.page_of(AlertShown.of, found, wanted.limit)
