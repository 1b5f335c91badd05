from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest

from counterfoil.execution.signature import describe_function


class Line(TypedDict):
    sku: str
    count: NotRequired[int]


def everything(
    order_id: str,
    amount: Annotated[int, {"minimum": 1}],
    currency: Literal["EUR", "USD"],
    lines: list[Line],
    labels: Mapping[str, str],
    notify: bool = False,
    note: Annotated[str | None, "Shown to the customer."] = None,
    tags: Sequence[str] = (),
    anything: Any = None,
) -> None:
    """Refund an order. Use when: a customer asks. NOT for: chargebacks.

    It is sent to the bank at once.

    Args:
        order_id: The order, as the shop
            writes it.
        amount (int): In cents.

    Returns:
        Nothing.
    """


def test_a_signature_becomes_a_schema():
    schema = describe_function(everything).arguments_schema
    assert schema["required"] == ["order_id", "amount", "currency", "lines", "labels"]
    assert schema["additionalProperties"] is False
    assert schema["properties"] == {
        "order_id": {"type": "string", "description": "The order, as the shop writes it."},
        "amount": {"type": "integer", "minimum": 1, "description": "In cents."},
        "currency": {"enum": ["EUR", "USD"], "type": "string"},
        "lines": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["sku"],
                "additionalProperties": False,
                "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}},
            },
        },
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "notify": {"type": "boolean", "default": False},
        "note": {
            "anyOf": [{"type": "string"}, {"type": "null"}],
            "description": "Shown to the customer.",
            "default": None,
        },
        "tags": {"type": "array", "items": {"type": "string"}, "default": []},
        "anything": {"default": None},
    }


def test_the_description_is_the_docstring_without_its_sections():
    text = describe_function(everything).description
    assert text.startswith("Refund an order.")
    assert text.endswith("at once.")


def fraction(amount: float) -> None:
    """Pay."""


def untyped(amount) -> None:
    """Pay."""


def scattered(*amounts: int) -> None:
    """Pay."""


def numbered(amounts: dict[int, int]) -> None:
    """Pay."""


def opaque(amount: int = 10**20) -> None:
    """Pay."""


def silent(amount: int) -> None:
    pass


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (fraction, "float"),
        (untyped, "no type"),
        (scattered, "not given by name"),
        (numbered, "names are not text"),
        (opaque, "no JSON"),
        (silent, "no docstring"),
    ],
)
def test_a_function_without_an_exact_schema_is_refused_at_decoration(function, why):
    with pytest.raises(TypeError, match=why):
        describe_function(function)
