"""Costs, prices and budgets for programs and people."""

from __future__ import annotations

from ninja import Router

from console.costs import lists, verbs
from console.verbs.verb import add_verbs
from console.web.list_page import add_lists

router = Router(tags=["Operations"])

add_lists(router, __name__, lists.COSTS, lists.PRICES)
add_verbs(router, __name__, (verbs.SET_PRICE, verbs.END_PRICE))
add_lists(router, __name__, lists.BUDGETS)
add_verbs(router, __name__, (verbs.SET_BUDGET, verbs.END_BUDGET))
