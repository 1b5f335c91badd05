"""A contract of a tool that refunds orders; `refund_shop` has the shop in which it does."""

from __future__ import annotations

from typing import Any

TOOL = "refund_order"


def refund_contract(*, verification: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A contract of the refund tool; a test changes what it is about."""
    effect = {
        "table": "refunds",
        "where": {"key": "scope.idempotency_key"},
        "tenant_column": "tenant",
        "target_column": "order_id",
        "fields": ["id", "amount", "currency", "status", "actor"],
    }
    base = {
        "name": TOOL,
        "version": "1",
        "schema_version": "1",
        "wrapper_version": "1",
        "description": "Refund an order. Use when: money is owed. NOT for: chargebacks.",
        "arguments_schema": {
            "type": "object",
            "required": ["order_id", "amount", "currency"],
            "additionalProperties": False,
            "properties": {
                "order_id": {"type": "string", "pattern": "^EX-[0-9]{4}$"},
                "amount": {"type": "integer", "minimum": 1},
                "currency": {"enum": ["EUR", "USD"]},
            },
        },
        "side_effect_class": "HIGH_RISK_EXTERNAL",
        "effect_domain": "FINANCIAL",
        "target_resource": "order/{order_id}",
        "operation_kind": "refund",
        "required_effects": ["refund"],
        "verification": {
            "pattern": "databases",
            "system": "till",
            "sources": ["payment_ledger"],
            "lookup": {"effects": {"refund": effect}},
            "predicates": ["sa.amount == sr.amount", "sa.currency == sr.currency", "sa.status == 'succeeded'"],
            "polling": {"first_after_s": 1, "backoff": 1, "max_interval_s": 5, "sla_s": 300},
            "settle_s": 2,
        }
        | (verification or {}),
        "claims": {"done": ["refunded"], "object": ["refund"]},
    }
    return base | changes
