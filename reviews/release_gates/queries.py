"""Reads of the record for the gates of a release. Every one runs inside `tenancy`."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from ledger.catalogue.rules.releases import CanaryFigures, CanaryScope
from ledger.db import execute
from ledger.record.rules.ids import lower_bound
from ledger.record.rules.lifecycle import BLOCKS_REPEAT, OPEN, phases

MOST_ENTRIES = 500
MOST_ACTIONS = 100_000
REPEAT_INDEX = "action_one_open_mutation"


def stored_entries(tenant_id: UUID) -> list[dict[str, Any]]:
    """Return the oldest and the newest entries of actions, this many of each."""
    found: dict[tuple[UUID, int], dict[str, Any]] = {}
    for order in ("ASC", "DESC"):
        rows = execute(
            "SELECT e.subject_id, e.seq, e.entry FROM ledger_action a CROSS JOIN LATERAL (SELECT subject_id, seq, entry"
            " FROM ledger_entry x WHERE x.tenant_id = a.tenant_id AND x.subject_id = a.id AND x.entry IS NOT NULL) e"
            f" WHERE a.tenant_id = $1 ORDER BY a.id {order}, e.seq {order} LIMIT $2",
            *(tenant_id, MOST_ENTRIES),
        )
        found |= {(subject, seq): orjson.loads(bytes(entry)) for subject, seq, entry in rows}
    return list(found.values())


def observation_pointers(tenant_id: UUID) -> list[tuple[UUID, str]]:
    """The pointers of the oldest and newest answers of tools, each with its tool."""
    found: dict[UUID, str] = {}
    for order in ("ASC", "DESC"):
        rows = execute(
            "SELECT o.pointer, a.tool FROM reviews_observation o JOIN ledger_action a ON a.tenant_id = o.tenant_id"
            f" AND a.id = o.action_id WHERE o.tenant_id = $1 ORDER BY o.action_id {order} LIMIT $2",
            *(tenant_id, MOST_ENTRIES // 5),
        )
        found |= dict(rows)
    return list(found.items())


def repeat_block_fault() -> str:
    """Return the fault of the index by which the database refuses a second open mutation; empty if it has none."""
    rows = execute(
        "SELECT i.indisunique AND i.indisvalid AND i.indislive, pg_get_expr(i.indpred, i.indrelid) FROM pg_index i"
        " JOIN pg_class c ON c.oid = i.indexrelid WHERE c.relname = $1 AND c.relnamespace = 'public'::regnamespace",
        REPEAT_INDEX,
    )
    if not rows:
        return f"The index {REPEAT_INDEX} is not there."
    is_sound, condition = rows[0]
    missing = [phase for phase in phases(BLOCKS_REPEAT) if f"'{phase}'" not in (condition or "")]
    if not is_sound:
        return f"The index {REPEAT_INDEX} is not a valid unique one."
    return f"The index {REPEAT_INDEX} leaves out {', '.join(missing)}." if missing else ""


def canary_figures(tenant_id: UUID, scope: CanaryScope, *, until: datetime) -> tuple[CanaryFigures, CanaryFigures]:
    """Return the outcomes of the actions under a canary, and of those outside it; if there are none, of earlier ones.

    An action counts once it is settled, or waits for a person.
    """
    inside, beside = _cohorts(tenant_id, scope, since=scope.since, until=until)
    if beside.ended < scope.actions:
        before = scope.since - (until - scope.since) * 10
        earlier = CanaryScope(tools=scope.tools, share=100, since=before)
        beside = _cohorts(tenant_id, earlier, since=before, until=scope.since)[0]
    return inside, beside


_OPEN = sorted(str(state) for state in OPEN if state not in ("UNKNOWN", "REVIEW_REQUIRED"))


def _cohorts(
    tenant_id: UUID, scope: CanaryScope, *, since: datetime, until: datetime
) -> tuple[CanaryFigures, CanaryFigures]:
    rows = execute(
        "SELECT id, tool, proposed_at, discrepancy <> '', state = 'UNKNOWN', contradicted FROM ledger_action"
        " WHERE tenant_id = $1 AND id >= $2 AND id < $3 AND attempt_count > 0"
        " AND (settled OR state = 'REVIEW_REQUIRED' OR NOT state = ANY($4)) ORDER BY id LIMIT $5",
        *(tenant_id, lower_bound(since), lower_bound(until), [*_OPEN, "UNKNOWN"], MOST_ACTIONS),
    )
    counted = {True: [0, 0, 0, 0], False: [0, 0, 0, 0]}
    for action_id, tool, proposed_at, differs, unknown, contradicted in rows:
        is_in = scope.covers(tenant_id=tenant_id, tool=tool, action_id=action_id, proposed_at=proposed_at)
        if not is_in and scope.tools and tool not in scope.tools:
            continue
        for place, counts in enumerate((True, differs, unknown, contradicted)):
            counted[is_in][place] += bool(counts)
    names = ("ended", "discrepancies", "unknown", "false_success")
    inside, beside = (CanaryFigures(**dict(zip(names, counted[each], strict=True))) for each in (True, False))
    return inside, beside
