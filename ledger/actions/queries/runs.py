"""Reads runs: their steps, recovery orders and unwinding. All functions run inside `tenancy`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import orjson
from django.db.models import Count, Min, QuerySet
from django.db.models.expressions import RawSQL

from ledger.actions.queries.actions import IS_OPEN, in_states, open_duplicates_sql
from ledger.actions.queries.freezes import COVERS
from ledger.catalogue.queries import contract_by_digest
from ledger.catalogue.rules import contract as contracts
from ledger.db import execute, select
from ledger.models import (
    Action,
    Entry,
    Event,
    RecoveryOrder,
    RunRollback,
)
from ledger.record.queries import events, evidence
from ledger.record.queries.events import load_json
from ledger.record.queries.evidence import open_evidence
from ledger.record.queries.work import HELD_TENANTS
from ledger.record.rules import encryption
from ledger.record.rules.lifecycle import OPEN, State


def due_orders(*, at: datetime, proposed: bool, limit: int = 200) -> list[RecoveryOrder]:
    """Due orders of all tenants, longest due first: those to propose, or proposed ones whose end is awaited."""
    found = _orders().filter(proposed=proposed, due_at__lte=at)
    return list(found.order_by("due_at", "event_id")[:limit])


def waiting_orders(*, most: int = 10_000) -> tuple[int, datetime | None]:
    """Count the orders of all tenants that nobody has proposed yet, up to `most`, and when the first was placed."""
    waiting = _orders().filter(proposed=False)[:most]
    found = waiting.aggregate(count=Count("event_id"), first=Min("placed_at"))
    return found["count"], found["first"]


def _orders() -> QuerySet[RecoveryOrder]:
    return RecoveryOrder.objects.exclude(tenant_id__in=RawSQL(HELD_TENANTS, ()))


def order_details(tenant_id: UUID, action_id: UUID) -> dict[UUID, dict[str, Any]]:
    """The orders for an action, by ordering event, oldest first; `refused` holds the refusal of one."""
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
            # The detail was erased, and the order with it.
            continue
        if kind == "ordered":
            orders[event_id] = detail | {"at": at, "refused": None}
        else:
            orders[UUID(detail["order"])]["refused"] = detail
    return orders


def has_open_order(tenant_id: UUID, action_id: UUID) -> bool:
    """Return whether a recovery action is ordered for this one and has not ended."""
    return RecoveryOrder.objects.filter(tenant_id=tenant_id, action_id=action_id).exists()


def unproposed_orders(tenant_id: UUID, action_ids: list[UUID]) -> dict[UUID, dict[str, Any]]:
    """The orders for these actions that are not proposed yet, by action: the order's detail with its time."""
    waiting = select(RecoveryOrder, "tenant_id = $1 AND action_id = ANY($2) AND NOT proposed", tenant_id, action_ids)
    return {each.action_id: order_details(tenant_id, each.action_id)[each.event_id] for each in waiting}


def proposal_links(tenant_id: UUID, action_ids: list[UUID]) -> dict[UUID, dict[str, Any]]:
    """The detail of each action's first event: its call, its dependencies and its acknowledgements."""
    first = "SELECT subject_id, detail FROM ledger_entry WHERE tenant_id = $1 AND subject_id = ANY($2) AND seq = 1"
    return {subject: load_json(detail) or {} for subject, detail in execute(first, tenant_id, action_ids)}


def steps_of(tenant_id: UUID, run_id: str, *, limit: int = 500) -> list[Action]:
    """The actions of a run, oldest first, including recovery actions."""
    return select(Action, "tenant_id = $1 AND run_id = $2 ORDER BY id LIMIT $3", tenant_id, run_id, limit)


def unstarted_steps(tenant_id: UUID, runs: list[str]) -> list[tuple[UUID, str]]:
    """(action, run) of the steps of these runs that have not started."""
    if not runs:
        return []
    found = Action.objects.filter(tenant_id=tenant_id, run_id__in=runs, state="VALIDATED", relation="")
    return list(found.order_by("id").values_list("id", "run_id")[:1000])


def unwinding(tenant_id: UUID, run_id: str) -> RunRollback | None:
    """The unwinding of a run, if there is or was one."""
    return RunRollback.objects.filter(tenant_id=tenant_id, run_id=run_id).first()


