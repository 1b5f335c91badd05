"""The recovery table as data: its rows, its vocabulary, and the versioned policy that it is part of.

1. Rows are tried in their order; the first whose inputs all match decides (R-RP-25). A row that names a trigger is
   matched by any of the words that a finding asks in. The last row matches everything and holds (R-RP-23).
2. A row names the states to pass. They are joined to the state that an action is in by legal steps only (C-06, C-09,
   C-10); what lies before that state on the way has been walked.
3. A tenant's version of the policy may bring its own rows in the same vocabulary, hold rows for a person, and say
   what runs without one (D10). A version is checked whole before it is put in force.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import Any

from ledger.record.rules.canonical import canonical, digest
from ledger.record.rules.lifecycle import TRANSITIONS, State
from reviews.recovery.rules.remedies import RELATIONS

_S = State

_LISTED = frozenset(
    {
        "side_effect_class",
        "reversibility",
        "transaction_boundary",
        "read_consistency",
        "idempotency_status",
        "execution_phase",
        "effect_domain",
    }
)

_REMEMBERED = 4096


@dataclass(frozen=True)
class RecoveryRow:
    """One row of the recovery table."""

    id: str
    trigger: str
    finding: str
    condition: str | None
    inputs: Mapping[str, Any]
    action: str
    paths: tuple[tuple[State, ...], ...]
    effects: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class RecoverySituation:
    """The inputs of the table: the finding, the contract's terms, and the present state."""

    triggers: frozenset[str]
    side_effect_class: str
    reversibility: str
    transaction_boundary: str
    read_consistency: str | None = None
    idempotency_status: str | None = None
    execution_phase: str = "PENDING"
    effect_domain: str = "OTHER"
    within_consistency_window: bool = False
    within_sla: bool = True
    pivot_committed: bool = False
    mutating: bool = True
    externally_visible: bool = False
    equivalent_and_allowed: bool = False
    no_op_success_allowed: bool = False
    retry_safe: bool = False
    effect_committed: bool = False
    compensation_available: bool = False


@dataclass(frozen=True, eq=False)
class RecoveryPolicy:
    """One version of the recovery policy: the table's rows in order, and the actions that run without a person.

    `digest` names the rows that decided, whatever a later release builds in. A mutation has `max_attempts` in all: with
    the one that is built in, none is tried again without a person.
    """

    rows: tuple[RecoveryRow, ...]
    digest: str
    automatic: frozenset[State] = frozenset(RELATIONS)
    hold: frozenset[str] = frozenset()
    max_attempts: int = 1
    max_read_attempts: int = 3
    _matched: dict[RecoverySituation, RecoveryRow] = field(default_factory=dict, repr=False)

    def match(self, situation: RecoverySituation) -> RecoveryRow:
        """The first row that fits (rule 1)."""
        found = self._matched.get(situation)
        if found is None:
            found = next(row for row in self.rows if _fits(row, situation))
            if len(self._matched) < _REMEMBERED:
                self._matched[situation] = found
        return found


def _row(row: Mapping[str, Any]) -> RecoveryRow:
    return RecoveryRow(
        id=row["id"],
        trigger=row["inputs"]["trigger"],
        finding=row["finding"],
        condition=row["condition"],
        inputs={key: value for key, value in row["inputs"].items() if key != "trigger"},
        action=row["action"],
        paths=tuple(tuple(map(State, path)) for path in row["state_paths"]),
        effects=tuple(row["effects"]),
    )


TABLE: dict[str, Any] = json.loads(files("reviews.recovery.rules").joinpath("recovery_table.json").read_bytes())
"""The table that is built in, with its vocabulary and the strategies that reviewers read (R-RP-41)."""

ROWS: tuple[RecoveryRow, ...] = tuple(map(_row, TABLE["rows"]))
"""Its rows, in the order in which they are tried."""

_TRIGGERS = {row.id: row.trigger for row in ROWS}


def trigger_of(row_id: str | None) -> str:
    """The trigger of the built-in row with that id; empty for a tenant's own row."""
    return _TRIGGERS.get(row_id or "", "")


BUILT_IN = RecoveryPolicy(ROWS, digest(canonical(TABLE["rows"])))


@lru_cache(maxsize=64)
def parse_policy(document: bytes) -> RecoveryPolicy:
    """The policy in the bytes of a version that was checked when it was put in force."""
    plain = json.loads(document)
    table = plain.get("table", "built-in")
    named = frozenset(map(State, plain.get("automatic", sorted(RELATIONS))))
    hold = frozenset(plain.get("hold", ()))
    attempts = {name: plain[name] for name in ("max_attempts", "max_read_attempts") if name in plain}
    if table == "built-in":
        return RecoveryPolicy(ROWS, BUILT_IN.digest, named, hold, **attempts)
    return RecoveryPolicy(tuple(map(_row, table)), digest(canonical(table)), named, hold, **attempts)


def parse_rows(rows: Sequence[Mapping[str, Any]], *, expected_digest: str) -> tuple[RecoveryRow, ...]:
    """Return the rows of a table from outside; raise `ValueError` unless they match the digest."""
    if digest(canonical(rows)) != expected_digest:
        raise ValueError("the rows are not those of their digest")
    return tuple(map(_row, rows))


