"""Every write about prices and budgets."""

from __future__ import annotations

from typing import Final

from console.costs import operations, schemas
from console.edge.schemas import ReasonBody
from console.verbs.verb import Verb

WRITERS: Final = ("oper", "operator", "administrator")

SET_PRICE: Final = Verb(
    name="set_price",
    path="/prices",
    operation=operations.set_price,
    body=schemas.PriceBody,
    roles=WRITERS,
    answer=schemas.PriceShown,
    status=201,
    summary="Set what a reading, a model or a minute of a person costs from now on, and who pays",
    done="Price set. What happened before is not priced by it.",
)
END_PRICE: Final = Verb(
    name="end_price",
    path="/prices/{price_id}/end",
    operation=operations.end_price,
    body=ReasonBody,
    roles=WRITERS,
    answer=schemas.PriceShown,
    summary="End a price; what it priced stays priced",
    done="Price ended. What it priced until now stays priced.",
    incomplete="Nothing changed: enter a reason.",
)
SET_BUDGET: Final = Verb(
    name="set_budget",
    path="/cost-budgets",
    operation=operations.set_budget,
    body=schemas.BudgetBody,
    roles=WRITERS,
    answer=schemas.BudgetShown,
    status=201,
    summary="Set the monthly budget of costs in a currency, in place of the one in force",
    done="Budget set.",
)
END_BUDGET: Final = Verb(
    name="end_budget",
    path="/cost-budgets/{budget_id}/end",
    operation=operations.end_budget,
    body=ReasonBody,
    roles=WRITERS,
    answer=schemas.BudgetShown,
    summary="End a budget of costs",
    done="Budget ended.",
    incomplete="Nothing changed: enter a reason.",
)
