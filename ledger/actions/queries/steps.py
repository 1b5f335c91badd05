"""Steps of a run as the gate needs them: which ones block the next call, and what they may have changed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import orjson

from ledger.actions.queries.conditions import IS_OPEN, in_states
from ledger.db import execute, pipeline, select
from ledger.models import Action
from ledger.record.queries import events, evidence
from ledger.record.rules import encryption
from ledger.record.rules.lifecycle import OPEN, State

_ENDED_OTHERWISE = sorted(map(str, frozenset(State) - OPEN - {State.RECONCILED_SUCCESS}))
# While a read is in one of these, nobody has heard its answer.
_UNANSWERED = sorted(map(str, (State.PROPOSED, State.VALIDATED, State.EXECUTING, State.ACCEPTED)))

# Each has an index of just the rows that it can find: what a run has behind it is not read again for its next call.
_UNOBSERVED = (
    "SELECT id, CASE WHEN contradicted THEN 'CONTRADICTED' ELSE state END FROM ledger_action"
    f" WHERE tenant_id = $1 AND run_id = $2 AND target = $3 AND {IS_OPEN} AND relation = ''"
    f" AND (mutating OR {in_states('state', _UNANSWERED)}) ORDER BY id LIMIT 20"
)
_FAILED = (
    "SELECT id FROM ledger_action WHERE tenant_id = $1 AND run_id = $2 AND relation = '' AND mutating AND NOT noticed"
    f" AND ({in_states('state', _ENDED_OTHERWISE)} OR (state = 'RECONCILED_SUCCESS' AND reversed))"
    " ORDER BY id LIMIT 20"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedVersion:
    """What a reading found at a target: which version, and when."""

    version: str
    seen_at: datetime


def blocking_steps(tenant_id: UUID, run_id: str, target: str) -> tuple[list[tuple[UUID, str]], list[UUID]]:
    """(id, state) of the steps of a run on a target of which nobody knows yet what came of them; and the steps of the
    run that ended without their effect, or whose effect was taken back, unacknowledged.
    """
    unobserved, failed = pipeline(
        (_UNOBSERVED, tenant_id, run_id, target),
        (_FAILED, tenant_id, run_id),
    )
    return [(action_id, state) for action_id, state in unobserved], [action_id for (action_id,) in failed]


def acknowledged_failures(tenant_id: UUID, action_ids: list[UUID]) -> set[UUID]:
    """Those of these actions about whose failure a decision is on record."""
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
    return [found for pointer in pointers if pointer and (found := _found(tenant_id, UUID(pointer))) is not None]


def _found(tenant_id: UUID, pointer: UUID) -> ObservedVersion | None:
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