def policy_faults(document: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the faults of the table in a policy to be put in force; none for the built-in table (rule 3)."""
    table = document.get("table", "built-in")
    rows = TABLE["rows"] if table == "built-in" else table
    found = (
        [] if table == "built-in" else [fault for place, row in enumerate(rows) for fault in _row_faults(place, row)]
    )
    known = {row["id"] for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)}
    for place, name in enumerate(document.get("hold", ())):
        if name not in known:
            found.append(_fault(f"/hold/{place}", f"There is no row {name}."))
    return found or _whole_faults(rows)


_VOCABULARY: dict[str, Any] = TABLE["inputs"]

_ACTIONS = frozenset(row["action"] for row in TABLE["rows"])

_FLAGS = frozenset(_VOCABULARY["flags"])

_TEXTS = ("id", "finding", "action")


def _fault(path: str, detail: str) -> dict[str, str]:
    return {"path": path, "code": "BAD_ROW", "detail": detail}


def _row_faults(place: int, row: Any) -> Iterator[dict[str, str]]:
    path = f"/table/{place}"
    if not isinstance(row, dict) or any(not isinstance(row.get(name), str) for name in _TEXTS):
        yield _fault(path, "A row is an object with id, finding, condition, inputs, action, state_paths and effects.")
        return
    inputs, paths, effects = row.get("inputs"), row.get("state_paths"), row.get("effects")
    if row["action"] not in _ACTIONS:
        yield _fault(f"{path}/action", f"There is no action {row['action']}.")
    if not isinstance(effects, list) or any(not isinstance(each, str) for each in effects):
        yield _fault(f"{path}/effects", "The effects are a list of text.")
    if not isinstance(inputs, dict) or inputs.get("trigger") not in _VOCABULARY["trigger"]:
        yield _fault(f"{path}/inputs", "The inputs name one known trigger.")
        return
    yield from _input_faults(f"{path}/inputs", inputs)
    if not _are_paths(paths):
        yield _fault(f"{path}/state_paths", "The ways are lists of states that can be walked from PENDING.")


def _input_faults(path: str, inputs: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    for name, value in inputs.items():
        if name not in ("trigger", "any_of") and not _is_known(name, value):
            yield _fault(f"{path}/{name}", "This is not in the table's vocabulary.")
    parts = inputs.get("any_of", [])
    known = isinstance(parts, list) and all(
        isinstance(part, dict) and all(_is_known(name, value) for name, value in part.items()) for part in parts
    )
    if not known:
        yield _fault(f"{path}/any_of", "The alternatives are objects in the table's vocabulary.")


def _is_known(name: str, value: Any) -> bool:
    if name in _FLAGS:
        return isinstance(value, bool)
    return name in _LISTED and isinstance(value, list) and all(each in _VOCABULARY[name] for each in value)


def _are_paths(paths: Any) -> bool:
    if not isinstance(paths, list) or not paths:
        return False
    try:
        for path in paths:
            legal_path(_S.PENDING, tuple(map(State, path)))
    except (ValueError, KeyError, TypeError):
        return any(paths == row["state_paths"] for row in TABLE["rows"])
    return True


def _whole_faults(rows: Sequence[Any]) -> list[dict[str, str]]:
    last = rows[-1]
    if last["inputs"] != {"trigger": "*"} or last["action"] != "HOLD_AND_ESCALATE":
        return [_fault("/table", "The last row must hold whatever no other row matches: trigger *, HOLD_AND_ESCALATE.")]
    ids = [row["id"] for row in rows]
    twice = next((name for name in ids if ids.count(name) > 1), None)
    return [_fault("/table", f"The row {twice} is there twice.")] if twice else []


def _fits(row: RecoveryRow, situation: RecoverySituation) -> bool:
    named = row.trigger == "*" or row.trigger in situation.triggers
    return named and all(_agrees(key, value, situation) for key, value in row.inputs.items())


def _agrees(key: str, wanted: Any, situation: RecoverySituation) -> bool:
    if key == "any_of":
        return any(all(_agrees(name, value, situation) for name, value in part.items()) for part in wanted)
    given = getattr(situation, key)
    return given in wanted if key in _LISTED else given is wanted


# Where a row's first state is not one step away, these lie between (C-06, C-09, C-10).
_BETWEEN: dict[tuple[State, State], State] = {
    (_S.ACCEPTED, _S.COMMITTED): _S.PENDING,
    (_S.ACCEPTED, _S.VERIFICATION_TIMEOUT): _S.PENDING,
    (_S.ACCEPTED, _S.FAILED): _S.PENDING,
    (_S.ACCEPTED, _S.RECONCILIATION_FAILED): _S.PENDING,
    (_S.ACCEPTED, _S.REVIEW_REQUIRED): _S.UNKNOWN,
    (_S.PENDING, _S.RECONCILIATION_FAILED): _S.COMMITTED,
    (_S.PENDING, _S.REVIEW_REQUIRED): _S.UNKNOWN,
    (_S.UNKNOWN, _S.COMMITTED): _S.PENDING,
    (_S.UNKNOWN, _S.VERIFICATION_TIMEOUT): _S.PENDING,
    (_S.UNKNOWN, _S.FAILED): _S.PENDING,
}


def legal_path(state: State, way: tuple[State, ...]) -> tuple[State, ...]:
    """Return the states to pass through from `state` so that every step is legal (rule 2).

    What lies before the present state on the way has been walked. A way that cannot be joined is a
    mistake in the table.
    """
    if state in way:
        way = way[len(way) - way[::-1].index(state) :]
    path: list[State] = []
    here = state
    for target in way:
        while (here, target) not in TRANSITIONS:
            here = _BETWEEN[here, target]
            path.append(here)
        path.append(target)
        here = target
    return tuple(path)
