"""A tenant whose refunds are made at a processor, and what it claims of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reviews import tasks
from tests.support.api_tenant import Clock, Workshop
from tests.support.outside.processor import Processor
from tests.web.claims.refund_situations import CLAIM


@dataclass
class Desk:
    """A tenant, the processor that it reads, and the clock of both."""

    shop: Workshop
    processor: Processor
    clock: Clock

    def verify(self, by: Any = None, **changes: Any) -> Any:
        """The answer to a claim of a refund by operation `op-1`, made at once and not yet read."""
        body = {
            "system": "payments",
            "effect": "refund",
            "operation": "op-1",
            "target": "charge/ch_1",
            "expected": CLAIM,
            "said_by": "agent support",
            "statement": "I refunded 40.00 EUR.",
            "wait_s": 0,
        } | changes
        return (by or self.shop.operator_key).post("/verify", {k: v for k, v in body.items() if v is not None})

    def claim(self, **changes: Any) -> str:
        answer = self.verify(**changes)
        assert answer.status_code == 200, answer.content
        return str(answer.json()["claim_id"])

    def read(self, claim_id: str, *, by: Any = None, **later: float) -> dict[str, Any]:
        """How a claim stands after the workers have made what is due, now or later."""
        self.clock.forward(**later)
        tasks.verify_due()
        answer = (by or self.shop.operator_key).get(f"/claims/{claim_id}")
        assert answer.status_code == 200, answer.content
        told: dict[str, Any] = answer.json()
        return told
