"""Costs by payer, thing and agent, the price list and the budgets: on the page, as CSV and in the API."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from console.costs import queries, schemas, verbs
from console.costs.rules import WORDS, CostKind, CostLine, describe_budget, format_decimal
from console.edge.http import TenantRequest
from console.web.list_page import Column, GetRoute, ListPage, sortable

if TYPE_CHECKING:
    from console.models import CostBudget, Price

READERS: Final = ("oper", "audit", "person")
NOT_PRICED: Final = "not priced"
NOT_STATED: Final = "not stated"
_MONTH: Final = re.compile(r"(19[7-9]\d|[2-8]\d{3}|9[0-8]\d\d)-(0[1-9]|1[0-2])")


def month_in(request: TenantRequest) -> str:
    """The month that an address names, as 2026-11; empty for the present one, or if it names none."""
    asked = str(request.GET.get("month", ""))
    return asked if _MONTH.fullmatch(asked) else ""


def _about_words(line: CostLine) -> str:
    if line.about:
        return line.about
    return "people" if line.kind in (CostKind.VOTE_MINUTE, CostKind.CASE_MINUTE) else NOT_STATED


def _price_words(line: CostLine) -> str:
    if line.price is None:
        return NOT_PRICED
    per = " a million" if WORDS[line.kind].per > 1 else ""
    return f"{format_decimal(line.price.amount, line.currency)}{per}"


def _amount_words(line: CostLine) -> str:
    if line.price is None:
        return NOT_PRICED
    return NOT_STATED if line.amount is None else format_decimal(line.amount, line.currency)


COSTS: Final = ListPage(
    "costs",
    fields=("month",),
    columns=(
        sortable("payer", "Payer", lambda line: line.payer or NOT_PRICED),
        sortable("thing", "Cost", lambda line: WORDS[line.kind].thing),
        sortable("about", "System or model", _about_words),
        sortable("agent", "Agent", lambda line: line.agent or "no agent"),
        Column("quantity", "Quantity", lambda line: NOT_STATED if line.is_unstated else line.quantity, "num"),
        Column("unstated", "Not stated", lambda line: line.unstated, "num"),
        Column("price", "Price", _price_words, "num"),
        Column("amount", "Amount", _amount_words, "num"),
        Column("currency", "Currency", lambda line: line.currency),
        Column("id", "Id", lambda line: line.id, is_usual=False),
    ),
    query=queries.month_lines,
    filters=lambda request: {"month": month_in(request)},
    get=GetRoute(
        path="/costs",
        operation="list_costs",
        summary="What a month has cost, by payer, thing, agent and price",
        answer=schemas.CostShown,
        wanted=schemas.CostsWanted,
        readers=READERS,
    ),
)


def _price_rows(request: TenantRequest, found: Sequence[Price]) -> list[dict[str, Any]]:
    return [
        {
            "row": row,
            "id": row.id,
            "word": WORDS[CostKind(row.kind)].price,
            "amount": format_decimal(row.amount, row.currency),
            "applies": row.ended_at is None,
            "is_later": row.ended_at is None and row.valid_from > request.as_of,
            "end": verbs.END_PRICE.form(auto_id=f"id_{row.id}_%s"),
        }
        for row in found
    ]


PRICES: Final = ListPage(
    "prices",
    columns=(
        Column("price", "Price of", lambda each: each["word"]),
        Column("about", "System or model", lambda each: each["row"].about),
        Column("agent", "Agent", lambda each: each["row"].agent),
        Column("amount", "Amount", lambda each: each["amount"], "num"),
        Column("currency", "Currency", lambda each: each["row"].currency),
        Column("payer", "Payer", lambda each: each["row"].payer),
        Column("valid", "Valid from", lambda each: each["row"].valid_from),
        Column("ended", "Ended", lambda each: each["row"].ended_at),
        Column("id", "Id", lambda each: each["id"]),
    ),
    query=queries.prices,
    rows_of=_price_rows,
    get=GetRoute(
        path="/prices",
        operation="list_prices",
        summary="The price list with all that ever applied, newest first",
        answer=schemas.PriceShown,
        readers=READERS,
    ),
)


def _budget_rows(request: TenantRequest, found: Sequence[CostBudget]) -> list[dict[str, Any]]:
    return [
        {
            "row": row,
            "id": row.id,
            "terms": describe_budget(queries.budget_terms(row)),
            "end": verbs.END_BUDGET.form(auto_id=f"id_{row.id}_%s"),
        }
        for row in found
    ]


BUDGETS: Final = ListPage(
    "cost-budgets",
    page="prices",
    columns=(
        Column("terms", "Budget", lambda each: each["terms"]),
        Column("set", "Set", lambda each: each["row"].set_at),
        Column("said", "Last notice", lambda each: each["row"].said),
        Column("id", "Id", lambda each: each["id"]),
    ),
    query=queries.budgets,
    rows_of=_budget_rows,
    get=GetRoute(
        path="/cost-budgets",
        operation="list_budgets",
        summary="Monthly budgets in force, by currency",
        answer=schemas.BudgetShown,
        readers=READERS,
    ),
)
