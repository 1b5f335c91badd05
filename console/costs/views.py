"""The pages of costs, payers, budgets and the price list."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse

from console.costs import queries, verbs
from console.costs.lists import BUDGETS, COSTS, PRICES, month_in
from console.costs.rules import CostLine, describe_month, format_amount, month_start, next_month, totals
from console.edge.http import TenantRequest, in_tenant
from console.metrics.context import metric_tabs
from console.verbs.form import BodyForm
from console.verbs.verb import Ids, page_of
from console.web.list_page import export_address, list_context


@in_tenant()
def page(request: TenantRequest) -> HttpResponse:
    begin = queries.month_begin(month_in(request), at=request.as_of)
    lines = COSTS.rows(request, **COSTS.filters(request))
    terms = [queries.budget_terms(row) for row in queries.budgets(request.tenant.id)]
    is_over = next_month(begin) <= request.as_of
    context = {
        "here": "metrics",
        "tabs": metric_tabs(request, "costs"),
        "month": f"{begin:%Y-%m}",
        "this_month": f"{month_start(request.as_of):%Y-%m}",
        "sentences": describe_month(lines, terms, month=begin, is_over=is_over),
        "lines": [_row(each) for each in lines],
        "totals": [
            {"payer": payer, "amounts": [format_amount(amount, currency) for currency, amount in by_currency.items()]}
            for payer, by_currency in totals(lines, lambda each: each.payer).items()
        ],
        **list_context(request, COSTS),
    }
    return render(request, "costs/_costs.html" if request.htmx else "costs/costs.html", context)


def _row(line: CostLine) -> dict[str, Any]:
    """A line with the cells of the usual columns, which say what the CSV says."""
    shown = [each for each in COSTS.columns if each.is_usual and each.value is not None]
    return {"line": line, "cells": [{"text": str(each.value(line)), "css": each.css} for each in shown if each.value]}


@in_tenant()
def list_prices(request: TenantRequest) -> HttpResponse:
    return _prices(request)


def _prices(
    request: TenantRequest, /, *, forms: Mapping[str, BodyForm] = MappingProxyType({}), status: int = 200, **ids: Any
) -> HttpResponse:
    context = {
        "here": "metrics",
        "tabs": metric_tabs(request, "costs"),
        "prices": PRICES.rows(request),
        "budgets": BUDGETS.rows(request),
        "forms": {
            "set_price": verbs.SET_PRICE.form(auto_id="id_price_%s"),
            "set_budget": verbs.SET_BUDGET.form(auto_id="id_budget_%s"),
            **forms,
        },
        "may_change": bool({"operator", "administrator"} & request.caller.roles),
        "prices_export": export_address(request, PRICES),
        "budgets_export": export_address(request, BUDGETS),
    }
    return render(request, "costs/prices.html", context, status=status)


def _home(request: TenantRequest, ids: Ids, result: Any) -> str:
    return reverse("prices", args=[request.tenant.slug])


set_price = page_of(verbs.SET_PRICE, home=_home, render=_prices, keeps=True)
end_price = page_of(verbs.END_PRICE, home=_home)
set_budget = page_of(verbs.SET_BUDGET, home=_home, render=_prices, keeps=True)
end_budget = page_of(verbs.END_BUDGET, home=_home)
