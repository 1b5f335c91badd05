"""Prices and budgets: set and ended by people; that a budget is used up is noticed by what is on record.

Each write is one transaction: the row and its event. What costs are is never stored: it follows from the record and the
price list whenever it is asked for.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from uuid import UUID

from console.costs import queries
from console.costs.rules import (
    MOST_PRICES,
    NAMELESS,
    BudgetLevel,
    CostKind,
    budget_level,
    describe_level,
    month_start,
    totals,
)
from console.models import CostBudget, Price
from ledger.record import operations as ledger
from ledger.record.rules.envelope import instant
from ledger.record.rules.refusals import NotFound, Refused


class PriceOfThePast(Refused):
    """A price cannot apply to a time before it is set: what has happened is not priced anew."""

    code = "PRICE_OF_THE_PAST"
    status = 422


class NotPricedByName(Refused):
    """The time of people has a price for all approvals or for all cases, not for a system or model."""

    code = "NOT_PRICED_BY_NAME"
    status = 422


class TooManyPrices(Refused):
    """There are already five hundred prices in force; end one first."""

    code = "TOO_MANY_PRICES"


def set_price(
    *,
    tenant_id: UUID,
    kind: str,
    about: str,
    agent: str,
    amount: str,
    currency: str,
    payer: str,
    valid_from: datetime | None,
    by: ledger.Actor,
    at: datetime,
) -> Price:
    """Set a price from now or a later time on; the one before it applies until then."""
    if valid_from is not None and valid_from < at:
        raise PriceOfThePast(errors=[{"path": "/valid_from", "detail": PriceOfThePast.__doc__ or ""}])
    if about and kind in NAMELESS:
        raise NotPricedByName(errors=[{"path": "/about", "detail": NotPricedByName.__doc__ or ""}])
    if sum(each.ended_at is None for each in queries.prices(tenant_id)) >= MOST_PRICES:
        raise TooManyPrices
    row = Price.objects.create(
        tenant_id=tenant_id,
        id=ledger.new_id(at),
        kind=CostKind(kind),
        about=about,
        agent=agent,
        amount=_exact(amount),
        currency=currency,
        payer=payer,
        set_at=at,
        valid_from=valid_from or at,
    )
    said = {name: getattr(row, name) for name in ("kind", "about", "agent", "currency", "payer")}
    detail = {**said, "amount": str(row.amount), "valid_from": instant(row.valid_from)}
    head = ledger.SubjectHead(tenant_id=tenant_id, id=row.id, kind="price")
    ledger.append(head, ledger.NewEvent(kind="price_set", to="ACTIVE", detail=detail), actor=by, at=at)
    return row


def end_price(*, tenant_id: UUID, price_id: UUID, reason: str, by: ledger.Actor, at: datetime) -> Price:
    """End a price: what happens from now on is not priced by it."""
    row = Price.objects.select_for_update().filter(tenant_id=tenant_id, id=price_id, ended_at=None).first()
    if row is None:
        raise NotFound(detail="Price not found, or it has ended.")
    row.ended_at = at
    Price.objects.filter(tenant_id=tenant_id, id=price_id).update(ended_at=at)
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=price_id, kind="price")
    ledger.append(head, ledger.NewEvent(kind="price_ended", to="ENDED", detail={"reason": reason}), actor=by, at=at)
    return row


def set_budget(
    *, tenant_id: UUID, amount: str, currency: str, share: int, by: ledger.Actor, at: datetime
) -> CostBudget:
    """Set the monthly budget in a currency, in place of the one in force there."""
    before = CostBudget.objects.select_for_update().filter(tenant_id=tenant_id, currency=currency, ended_at=None)
    for row in before:
        _end_budget(row, "Another budget in this currency replaces it.", by=by, at=at)
    row = CostBudget.objects.create(
        tenant_id=tenant_id,
        id=ledger.new_id(at),
        amount=_exact(amount),
        currency=currency,
        share=share,
        set_at=at,
    )
    detail = {"amount": str(row.amount), "currency": currency, "share": share}
    head = ledger.SubjectHead(tenant_id=tenant_id, id=row.id, kind="cost_budget")
    ledger.append(head, ledger.NewEvent(kind="cost_budget_set", to="ACTIVE", detail=detail), actor=by, at=at)
    return row


def end_budget(*, tenant_id: UUID, budget_id: UUID, reason: str, by: ledger.Actor, at: datetime) -> CostBudget:
    """End a budget; nobody is notified of costs in its currency any more."""
    row = CostBudget.objects.select_for_update().filter(tenant_id=tenant_id, id=budget_id, ended_at=None).first()
    if row is None:
        raise NotFound(detail="Budget not found, or it has ended.")
    return _end_budget(row, reason, by=by, at=at)


def judge_budgets(*, tenant_id: UUID, at: datetime) -> int:
    """Notify people of each budget whose stated share, or more than all, this month has used: once for each in a month.

    Return the number of notices. Inside `tenancy`.
    """
    budgets = queries.budgets(tenant_id)
    if not budgets:
        return 0
    spent, begin = totals(queries.month_lines(tenant_id, at=at)).get("", {}), month_start(at)
    month, told = f"{begin:%Y-%m}", 0
    for each in budgets:
        terms = queries.budget_terms(each)
        used = spent.get(each.currency, Decimal(0))
        level = budget_level(terms, used)
        # Whoever ends or judges it at the same time goes first; the next look sees what came of it.
        row = CostBudget.objects.select_for_update(skip_locked=True).filter(tenant_id=tenant_id, id=each.id).first()
        if row is None or row.ended_at is not None or not _is_news(row, month, level):
            continue
        _tell_level(row, month, level, describe_level(terms, used, begin), at=at)
        told += 1
    return told


def _is_news(row: CostBudget, month: str, level: BudgetLevel) -> bool:
    before = row.told if row.told_month == month else ""
    order = list(BudgetLevel)
    return order.index(level) > order.index(BudgetLevel(before))


def _tell_level(row: CostBudget, month: str, level: BudgetLevel, said: str, *, at: datetime) -> None:
    known = {"told_month": month, "told": level, "said": said}
    CostBudget.objects.filter(tenant_id=row.tenant_id, id=row.id).update(**known)
    head = ledger.lock_subject(tenant_id=row.tenant_id, subject_id=row.id, kind="cost_budget")
    kind = "cost_budget_passed" if level is BudgetLevel.PASSED else "cost_budget_share_reached"
    detail = {"month": month, "level": str(level), "said": said}
    ledger.append(head, ledger.NewEvent(kind=kind, detail=detail), actor=ledger.SYSTEM, at=at)


def _end_budget(row: CostBudget, reason: str, *, by: ledger.Actor, at: datetime) -> CostBudget:
    row.ended_at = at
    CostBudget.objects.filter(tenant_id=row.tenant_id, id=row.id).update(ended_at=at)
    head = ledger.lock_subject(tenant_id=row.tenant_id, subject_id=row.id, kind="cost_budget")
    ended = ledger.NewEvent(kind="cost_budget_ended", to="ENDED", detail={"reason": reason})
    ledger.append(head, ended, actor=by, at=at)
    return row


def _exact(amount: str) -> Decimal:
    """The amount with the eight places that the table keeps, as the event records it."""
    return Decimal(amount).quantize(Decimal("0.00000001"))
