"""Request and response schemas of alert rules and alerts."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self
from uuid import UUID

from django import forms
from pydantic import Field

from console.edge.schemas import Answer, Ask, Body, Paged, TextOrNull, Time
from console.metrics import queries
from console.metrics.rules.alerts import ALL, SHARES, WINDOWS_H, describe_rule
from console.web import labels
from console.web.forms import PlainSelect
from ledger.catalogue.rules.effects import SideEffectClass

if TYPE_CHECKING:
    from console.models import AlertRule


class PercentField(forms.DecimalField):
    """A share in percent; in hundredths of a percent."""

    def __init__(self, **options: Any) -> None:
        super().__init__(min_value=0, max_value=100, max_digits=5, decimal_places=2, **options)

    def prepare_value(self, value: Any) -> Any:
        return Decimal(value) / 100 if isinstance(value, int) else value

    def clean(self, value: Any) -> Any:
        return int(super().clean(value) * 100)


Threshold = Annotated[int, Field(ge=0, le=ALL, description="In hundredths of a percent: 1000 is 10 %.")]


class ThresholdsBody(Body):
    raise_at: Annotated[Threshold, Ask(field=PercentField(label="Raise at, percent"))]
    clear_at: Annotated[Threshold, Ask(field=PercentField(label="Clear at, percent"))]
    least_cases: Annotated[
        int,
        Field(ge=1, le=1_000_000, description="With fewer cases, the rule does not fire."),
        Ask(label="Minimum cases"),
    ] = 30
    hold_min: Annotated[
        int,
        Field(ge=0, le=10_080, description="Minutes for which the threshold must be exceeded."),
        Ask(label="For at least, minutes"),
    ] = 15


class AlertRuleBody(ThresholdsBody):
    metric: Annotated[
        Literal[tuple(each.id for each in SHARES)],  # type: ignore[valid-type]
        Ask(label="Figure", choices={each.id: f"{each.words} ({each.id})" for each in SHARES}),
    ]
    window_h: Annotated[
        Literal[1, 6, 24, 168],
        Ask(
            field=forms.TypedChoiceField(
                choices=list(WINDOWS_H.items()), coerce=int, initial=24, widget=PlainSelect, label="Over the last"
            )
        ),
    ] = 24
    tool: Annotated[str, Field(max_length=200), Ask(label="Tool, if only one")] = ""
    agent: Annotated[str, Field(max_length=128), Ask(label="Agent, if only one")] = ""
    side_effect_class: Annotated[
        str,
        Field(max_length=32),
        Ask(
            field=forms.ChoiceField(
                required=False,
                choices=[("", "Any"), *((each.value, labels.sentence_case(each.value)) for each in SideEffectClass)],
                widget=PlainSelect,
                label="Side-effect class",
            )
        ),
    ] = ""


class AlertRuleShown(Answer):
    """A share that is watched."""

    alert_rule_id: UUID = Field(validation_alias="id")
    metric: str
    tool: TextOrNull
    agent: TextOrNull
    side_effect_class: TextOrNull = Field(description="The side-effect class.")
    window_h: int
    raise_at: int = Field(description="In hundredths of a percent.")
    clear_at: int = Field(description="In hundredths of a percent.")
    least_cases: int
    hold_min: int
    said: str = Field(description="The rule as one sentence.")
    made_at: Time
    ended_at: Time | None

    @classmethod
    def of(cls, row: AlertRule, /, **more: Any) -> Self:
        return super().of(row, said=describe_rule(queries.terms_of(row)), **more)


class AlertShown(Answer):
    """What people were told, and of its end."""

    alert_id: UUID = Field(validation_alias="id")
    alert_rule_id: UUID | None = Field(validation_alias="rule_id", description="Null for a regression.")
    about: TextOrNull = Field(description='For a regression: "verification", or "contract" and its name.')
    version: TextOrNull
    previous: TextOrNull
    said: str
    raised_at: Time
    cleared_said: TextOrNull
    cleared_at: Time | None


class AlertsWanted(Paged):
    open: bool | None = Field(None, description="Default: open and cleared alerts.")
