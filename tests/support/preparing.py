"""Refunds whose order is read before people are asked: the contract, and the worker's ticks with a test's own clock."""

from __future__ import annotations

from typing import Any

from approvals.execution import queries as execution_queries
from approvals.requests.operations import preflight
from ledger.db import tenancy
from reviews.readback.operations import readings, schedules
from tests.support.api_tenant import Clock
from tests.support.refund_shop import Counter, refund_contract

TARGET = {
    "table": "orders",
    "where": {"id": "sr.order_id"},
    "fields": ["status", "tenant"],
    "version_column": "version",
    "tenant_column": "tenant",
}
PREFLIGHT = [
    {"holds": "pre.target.exists", "otherwise": "There is no such order."},
    "pre.target.status == 'paid'",
    "pre.target.tenant == scope.tenant",
]


def prepared_contract(*, approval: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A refund whose order is the baseline; the preflight wants it paid, and of this tenant."""
    document = refund_contract(**changes)
    document["verification"]["lookup"] |= {"target": TARGET}
    return document | {"approval": {"baseline": True, "preflight": PREFLIGHT} | (approval or {})}


def read(clock: Clock) -> None:
    """The readings that are wanted now."""
    for tenant_id, action_id in schedules.requested_readings():
        readings.read_baseline(tenant_id=tenant_id, action_id=action_id, clock=clock.now)


def go_on(clock: Clock) -> None:
    """What waited for a reading, or for too long."""
    for tenant_id, approval_id in execution_queries.preparing_approvals():
        with tenancy(tenant_id):
            preflight.resume(tenant_id=tenant_id, approval_id=approval_id, at=clock.now())


def tick(clock: Clock) -> None:
    read(clock)
    go_on(clock)


def asked(counter: Counter, clock: Clock, **arguments: Any) -> str:
    """An action whose target was read, and about which people are asked."""
    action_id = counter.propose(**arguments)
    tick(clock)
    assert counter.waiting(action_id), counter.history(action_id)
    return action_id
