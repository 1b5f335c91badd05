"""Figures for a monitor, in Prometheus' text form: those of the tenant whose key asks, over the last 24 hours.

They are gauges, counted anew from the record each time, so that no process holds a figure that another one lacks. A
share of nothing is left out: there is no such number.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Router
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from approvals.agents.rules.acceptance import CallTally
from approvals.gate import queries as gate_queries
from console.api.auth import admits, caller_of
from console.api.openapi import response_content
from console.api.transaction import in_tenancy
from console.pages.calls import context
from ledger.actions.queries import actions
from ledger.record.queries import events
from reviews.reporting.rules.success_patterns import PATTERNS

router = Router(tags=["Operations"])
WINDOW: Final = timedelta(hours=24)
_SHARES: Final[dict[str, tuple[str, str]]] = {
    "gate_acceptance_rate": ("acceptance_rate", "M-20: accepted calls of all calls"),
    "valid_call_rate": ("valid_share", "M-22: calls that exist, validate and execute, of all calls"),
    "valid_call_execution_failure_rate": ("failed_share", "M-23: accepted calls whose tool failed, of all calls"),
    "argument_hallucination_rate": ("argument_share", "M-24: calls of a real tool with wrong arguments, of all calls"),
    "phantom_tool_rate": (
        "phantom_share",
        "M-25: calls of a tool that exists nowhere, of all calls; healthy below 0.02",
    ),
}
_COUNTS: Final[dict[str, tuple[str, str]]] = {
    "gate_calls": ("made", "Calls at the gate"),
    "gate_calls_accepted": ("accepted", "Calls that the gate let through"),
    "attempted_undisclosed_calls": ("undisclosed", "M-21: refused calls of a tool that the session was not shown"),
}


@router.get(
    "/metrics",
    summary="Figures of the last 24 hours, in Prometheus' text form",
    openapi_extra=response_content("text/plain"),
    response=str,
)
@admits("oper", "audit")
@in_tenancy
def metrics(request: HttpRequest) -> HttpResponse:
    text = render_metrics(caller_of(request).tenant_id, at=timezone.now())
    return HttpResponse(text, content_type=CONTENT_TYPE_PLAIN_0_0_4)


def render_metrics(tenant_id: UUID, *, at: datetime) -> bytes:
    """Every figure of a tenant."""
    registry = CollectorRegistry()
    tenant = events.tenant_by_id(tenant_id).slug
    _calls(registry, tenant, gate_queries.call_tally(tenant_id, since=at - WINDOW, until=at))
    standing = Gauge(
        "counterfoil_actions", "Actions proposed, by how they stand now", ["tenant", "outcome"], registry=registry
    )
    for outcome, count in actions.count_outcomes(tenant_id, since=at - WINDOW).items():
        standing.labels(tenant, str(outcome)).set(count)
    gauge = Gauge(
        "counterfoil_hallucination_patterns",
        "Patterns of hallucinated success that were met, by code",
        ["tenant", "code", "name"],
        registry=registry,
    )
    for code, times in context.patterns_in_period(tenant_id, since=at - WINDOW, until=at).items():
        gauge.labels(tenant, code, PATTERNS[code]).set(times)
    return generate_latest(registry)


def _calls(registry: CollectorRegistry, tenant: str, tally: CallTally) -> None:
    for name, (figure, told) in (_COUNTS | _SHARES).items():
        value = getattr(tally, figure)
        gauge = Gauge(f"counterfoil_{name}", told, ["tenant"], registry=registry)
        if value is not None:
            gauge.labels(tenant).set(value)
