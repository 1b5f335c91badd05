"""The writes about alert rules that their page and the API share."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final
from uuid import UUID

from console.edge.schemas import ReasonBody
from console.metrics import schemas
from console.metrics.alerts import operations
from console.metrics.rules.alerts import AlertTerms
from console.metrics.rules.filters import MetricFilter
from console.verbs.verb import Verb
from ledger.record.operations import Actor

if TYPE_CHECKING:
    from console.models import AlertRule

WRITERS: Final = ("oper", "operator", "administrator")


def _make(
    *,
    tenant_id: UUID,
    metric: str,
    window_h: int,
    tool: str,
    agent: str,
    side_effect_class: str,
    raise_at: int,
    clear_at: int,
    least_cases: int,
    hold_min: int,
    by: Actor,
    at: datetime,
) -> AlertRule:
    terms = AlertTerms(
        metric=metric,
        about=MetricFilter(tool, agent, side_effect_class),
        window_h=window_h,
        raise_at=raise_at,
        clear_at=clear_at,
        least_cases=least_cases,
        hold=timedelta(minutes=hold_min),
    )
    return operations.make_rule(tenant_id=tenant_id, terms=terms, by=by, at=at)


def _change(
    *,
    tenant_id: UUID,
    alert_rule_id: UUID,
    raise_at: int,
    clear_at: int,
    least_cases: int,
    hold_min: int,
    by: Actor,
    at: datetime,
) -> AlertRule:
    return operations.change_rule(
        tenant_id=tenant_id,
        rule_id=alert_rule_id,
        raise_at=raise_at,
        clear_at=clear_at,
        least_cases=least_cases,
        hold=timedelta(minutes=hold_min),
        by=by,
        at=at,
    )


def _end(*, tenant_id: UUID, alert_rule_id: UUID, reason: str, by: Actor, at: datetime) -> AlertRule:
    return operations.end_rule(tenant_id=tenant_id, rule_id=alert_rule_id, reason=reason, by=by, at=at)


MAKE_RULE: Final = Verb(
    name="make_rule",
    path="/alert-rules",
    operation=_make,
    body=schemas.AlertRuleBody,
    roles=WRITERS,
    answer=schemas.AlertRuleShown,
    status=201,
    summary="Create an alert rule for a share",
    done="Alert rule created.",
)
CHANGE_RULE: Final = Verb(
    name="change_rule",
    path="/alert-rules/{alert_rule_id}/change",
    operation=_change,
    body=schemas.ThresholdsBody,
    roles=WRITERS,
    answer=schemas.AlertRuleShown,
    summary="Change the thresholds of an alert rule",
    done="Changed. The new thresholds also apply to an open alert.",
)
END_RULE: Final = Verb(
    name="end_rule",
    path="/alert-rules/{alert_rule_id}/end",
    operation=_end,
    body=ReasonBody,
    roles=WRITERS,
    answer=schemas.AlertRuleShown,
    summary="End an alert rule; its open alert is cleared",
    done="Alert rule ended.",
)