def open_unwindings(tenant_id: UUID, *states: str) -> list[RunRollback]:
    """The unwindings in these states, oldest first."""
    return list(RunRollback.objects.filter(tenant_id=tenant_id, state__in=states).order_by("id"))


def is_unwinding(tenant_id: UUID, run_id: str) -> bool:
    """Return True if a run is or was being unwound: nothing new may start in it."""
    return bool(execute("SELECT 1 FROM ledger_unwinding WHERE tenant_id = $1 AND run_id = $2", tenant_id, run_id))


# A skip scan: each contract is looked up once, however often it succeeded.
_SUCCEEDED = """
WITH RECURSIVE succeeded AS (
    (SELECT contract_digest FROM ledger_action WHERE tenant_id = $1 AND run_id = $2 AND phase = 'RECONCILED_SUCCESS'
        ORDER BY contract_digest LIMIT 1)
    UNION ALL
    SELECT following.contract_digest FROM succeeded, LATERAL (SELECT a.contract_digest FROM ledger_action a
        WHERE a.tenant_id = $1 AND a.run_id = $2 AND a.phase = 'RECONCILED_SUCCESS'
            AND a.contract_digest > succeeded.contract_digest ORDER BY a.contract_digest LIMIT 1) following)
"""
_RUN_FACTS = f"""{_SUCCEEDED}
SELECT EXISTS (SELECT FROM ledger_unwinding WHERE tenant_id = $1 AND run_id = $2),
    array(SELECT contract_digest FROM succeeded)
"""


def run_facts(tenant_id: UUID, run_id: str) -> tuple[bool, list[str]]:
    """Return whether a run is being unwound, and the digests of the contracts whose actions succeeded in it."""
    unwinding, digests = execute(_RUN_FACTS, tenant_id, run_id)[0]
    return unwinding, digests


def order_plan(tenant_id: UUID, detail: dict[str, Any]) -> dict[str, Any]:
    """The plan that an ordering event's detail refers to."""
    data = open_evidence(tenant_id, UUID(detail["plan"]))
    assert data is not None
    document: dict[str, Any] = orjson.loads(data)
    return document


def has_passed_pivot(tenant_id: UUID, run_id: str) -> bool:
    """Return whether a pivot step of the run has succeeded."""
    _, digests = run_facts(tenant_id, run_id)
    return any(is_pivot(tenant_id, digest) for digest in digests)


def is_pivot(tenant_id: UUID, digest: str) -> bool:
    """Return whether a contract marks the point of no return of its run."""
    row = contract_by_digest(tenant_id, digest)
    return row is not None and contracts.load_stored(bytes(row.document), expected_digest=digest).pivot


_ENDED_OTHERWISE = sorted(map(str, frozenset(State) - OPEN - {State.RECONCILED_SUCCESS}))
# A read in one of these states has no answer yet.
_UNANSWERED = sorted(map(str, (State.PROPOSED, State.VALIDATED, State.EXECUTING, State.ACCEPTED)))

