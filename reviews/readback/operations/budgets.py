"""Count readings per tenant, system and tool, and report an exhausted budget once (R-CX-12)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from uuid import UUID

from ledger.catalogue.rules.policies import ReadingBudget
from ledger.db import execute, tenancy
from ledger.record import operations as ledger
from ledger.record.queries import events
from reviews import queries
from reviews.models import ReadingCount, ReadingTotal
from reviews.readback.rules import budget as rules
from reviews.readback.rules.budget import ReadingUsage

KEPT = timedelta(days=400)


def count_readings(
    *, tenant_id: UUID, made: Mapping[tuple[UUID, str], int], at: datetime
) -> tuple[ReadingBudget, ReadingUsage]:
    """Count readings, made by (system, tool); what the tenant may spend, and what it has spent now."""
    budget = queries.reading_budget(tenant_id)
    execute(
        "INSERT INTO reviews_readingcount (tenant_id, day, system_id, tool, readings)"
        " SELECT $1, $2, w.* FROM unnest($3::uuid[], $4::text[], $5::integer[]) AS w (system_id, tool, readings)"
        " ON CONFLICT (tenant_id, day, system_id, tool)"
        " DO UPDATE SET readings = reviews_readingcount.readings + excluded.readings",
        *(tenant_id, at.date()),
        [system_id for system_id, _ in made],
        [tool for _, tool in made],
        list(made.values()),
    )
    execute("INSERT INTO reviews_readingtotal (tenant_id) VALUES ($1) ON CONFLICT DO NOTHING", tenant_id)
    row = ReadingTotal.objects.select_for_update().get(tenant_id=tenant_id)
    before = rules.usage_at(queries.usage_from_row(row), at=at)
    after = rules.add_reads(before, sum(made.values()))
    ReadingTotal.objects.filter(tenant_id=tenant_id).update(
        hour_from=after.hour_from, in_hour=after.in_hour, day_from=after.day_from, in_day=after.in_day
    )
    window = rules.exceeded_budget(budget, after)
    if window is not None and window != rules.exceeded_budget(budget, before):
        _tell(tenant_id, window, after, budget, at=at)
    return budget, after


def _tell(tenant_id: UUID, window: str, spent: ReadingUsage, budget: ReadingBudget, *, at: datetime) -> None:
    used, most = (
        (spent.in_day, budget.readings_per_day) if window == "day" else (spent.in_hour, budget.readings_per_hour)
    )
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=tenant_id, kind="tenant")
    detail = {"window": window, "readings": used, "budget": most}
    ledger.append(head, ledger.NewEvent(kind="reading_budget_spent", detail=detail), actor=ledger.SYSTEM, at=at)


def prune_counts(*, at: datetime) -> None:
    """Drop counts that nobody asks for any more."""
    for tenant in events.tenants():
        with tenancy(tenant.id):
            ReadingCount.objects.filter(tenant_id=tenant.id, day__lt=(at - KEPT).date()).delete()
