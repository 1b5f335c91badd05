"""The source data of the figures, as lines that an outsider can count again (docs/metrics.md).

Codes, states, times and hashes of the record, and nothing that erasing takes: no argument, answer, target or person.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import chain
from typing import Any, Final
from uuid import UUID

import orjson

from approvals.gate import queries as gate
from console.metrics import queries
from ledger.actions.queries import actions
from ledger.catalogue import queries as catalogue
from ledger.record.queries import events
from ledger.record.rules.envelope import instant
from ledger.verification.queries import storage
from reviews import queries as after

FORMAT: Final = "counterfoil-metric-source"
VERSION: Final = 1
_AT_A_TIME: Final = 1_000


def source_lines(tenant_id: UUID, *, at: datetime) -> Iterator[bytes]:
    """A head, then every action, then every call, oldest first. Inside `tenancy`."""
    counted_to = queries.counted_to(tenant_id)
    head = {
        "format": FORMAT,
        "version": VERSION,
        "tenant": str(tenant_id),
        "made_at": instant(at),
        "counted_to": instant(counted_to) if counted_to else None,
        "verification_policies": [
            {"digest": digest, "version": version}
            for digest, version in catalogue.policy_versions_by_digest(tenant_id, "verification").items()
        ],
        "tools": [
            {"tool": tool, "class": kind, "registered_at": instant(since)}
            for tool, kind, since in catalogue.first_classes(tenant_id)
        ],
    }
    return (_line(each) for each in chain([head], _actions(tenant_id), _calls(tenant_id)))


def _actions(tenant_id: UUID) -> Iterator[dict[str, Any]]:
    last = storage.NOTHING_BEFORE
    while found := actions.action_ids(tenant_id, after=last, limit=_AT_A_TIME):
        last = found[-1]
        steps = events.action_steps(tenant_id, found)
        runs = after.reading_codes(tenant_id, found)
        reported = after.completions_reported_on(tenant_id, [step[0] for each in steps.values() for step in each])
        for action_id, row in sorted(actions.actions_by_id(tenant_id, found).items()):
            yield {
                "action": str(action_id),
                "tool": row.tool,
                "agent": row.agent,
                "class": row.side_effect_class,
                "events": [_event_line(step, reported) for step in steps.get(action_id, ())],
                "readings": [
                    {"result": result, "discrepancy": discrepancy, "consistency": consistency, "at": instant(when)}
                    for result, discrepancy, consistency, when in runs.get(action_id, ())
                ],
            }


def _event_line(step: tuple[Any, ...], reported: set[UUID]) -> dict[str, Any]:
    event_id, seq, kind, start, state, at, prev, entry_hash, commits_entry, verification = step
    return {
        "id": str(event_id),
        "seq": seq,
        "kind": kind,
        "from": start,
        "to": state,
        "at": instant(at),
        "prev": prev.hex() if prev is not None else None,
        "hash": entry_hash.hex(),
        "entry": bool(commits_entry),
        "verification": verification,
        "told_completed": event_id in reported,
    }


def _calls(tenant_id: UUID) -> Iterator[dict[str, Any]]:
    last = storage.NOTHING_BEFORE
    while found := gate.call_codes(tenant_id, after=last, limit=_AT_A_TIME):
        last = found[-1][0]
        for call_id, at, tool, agent, accepted, code, category, action_id in found:
            yield {
                "call": str(call_id),
                "at": instant(at),
                "tool": tool,
                "agent": agent,
                "accepted": accepted,
                "code": code,
                "category": category,
                "action": str(action_id) if action_id is not None else None,
            }


def _line(value: dict[str, Any]) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)
