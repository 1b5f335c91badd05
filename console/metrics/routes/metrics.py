"""Figures for a monitor, in Prometheus' text form: those of the tenant whose key asks, over the last 24 hours.

They are gauges, read from the roll-ups, so that no process holds a figure that another one lacks. A share of nothing is
left out: there is no such number. A series without `tool` and `side_effect_class` is about all of them; besides there
is one for each of the `MOST_TOOLS` busiest tools, none for tools that do not exist.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Router
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from console.calls import context
from console.edge.auth import admits, caller_of
from console.edge.openapi import response_content
from console.edge.transaction import in_tenancy
from console.metrics import figures, queries
from console.metrics.rules.catalogue import METRICS, MetricKind, value_of
from console.metrics.rules.delays import DelaySummary, summarize_delays
from console.metrics.rules.filters import EVERYTHING
from console.metrics.rules.periods import MetricPeriod, period_named
from ledger.actions.queries import actions
from ledger.record.queries import events
from reviews.reporting.rules.success_patterns import PATTERNS

router = Router(tags=["Operations"])
WINDOW: Final = timedelta(hours=24)
MOST_TOOLS: Final = 100
LABELS: Final = ("tenant", "tool", "side_effect_class")
WHOLES: Final = {
    "proposed_actions": ("actions", "Actions proposed: what M-18 is of"),
    "executed_actions": ("executed", "Actions that were started and may change something: what most shares are of"),
    "read_back_actions": ("read_back", "Executed actions with a decisive reading: what M-06 is of"),
    "pending_actions": ("pending", "Executed actions that were pending: what M-09 is of"),
    "repeats": ("repeats", "Further starts, and calls refused as repeats of what is open: what M-12 is of"),
    "compensations": ("compensations", "Actions whose compensation was begun: what M-14 and M-15 are of"),
    "gate_calls": ("calls", "Calls at the gate: what M-20 and M-22 to M-25 are of"),
    "gate_calls_accepted": ("calls_accepted", "Calls that the gate let through"),
}
"""The counts that shares are of, so that a rule can ask for enough cases."""
Key = tuple[str, str]
WHOLE: Final[Key] = ("", "")


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
    _catalogue(registry, tenant_id, tenant, period_named("day", at=at))
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
    counted_to = queries.counted_to(tenant_id)
    if counted_to is not None:
        reached = Gauge(
            "counterfoil_counted_to_timestamp_seconds",
            "Everything recorded up to this time is in these figures",
            ["tenant"],
            registry=registry,
        )
        reached.labels(tenant).set(counted_to.timestamp())
    return generate_latest(registry)


def _catalogue(registry: CollectorRegistry, tenant_id: UUID, tenant: str, period: MetricPeriod) -> None:
    """Return the twenty-five metrics, and the counts that their shares refer to, for all tools and for each."""
    counts = _counts_by_tool(tenant_id, period)

    def publish(name: str, words: str, values: Mapping[Key, float | None]) -> None:
        gauge = Gauge(f"counterfoil_{name}", words, LABELS, registry=registry)
        for key, value in values.items():
            if value is not None:
                gauge.labels(tenant, *key).set(value)

    for name, (count, words) in WHOLES.items():
        publish(name, words, {key: found.get(count, 0) for key, found in counts.items()})
    delays = _delays_by_tool(tenant_id, period, counts)
    for metric in METRICS:
        words = f"{metric.id}: {metric.formula}"
        if metric.kind is MetricKind.DELAY:
            summaries = delays[metric.part]
            for suffix in ("median", "p95", "mean"):
                lengths = {key: getattr(found, f"{suffix}_ms") for key, found in summaries.items()}
                seconds = {key: None if value is None else value / 1000 for key, value in lengths.items()}
                publish(f"{metric.name}_{suffix}_seconds", f"{words} ({suffix})", seconds)
        elif metric.kind is MetricKind.DIFFERENCE:
            versions = figures.version_comparisons(tenant_id, period, EVERYTHING)
            publish(metric.name, words, {WHOLE: versions[-1].value if versions else None})
        else:
            publish(metric.name, words, {key: value_of(metric, found) for key, found in counts.items()})


def _counts_by_tool(tenant_id: UUID, period: MetricPeriod) -> dict[Key, Counter[str]]:
    """The counts of all tools, under `WHOLE`, and those of the busiest ones."""
    rows = queries.count_by(
        tenant_id,
        "tool",
        "side_effect_class",
        since=period.since,
        until=period.until,
        span=period.span,
        about=EVERYTHING,
    )
    whole: Counter[str] = Counter()
    for found in rows.values():
        whole.update(found)
    busiest = sorted(rows, key=lambda key: (-rows[key]["actions"] - rows[key]["calls"], key))
    named = [key for key in busiest if key[0]][:MOST_TOOLS]
    return {WHOLE: whole, **{(tool, kind): Counter(rows[tool, kind]) for tool, kind in named}}


def _delays_by_tool(
    tenant_id: UUID, period: MetricPeriod, keys: Collection[Key]
) -> defaultdict[str, dict[Key, DelaySummary]]:
    """By kind of delay its summaries, of all tools and of these."""
    rows = queries.delays_by(
        tenant_id,
        "tool",
        "side_effect_class",
        since=period.since,
        until=period.until,
        span=period.span,
        about=EVERYTHING,
    )
    lengths: defaultdict[tuple[str, Key], Counter[int]] = defaultdict(Counter)
    totals: Counter[tuple[str, Key]] = Counter()
    for (kind, *named), delays in rows.items():
        for place in (WHOLE, (named[0], named[1])):
            for rounded, (count, total) in delays.items():
                lengths[kind, place][rounded] += count
                totals[kind, place] += total
    found: defaultdict[str, dict[Key, DelaySummary]] = defaultdict(dict)
    for (kind, place), counted in lengths.items():
        if place in keys:
            found[kind][place] = summarize_delays(counted, total_ms=totals[kind, place])
    return found
