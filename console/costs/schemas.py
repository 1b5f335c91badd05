"""Request and response schemas of costs, prices and budgets. Amounts are exact decimals, as text."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from django import forms
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from console.costs import queries
from console.costs.rules import WORDS, CostKind, CostLine, describe_budget, format_decimal
from console.edge.schemas import Answer, Ask, Body, Moment, Paged, TextOrNull, Time
from console.models import CostBudget, Price
from console.web.forms import MomentField

ENTER_AMOUNT = "Enter a decimal such as 0.0025, with at most eight places."
CURRENCY = "^[A-Z]{3}$"
AMOUNT = r"^(0|[1-9][0-9]{0,11})(\.[0-9]{1,8})?$"


def _check_positive(amount: str) -> str:
    if not Decimal(amount):
        raise PydanticCustomError("positive", "Enter an amount above zero.")
    return amount


def _amount_field(label: str) -> forms.RegexField:
    return forms.RegexField(
        AMOUNT, label=label, max_length=21, error_messages=dict.fromkeys(("required", "invalid"), ENTER_AMOUNT)
    )


Amount = Annotated[
    str,
    Field(max_length=21, pattern=AMOUNT, description="A decimal such as 0.0025, with at most eight places."),
]
Currency = Annotated[
    str,
    Field(max_length=3, pattern=CURRENCY, description="A code of ISO 4217, such as EUR."),
    Ask(
        field=forms.RegexField(
            CURRENCY,
            label="Currency",
            max_length=3,
            error_messages=dict.fromkeys(("required", "invalid"), "Enter three capital letters, such as EUR."),
        )
    ),
]


class PriceBody(Body):
    kind: Annotated[
        Literal[tuple(str(each) for each in CostKind)],  # type: ignore[valid-type]
        Field(description="Tokens are priced by the million."),
        Ask(label="Price of", choices={str(kind): words.price for kind, words in WORDS.items()}),
    ]
    about: Annotated[
        str,
        Field(max_length=128, description="The system or model; empty is any. Empty for minutes of people."),
        Ask(label="System or model, if only one"),
    ] = ""
    agent: Annotated[
        str, Field(max_length=128, description="Empty is every agent."), Ask(label="Agent, if only one")
    ] = ""
    amount: Annotated[Amount, Ask(field=_amount_field("Amount"))]
    currency: Currency
    payer: Annotated[
        str,
        Field(min_length=1, max_length=100, description="The cost centre that pays."),
        Ask(label="Payer (cost centre)", missing="Enter who pays."),
    ]
    valid_from: Annotated[
        Annotated[Moment, Field(strict=False)] | None,
        Field(description="Not before now; omitted is now."),
        Ask(field=MomentField(label="Valid from (UTC; empty is now)")),
    ] = None


class PriceShown(Answer):
    """A price, with the time from which it applies and that at which it was ended."""

    price_id: UUID = Field(validation_alias="id")
    kind: str
    about: TextOrNull
    agent: TextOrNull
    amount: str
    currency: str
    payer: str
    set_at: Time
    valid_from: Time
    ended_at: Time | None

    @classmethod
    def of(cls, row: Price, /, **more: Any) -> Self:
        return super().of(row, amount=format_decimal(row.amount, row.currency), **more)


class BudgetBody(Body):
    amount: Annotated[Amount, AfterValidator(_check_positive), Ask(field=_amount_field("Amount a month"))]
    currency: Currency
    share: Annotated[
        int,
        Field(ge=1, le=100, description="Percent of the budget at which people are notified; also past it."),
        Ask(label="Notify at, percent"),
    ] = 80


class BudgetShown(Answer):
    """A monthly budget, with what people were notified of last."""

    budget_id: UUID = Field(validation_alias="id")
    amount: str
    currency: str
    share: int
    terms: str = Field(description="The budget as one sentence.")
    set_at: Time
    ended_at: Time | None
    said: TextOrNull = Field(description="The last notice; null if there was none.")

    @classmethod
    def of(cls, row: CostBudget, /, **more: Any) -> Self:
        amount = format_decimal(row.amount, row.currency)
        return super().of(row, amount=amount, terms=describe_budget(queries.budget_terms(row)), **more)


class CostsWanted(Paged):
    month: Annotated[
        str, Field(pattern=r"^$|^(19[7-9]\d|[2-8]\d{3}|9[0-8]\d\d)-(0[1-9]|1[0-2])$", description="As 2026-11, in UTC.")
    ] = ""


class CostShown(Answer):
    """The quantity of one thing for one agent under one price, and its cost."""

    cost_id: UUID = Field(validation_alias="id", description="The same as long as the price of the line is the same.")
    kind: str
    about: TextOrNull = Field(description="The system or model; null is not stated, or a person's time.")
    agent: TextOrNull
    payer: TextOrNull = Field(description="Null where it is not priced.")
    currency: TextOrNull = Field(description="Null where it is not priced.")
    price: str | None = Field(description="For one, of tokens for a million; null where it is not priced.")
    quantity: int | None = Field(description="What is stated of it; null if nothing is.")
    unstated: int = Field(description="Reports or decisions of which nobody stated how much.")
    amount: str | None = Field(description="The exact cost; null where it is not priced or not stated.")

    @classmethod
    def of(cls, line: CostLine, /, **more: Any) -> Self:
        return super().of(
            line,
            price=format_decimal(line.price.amount, line.currency) if line.price else None,
            quantity=None if line.is_unstated else line.quantity,
            amount=None if line.amount is None else format_decimal(line.amount, line.currency),
            **more,
        )
