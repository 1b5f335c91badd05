"""Twenty-one situations after somebody said "refunded": in fourteen it must not be claimed, in seven it may.

Each is brought about at a processor over HTTP. `operation` is the key under which the refund was ordered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.outside.processor import Processor

CLAIM = {"amount": 4000, "currency": "EUR", "customer": "cus_1"}


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What is at the processor, what is claimed beside the usual, and the outcomes to be told.

    `ungated` and `gated` are the outcomes once the time for late effects is over; `by_id`: the refund is located by its
    own id alone.
    """

    name: str
    bring_about: Callable[[Processor, str], object]
    ungated: str
    gated: str
    claim: Mapping[str, Any] = field(default_factory=dict)
    by_id: bool = False

    @property
    def is_safe(self) -> bool:
        """Whether it may be claimed."""
        return self.ungated == "VERIFIED"


def _refund_then(**changes: Any) -> Callable[[Processor, str], None]:
    """One refund, which the processor then shows otherwise; None takes a member out."""

    def bring_about(processor: Processor, operation: str) -> None:
        processor.refund(operation=operation)
        shown = processor.last()
        shown |= changes
        for name in [name for name, value in changes.items() if value is None]:
            del shown[name]

    return bring_about


def _nothing(processor: Processor, operation: str) -> None:
    pass


def _refund_twice(processor: Processor, operation: str) -> None:
    processor.charges["ch_1"]["amount"] = 8000
    processor.refund(operation=operation)
    processor.refund(operation=operation)


def _charge_of_another(processor: Processor, operation: str) -> None:
    processor.refund(operation=operation)
    processor.charges["ch_1"]["customer"] = "cus_9"


def _go_away(processor: Processor, operation: str) -> None:
    processor.refund(operation=operation)
    processor.is_away = True


def _refund_in_part(processor: Processor, operation: str) -> None:
    processor.refund(amount=1500, operation=operation)


def _have_endless_lists(processor: Processor, operation: str) -> None:
    processor.refund(operation=operation)
    processor.is_endless = True


def _refund_two_parts(processor: Processor, operation: str) -> None:
    processor.refund(amount=2500, operation="another operation")
    processor.refund(amount=1500, operation=operation)


def _refund_another_charge(processor: Processor, operation: str) -> None:
    processor.charge("ch_2", amount=900)
    processor.refund("ch_2", amount=900)
    processor.refund(operation=operation)


def _retry(processor: Processor, operation: str) -> None:
    first = processor.refund(operation=operation, key="retry-1")
    assert processor.refund(operation=operation, key="retry-1") == first


TRAPS = (
    Situation(name="pending", bring_about=_refund_then(status="pending"), ungated="VERIFYING", gated="VERIFYING"),
    Situation(name="never written", bring_about=_nothing, ungated="FAILED", gated="NEEDS_REVIEW"),
    Situation(name="refunded twice", bring_about=_refund_twice, ungated="NEEDS_REVIEW", gated="NEEDS_REVIEW"),
    Situation(name="wrong amount", bring_about=_refund_then(amount=400), ungated="NEEDS_REVIEW", gated="NEEDS_REVIEW"),
    Situation(
        name="wrong currency", bring_about=_refund_then(currency="usd"), ungated="NEEDS_REVIEW", gated="NEEDS_REVIEW"
    ),
    Situation(name="wrong customer", bring_about=_charge_of_another, ungated="NEEDS_REVIEW", gated="NEEDS_REVIEW"),
    Situation(
        name="failed after success",
        bring_about=_refund_then(status="failed", failure_reason="lost_or_stolen_card"),
        ungated="PARTIALLY_APPLIED",
        gated="NEEDS_REVIEW",
    ),
    Situation(name="provider away", bring_about=_go_away, ungated="VERIFYING", gated="VERIFYING"),
    Situation(
        name="unknown state", bring_about=_refund_then(status="in_review"), ungated="VERIFYING", gated="VERIFYING"
    ),
    Situation(
        name="needs action", bring_about=_refund_then(status="requires_action"), ungated="VERIFYING", gated="VERIFYING"
    ),
    Situation(name="cancelled", bring_about=_refund_then(status="canceled"), ungated="FAILED", gated="NEEDS_REVIEW"),
    Situation(name="partial", bring_about=_refund_in_part, ungated="NEEDS_REVIEW", gated="NEEDS_REVIEW"),
    Situation(
        name="currency not shown", bring_about=_refund_then(currency=None), ungated="UNKNOWN", gated="NEEDS_REVIEW"
    ),
    Situation(name="not to be located", bring_about=_have_endless_lists, ungated="VERIFYING", gated="VERIFYING"),
)
RIGHT = (
    Situation(name="settled", bring_about=_refund_then(), ungated="VERIFIED", gated="VERIFIED"),
    Situation(
        name="intended partial",
        bring_about=_refund_in_part,
        claim={"amount": 1500},
        ungated="VERIFIED",
        gated="VERIFIED",
    ),
    Situation(
        name="two partials of two operations",
        bring_about=_refund_two_parts,
        claim={"amount": 1500},
        ungated="VERIFIED",
        gated="VERIFIED",
    ),
    Situation(
        name="upper-case currency", bring_about=_refund_then(currency="EUR"), ungated="VERIFIED", gated="VERIFIED"
    ),
    Situation(
        name="unrelated refund of the same customer",
        bring_about=_refund_another_charge,
        ungated="VERIFIED",
        gated="VERIFIED",
    ),
    Situation(name="a retry that returned the original", bring_about=_retry, ungated="VERIFIED", gated="VERIFIED"),
    Situation(
        name="located by the refund's id alone",
        bring_about=_refund_then(metadata={}),
        by_id=True,
        ungated="VERIFIED",
        gated="VERIFIED",
    ),
)
SITUATIONS = (*TRAPS, *RIGHT)
