"""Reads what can have a price from the record, the price list and the budgets."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from console.costs.rules import (
    DECISIONS,
    STRETCHES,
    BudgetTerms,
    CostFact,
    CostKind,
    CostLine,
    PriceTerms,
    WorkEvent,
    cost_lines,
    human_minutes,
    month_start,
    next_month,
)
from console.models import CostBudget, Price
from ledger.db import execute
from ledger.record.rules.ids import lower_bound

# Readings of runs and those before a start. Of a run from before runs told of the systems that they asked, only the one
# that answered first is known; what an erased event said of its system is not known any more. Times between two changes
# of a price are counted together: `width_bucket` numbers the stretches.
_READINGS: Final = """
SELECT width_bucket(run.at, $4), coalesce(a.agent, ''), system.name, sum(system.readings)::bigint
FROM reviews_run run LEFT JOIN ledger_action a ON a.tenant_id = $1 AND a.id = run.action_id,
LATERAL (SELECT key AS name, value::bigint AS readings FROM jsonb_each_text(run.asked)
    UNION ALL SELECT run.source, 1 WHERE run.asked = '{}' AND run.source <> '') AS system
WHERE run.tenant_id = $1 AND run.id >= $2 AND run.id < $3 GROUP BY 1, 2, 3
UNION ALL
SELECT width_bucket(e.at, $4), coalesce(a.agent, ''),
    coalesce(convert_from(n.detail, 'UTF8')::jsonb ->> 'source', ''), count(*)
FROM ledger_event e JOIN ledger_entry n USING (tenant_id, subject_id, seq)
LEFT JOIN ledger_action a ON a.tenant_id = $1 AND a.id = e.subject_id
WHERE e.tenant_id = $1 AND e.kind = 'reading_taken' AND e.id >= $2 AND e.id < $3 GROUP BY 1, 2, 3
"""
_MODEL_USAGE: Final = """
SELECT width_bucket(u.at, $4), u.agent_id, u.model, sum(u.calls)::bigint,
    coalesce(sum(u.input_tokens), 0)::bigint, count(*) FILTER (WHERE u.input_tokens IS NULL),
    coalesce(sum(u.output_tokens), 0)::bigint, count(*) FILTER (WHERE u.output_tokens IS NULL)
FROM approvals_modelusage u WHERE u.tenant_id = $1 AND u.id >= $2 AND u.id < $3 GROUP BY 1, 2, 3
"""
# Of each approval and case that a person decided in the period all that tells of the time of people, in order.
_WORK: Final = """
SELECT e.subject_id, e.subject_kind, e.kind, e.actor_id, e.at, coalesce(a.agent, '')
FROM (SELECT DISTINCT subject_id FROM ledger_event WHERE tenant_id = $1 AND kind = ANY($4) AND id >= $2 AND id < $3
    AND actor_kind = 'person' AND subject_kind IN ('approval', 'case')) AS decided
JOIN ledger_event e ON e.tenant_id = $1 AND e.subject_id = decided.subject_id AND e.kind = ANY($5)
    AND e.actor_kind = 'person'
LEFT JOIN approvals_approval p ON p.tenant_id = $1 AND p.id = e.subject_id
LEFT JOIN reviews_case c ON c.tenant_id = $1 AND c.id = e.subject_id
LEFT JOIN ledger_action a ON a.tenant_id = $1 AND a.id = coalesce(p.action_id, c.action_id)
ORDER BY e.subject_id, e.seq
"""


def prices(tenant_id: UUID) -> list[Price]:
    """The price list with all that ever applied, newest first; the order in which they were set."""
    return list(Price.objects.filter(tenant_id=tenant_id).order_by("-id"))


def terms_of(row: Price) -> PriceTerms:
    """The terms of a stored price."""
    return PriceTerms(
        kind=CostKind(row.kind),
        about=row.about,
        agent=row.agent,
        amount=row.amount,
        currency=row.currency,
        payer=row.payer,
        valid_from=row.valid_from,
        ended_at=row.ended_at,
    )


def budgets(tenant_id: UUID) -> list[CostBudget]:
    """The budgets in force, by currency."""
    return list(CostBudget.objects.filter(tenant_id=tenant_id, ended_at__isnull=True).order_by("currency"))


def budgets_by_id(tenant_id: UUID, ids: Collection[UUID]) -> list[CostBudget]:
    """The existing ones of these budgets, also ended ones."""
    return list(CostBudget.objects.filter(tenant_id=tenant_id, id__in=ids))


def budget_terms(row: CostBudget) -> BudgetTerms:
    """The terms of a stored budget."""
    return BudgetTerms(amount=row.amount, currency=row.currency, share=row.share)


def month_begin(month: str, *, at: datetime) -> datetime:
    """The first moment of a calendar month in UTC, as `2026-11`; of the present one if none is named."""
    return datetime.strptime(month, "%Y-%m").replace(tzinfo=UTC) if month else month_start(at)


def month_lines(tenant_id: UUID, *, month: str = "", at: datetime) -> list[CostLine]:
    """The lines of a month's costs, what is priced first."""
    since = month_begin(month, at=at)
    known = [terms_of(row) for row in reversed(prices(tenant_id))]
    return cost_lines(_facts(tenant_id, since, next_month(since), known), known)


def _facts(tenant_id: UUID, since: datetime, until: datetime, known: Sequence[PriceTerms]) -> Iterator[CostFact]:
    """Everything of a period that can have a price; what is counted together has one price throughout."""
    changes = {moment for each in known for moment in (each.valid_from, each.ended_at) if moment is not None}
    starts = [since, *sorted(moment for moment in changes if since < moment < until)]
    period = (tenant_id, lower_bound(since), lower_bound(until))
    for place, agent, system, readings in execute(_READINGS, *period, starts):
        yield _fact(CostKind.READING, system, agent, starts, place, readings)
    for place, agent, model, calls, read, read_unstated, written, written_unstated in execute(
        _MODEL_USAGE, *period, starts
    ):
        yield _fact(CostKind.MODEL_CALL, model, agent, starts, place, calls)
        yield _fact(CostKind.INPUT_TOKENS, model, agent, starts, place, read, read_unstated)
        yield _fact(CostKind.OUTPUT_TOKENS, model, agent, starts, place, written, written_unstated)
    work = execute(_WORK, *period, sorted(DECISIONS), sorted(STRETCHES))
    yield from human_minutes((WorkEvent(*row) for row in work), since=since, until=until)


def _fact(
    kind: CostKind, about: str, agent: str, starts: Sequence[datetime], place: int, quantity: int, unstated: int = 0
) -> CostFact:
    # An event of the first millisecond may be of a time just before the id's bound.
    at = starts[max(place, 1) - 1]
    return CostFact(kind=kind, about=about, agent=agent, at=at, quantity=quantity, unstated=unstated)
