"""The entry: one complete snapshot of an action, carried by each of its events.

1. An entry is what `ledger_entry.schema.json` says, formats asserted (R-LE-03, R-LE-04, R-LE-16). That is version 2 of
   the schema. Version 1 (`ledger_entry_1.schema.json`) has no digests of policies; without these, every entry fits it.
2. A mutating action always carries its idempotency block, a gated one its approval block, and one whose recovery has
   begun its recovery block, each complete (R-LE-05, R-LE-06).
3. `amend` lays changes over the entry before, block by block; it never drops a block. Times never run
   backwards (R-LE-12).
4. The idempotency block holds the progress of the mutation: `add_state_blocks` follows every step of the state
   (R-EX-05). 5. Keys and payloads appear as hashes only (R-EX-16, R-LE-20).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

import jsonschema_rs

from ledger.catalogue.rules.effects import SideEffectClass
from ledger.record.rules import record_schemas
from ledger.record.rules.lifecycle import Ground, State
from ledger.record.rules.refusals import Refused

Entry = dict[str, Any]
_ORDER = ("proposed_at", "validated_at", "executed_at", "verified_at", "reconciled_at")
NO_RECOVERY: dict[str, Any] = {
    "recovery_action_id": None,
    "compensation_action_id": None,
    "rollback_action_id": None,
    "incident_id": None,
    "review_id": None,
}


class BadEntry(Refused):
    """The entry does not fit the ledger's schema."""

    code = "BAD_ENTRY"
    status = 422


def _no_reference(uri: str) -> Any:
    raise ValueError(f"a schema must not point elsewhere: {uri}")


SCHEMA: dict[str, Any] = dict(record_schemas.ENTRY.document)
_VALIDATOR = jsonschema_rs.Draft202012Validator(SCHEMA, validate_formats=True, retriever=_no_reference)


def check_entry(entry: Mapping[str, Any]) -> None:
    """Refuse an entry that breaks the schema or whose times run backwards (rules 1 and 3)."""
    # Nearly always there is nothing wrong, which is told in half the time.
    if not _VALIDATOR.is_valid(dict(entry)):
        problem = next(iter(_VALIDATOR.iter_errors(dict(entry))))
        raise BadEntry(f"/{'/'.join(map(str, problem.instance_path))}: {problem.message}")
    reached = [entry["timestamps"][name] for name in _ORDER if entry["timestamps"][name] is not None]
    # Compared as times: two spellings of one offset do not sort as text.
    times = [_time(text) for text in reached]
    if times != sorted(times):
        raise BadEntry("The entry's times run backwards.")


def amend(entry: Mapping[str, Any], changes: Mapping[str, Mapping[str, Any] | str]) -> Entry:
    """The next snapshot: `changes` maps a block to the fields of it that differ (rule 3)."""
    following: Entry = dict(entry)
    for block, fields in changes.items():
        if isinstance(fields, str):
            following[block] = fields
        else:
            before = following.get(block) or (NO_RECOVERY if block == "recovery" else {})
            following[block] = {**before, **fields}
    check_entry(following)
    return following


_IDEMPOTENCY = {
    State.VALIDATED: "PENDING",
    State.RECONCILED_SUCCESS: "COMPLETED",
    State.FAILED: "FAILED_FINAL",
    State.ROLLED_BACK: "FAILED_FINAL",
    State.COMPENSATED: "COMPENSATED",
    State.ABANDONED: "EXPIRED",
}
"""What the idempotency record says once a started mutation is in a state; in any other it says what it said before.

One that a person stopped (ABANDONED) has a record that answers for nothing any more, like one that nobody settled.
"""


_RECOVERING = frozenset({State.COMPENSATING, State.FORWARD_RECOVERY})


def add_state_blocks(
    entry: Mapping[str, Any], changes: Mapping[str, Mapping[str, Any] | str], state: State
) -> Mapping[str, Mapping[str, Any] | str]:
    """Return the changes, completed with those that entering `state` makes to the optional blocks unless they are given
    (rules 2 and 4).

    What was never started has no idempotency status. That a failure may be tried again is for the caller to say: it
    has shown so.
    """
    if state in _RECOVERING:
        changes = {"recovery": {}, **changes}
    status = _IDEMPOTENCY.get(state)
    own = changes.get("idempotency", {})
    started = (entry.get("idempotency") or {}).get("status") is not None
    if status is None or not started or isinstance(own, str) or "status" in own:
        return changes
    return {**changes, "idempotency": {**own, "status": status}}


def view_columns(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of an action's present view that its entry decides."""
    return {
        "discrepancy": entry["reconciliation"]["discrepancy_class"] or "",
        "recovery_decision": entry["reconciliation"]["recovery_decision"] or "",
        "attempt_count": entry["execution"]["attempt_count"],
    }


def is_complete(entry: Mapping[str, Any], *, mutating: bool, gated: bool) -> bool:
    """Return whether the optional blocks that this action must carry are there (rule 2)."""
    return ("idempotency" in entry or not mutating) and ("approval" in entry or not gated)


def allows_grounds(entry: Mapping[str, Any] | None, grounds: Collection[Ground]) -> bool:
    """Return whether a step of this action may rest on these grounds: only a tool that reads changes nothing."""
    if Ground.CHANGES_NOTHING not in grounds:
        return True
    return entry is not None and entry["side_effect_class"] == SideEffectClass.READ_ONLY


def _time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise BadEntry(f"{text} is not a time that the record can compare.") from None
