"""Runs: their steps, what was ordered in them and what is being taken back. Every one runs inside `tenancy`."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from ledger.catalogue.queries import contract_by_digest
from ledger.catalogue.rules import contract as contracts
from ledger.db import execute
from ledger.models import (
    Action,
    Entry,
    Event,
    Order,
    Unwinding,
)
from ledger.record.queries.events import load_json
from ledger.record.queries.evidence import open_evidence


def due_orders(*, at: datetime, proposed: bool, limit: int = 200) -> list[Order]:
    """Recovery actions to propose, or proposed ones whose end to look for, of all tenants, longest due first."""
    found = Order.objects.filter(proposed=proposed, due_at__lte=at)
    return list(found.order_by("due_at", "event_id")[:limit])


def order_details(tenant_id: UUID, action_id: UUID) -> dict[UUID, dict[str, Any]]:
    """What was ordered for an action, by ordering event, oldest first; and what was refused of it, as `refused`."""
    events = Event.objects.filter(tenant_id=tenant_id, subject_id=action_id, kind__in=["ordered", "order_refused"])
    found = list(events.order_by("seq").values_list("kind", "id", "seq", "at"))
    kept = dict(
        Entry.objects.filter(
            tenant_id=tenant_id, subject_id=action_id, seq__in=[seq for _, _, seq, _ in found]
        ).values_list("seq", "detail")
    )
    orders: dict[UUID, dict[str, Any]] = {}
    for kind, event_id, seq, at in found:
        detail = load_json(kept[seq])
        if detail is None:
            # Erased, and with it what was ordered.
            continue
        if kind == "ordered":
            orders[event_id] = detail | {"at": at, "refused": None}
        else:
            orders[UUID(detail["order"])]["refused"] = detail
    return orders


def has_open_order(tenant_id: UUID, action_id: UUID) -> bool:
    """Whether a recovery action is ordered for this one and has not ended."""
    return Order.objects.filter(tenant_id=tenant_id, action_id=action_id).exists()


def unproposed_orders(tenant_id: UUID, action_ids: list[UUID]) -> dict[UUID, dict[str, Any]]:
    """What is ordered for these actions and not proposed yet, by action: the order's detail with its time."""
    waiting = Order.objects.filter(tenant_id=tenant_id, action_id__in=action_ids, proposed=False)
    return {each.action_id: order_details(tenant_id, each.action_id)[each.event_id] for each in waiting}


def proposal_links(tenant_id: UUID, action_ids: list[UUID]) -> dict[UUID, dict[str, Any]]:
    """What each action's first event says of it: its call, what it depends on and what it acknowledges."""
    found = Entry.objects.filter(tenant_id=tenant_id, subject_id__in=action_ids, seq=1)
    return {subject: load_json(detail) or {} for subject, detail in found.values_list("subject_id", "detail")}


def steps_of(tenant_id: UUID, run_id: str, *, limit: int = 500) -> list[Action]:
    """The actions of a run, oldest first, the recovery actions among them."""
    return list(Action.objects.filter(tenant_id=tenant_id, run_id=run_id).order_by("id")[:limit])


def unstarted_steps(tenant_id: UUID, runs: list[str]) -> list[tuple[UUID, str]]:
    """(action, run) of the steps of these runs that have not started."""
    if not runs:
        return []
    found = Action.objects.filter(tenant_id=tenant_id, run_id__in=runs, state="VALIDATED", relation="")
    return list(found.order_by("id").values_list("id", "run_id")[:1000])


def unwinding(tenant_id: UUID, run_id: str) -> Unwinding | None:
    """The taking back of a run, if there is or was one."""
    return Unwinding.objects.filter(tenant_id=tenant_id, run_id=run_id).first()


def open_unwindings(tenant_id: UUID, *states: str) -> list[Unwinding]:
    """The runs that are being taken back and stand so, oldest first."""
    return list(Unwinding.objects.filter(tenant_id=tenant_id, state__in=states).order_by("id"))


def is_unwinding(tenant_id: UUID, run_id: str) -> bool:
    """Whether a run is being taken back or was: nothing new may start in it."""
    return bool(execute("SELECT 1 FROM ledger_unwinding WHERE tenant_id = $1 AND run_id = $2", tenant_id, run_id))


# From one contract to the next: however often each succeeded, it is looked at once.
_RUN_FACTS = """
WITH RECURSIVE succeeded AS (
    (SELECT contract_digest FROM ledger_action WHERE tenant_id = $1 AND run_id = $2 AND state = 'RECONCILED_SUCCESS'
        ORDER BY contract_digest LIMIT 1)
    UNION ALL
    SELECT following.contract_digest FROM succeeded, LATERAL (SELECT a.contract_digest FROM ledger_action a
        WHERE a.tenant_id = $1 AND a.run_id = $2 AND a.state = 'RECONCILED_SUCCESS'
            AND a.contract_digest > succeeded.contract_digest ORDER BY a.contract_digest LIMIT 1) following)
SELECT EXISTS (SELECT FROM ledger_unwinding WHERE tenant_id = $1 AND run_id = $2),
    array(SELECT contract_digest FROM succeeded)
"""


def run_facts(tenant_id: UUID, run_id: str) -> tuple[bool, list[str]]:
    """Whether a run is being taken back, and the digests of the contracts whose actions succeeded in it."""
    unwinding, digests = execute(_RUN_FACTS, tenant_id, run_id)[0]
    return unwinding, digests


def order_plan(tenant_id: UUID, detail: dict[str, Any]) -> dict[str, Any]:
    """The whole plan behind an ordering event's detail."""
    data = open_evidence(tenant_id, UUID(detail["plan"]))
    assert data is not None
    document: dict[str, Any] = orjson.loads(data)
    return document


def has_passed_pivot(tenant_id: UUID, run_id: str) -> bool:
    """Whether a pivot step of the run has succeeded."""
    _, digests = run_facts(tenant_id, run_id)
    return any(is_pivot(tenant_id, digest) for digest in digests)


def is_pivot(tenant_id: UUID, digest: str) -> bool:
    """Whether a contract marks the point of no return of its run."""
    row = contract_by_digest(tenant_id, digest)
    return row is not None and contracts.load_stored(bytes(row.document), expected_digest=digest).pivot