# Each has a partial index of just its rows, so that finished steps of a run are not read again for its next call.
_UNOBSERVED = (
    "SELECT id, CASE WHEN contradicted THEN 'CONTRADICTED' ELSE state END FROM ledger_action"
    f" WHERE tenant_id = $1 AND run_id = $2 AND target = $3 AND {IS_OPEN} AND relation = ''"
    f" AND (mutating OR {in_states('state', _UNANSWERED)}) ORDER BY id LIMIT 20"
)
_FAILED = (
    "SELECT id FROM ledger_action WHERE tenant_id = $1 AND run_id = $2 AND relation = '' AND mutating AND NOT noticed"
    f" AND ({in_states('phase', _ENDED_OTHERWISE)} OR (phase = 'RECONCILED_SUCCESS' AND reversed))"
    " ORDER BY id LIMIT 20"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedVersion:
    """The version that a reading found at a target, and when."""

    version: str
    seen_at: datetime


class Surroundings(NamedTuple):
    """The state on record around a call's target, read by one statement.

    `freezes` are scope and value of those that cover it; `duplicate` an action of the same logical mutation that
    keeps it from being repeated (R-EX-08); `succeeded` the contracts, by digest, whose actions
    succeeded in the run; `unobserved` are (id, state) of the run's steps on the target whose outcome is not known yet;
    `failed` are its unacknowledged steps that ended without their effect or whose effect was reversed.
    """

    freezes: list[list[str]]
    duplicate: UUID | None
    unwinding: bool
    succeeded: list[str]
    unobserved: list[list[str]]
    failed: list[str]


_SURROUNDINGS = f"""{_SUCCEEDED}
SELECT array(SELECT array[f.scope::text, f.value::text]
        FROM ledger_freeze f, (SELECT $4::text AS agent, $5::text AS tool, $3::text AS target) a
        WHERE f.tenant_id = $1 AND f.lifted_at IS NULL AND {COVERS} ORDER BY f.id),
    (SELECT r.id FROM ({open_duplicates_sql(key="$6", at="$7")}) r ORDER BY r.id DESC LIMIT 1),
    EXISTS (SELECT FROM ledger_unwinding WHERE tenant_id = $1 AND run_id = $2),
    array(SELECT contract_digest::text FROM succeeded),
    array(SELECT array[u.id::text, u.state] FROM ({_UNOBSERVED}) u(id, state)),
    array(SELECT n.id::text FROM ({_FAILED}) n)
"""


def surroundings(
    tenant_id: UUID, run_id: str, target: str, *, agent: str, tool: str, operation_key: str, at: datetime
) -> Surroundings:
    """Read the state on record around the target of a run's next call."""
    [row] = execute(_SURROUNDINGS, tenant_id, run_id, target, agent, tool, operation_key, at)
    return Surroundings(*row)


def acknowledged_failures(tenant_id: UUID, action_ids: list[UUID]) -> set[UUID]:
    """Those of these actions whose failure was acknowledged."""
    rows = execute(
        "SELECT DISTINCT subject_id FROM ledger_event WHERE tenant_id = $1 AND subject_id = ANY($2)"
        " AND kind IN ('failure_acknowledged', 'recovery_acknowledged')",
        *(tenant_id, action_ids),
    )
    return {each for (each,) in rows}


def unacknowledged_failures(tenant_id: UUID, run_id: str, action_ids: list[UUID]) -> list[UUID]:
    """Those of these actions that are failed steps of a run, in the order of their ids, in which they are locked."""
    rows = execute(
        "SELECT id FROM ledger_action WHERE tenant_id = $1 AND run_id = $2 AND id = ANY($3) AND mutating"
        " AND (state = ANY($4) OR reversed) ORDER BY id",
        *(tenant_id, run_id, action_ids, _ENDED_OTHERWISE),
    )
    found = [each for (each,) in rows]
    noticed = acknowledged_failures(tenant_id, found) if found else set()
    return [each for each in found if each not in noticed]


def possible_changes(tenant_id: UUID, targets: list[str], *, since: datetime, limit: int = 200) -> list[Action]:
    """The started mutations of these targets that may have taken effect after `since`, or were contradicted then."""
    return select(
        Action,
        "tenant_id = $1 AND target = ANY($2) AND mutating AND attempt_count > 0"
        " AND (state <> 'FAILED' OR blocks_until > $3 OR contradicted)"
        " AND (coalesce(horizon_at, changed_at) > $3 OR (contradicted AND changed_at > $3)) ORDER BY id DESC LIMIT $4",
        *(tenant_id, targets, since, limit),
    )


def observed_versions(tenant_id: UUID, target: str, *, since: datetime, most: int = 3) -> list[ObservedVersion]:
    """The versions that readings of a target have found since then, of its newest actions."""
    newest = select(
        Action,
        "tenant_id = $1 AND target = $2 AND changed_at > $3 AND attempt_count > 0 ORDER BY id DESC LIMIT $4",
        *(tenant_id, target, since, most),
    )
    entries = events.entries(tenant_id, [(each.id, each.seq) for each in newest])
    pointers = [entry["verification"]["verified_state_pointer"] for entry in entries.values()]
    return [found for pointer in pointers if pointer and (found := _version_read(tenant_id, UUID(pointer))) is not None]


def _version_read(tenant_id: UUID, pointer: UUID) -> ObservedVersion | None:
    try:
        data = evidence.open_evidence(tenant_id, pointer)
    except (encryption.EvidenceErased, encryption.CannotOpen):
        return None
    readings = orjson.loads(data).get("readings") if data is not None else None
    reading = readings[0] if readings else {}
    places = [reading.get("target") or {}, *(each.get("fields") or {} for each in reading.get("effects", ()))]
    version = next((each["version"] for each in places if each.get("version") is not None), None)
    if version is None:
        return None
    return ObservedVersion(version=str(version), seen_at=datetime.fromisoformat(reading["observed_at"]))
