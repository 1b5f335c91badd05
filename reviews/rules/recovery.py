"""Recovery: what the policy decides, and nothing else may (R-RP-01 to R-RP-50).

1. The table is data (`recovery_table.json`); its rows are tried in their order and the first whose
   inputs all match decides (R-RP-25). A row that names several triggers' words is matched by any of
   them. Nothing matches: RT-99 holds (R-RP-23). The same situation always gives the same row (R-RP-22).
2. A row names the states to pass. They are joined to the state that the action is in by legal steps
   only (C-06, C-09, C-10); a row that ends where the action already is changes nothing.
3. Where a row names two ways: roll back only a local transaction that nobody outside could see, and
   where that can be done or has been done (nothing is there any more); else compensate. Retry only
   where a retry is shown to be safe.
4. What a row wants may have to wait for a person: from HIGH_RISK_EXTERNAL up always (C-63), without a
   remedy, without anything to reverse, after a recovery action of its own, and where the policy says
   so, by row or by state. The decision then says what was wanted and why it is held, and ends in
   REVIEW_REQUIRED.
5. A rollback is ordered while the action is RECONCILIATION_FAILED; only a reading that shows the target
   unchanged leads to ROLLED_BACK (C-02).
6. The table is part of a versioned policy (D10): a tenant's version may bring its own rows, in the same
   vocabulary and with the same last row, hold rows for a person, and say what runs without one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import Any

from ledger.rules.canonical import canonical, digest
from ledger.rules.effects import SideEffectClass
from ledger.rules.lifecycle import TRANSITIONS, State
from reviews.rules.remedies import NAMES, RELATIONS, Order

_S = State
_READS_AGAIN = frozenset(
    {
        "RETRY_VERIFICATION",
        "FORCE_STRONG_READ",
        "POLL_IDEMPOTENCY_RECORD",
        "VERIFY_FROM_RECORD",
        "HOLD_PENDING_AND_RETRY_VERIFICATION",
    }
)
_FREEZES = frozenset({"FREEZE_AND_ALERT", "FREEZE_AND_ALARM", "FREEZE_AND_RECONCILE_MANUALLY"})
_INCIDENTS = {
    "FREEZE_AND_ALERT": "operations",
    "FREEZE_AND_ALARM": "security",
    "MANUAL_REVIEW_AND_INCIDENT": "operations",
}
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


@dataclass(frozen=True)
class Row:
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
class Situation:
    """The inputs of the table: what was found, what the contract says, and how things stand."""

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


def no_remedy(wanted: State) -> tuple[Order, ...] | str:
    """The plan of a contract that names no tools."""
    return f"The contract names no tool for a {NAMES[RELATIONS[wanted]]}."


@dataclass(frozen=True, kw_only=True)
class Means:
    """What can be done without a person here. `plan` answers for a wanted state with the orders that lead there, or
    with the reason why there are none; it is asked only where a row wants one.

    `effect_seen` says whether there is anything to reverse or finish; `absent` that a strong read shows nothing;
    `safe_without_effect` that a compensation does nothing where nothing was done (C-61); `is_remedy` that the action
    is itself a recovery action.
    """

    plan: Callable[[State], tuple[Order, ...] | str] = no_remedy
    high_impact: bool = False
    local: bool = False
    effect_seen: bool = True
    absent: bool = False
    safe_without_effect: bool = False
    is_remedy: bool = False


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What the policy decided: the row, what it wants, and the states to pass from here.

    `row` None: no discrepancy, nothing to recover. `orders` are the recovery actions to propose, in their order.
    `wanted` and `held_because` say what a held decision would have done and why a person must settle it first.
    """

    row: str | None
    action: str | None
    path: tuple[State, ...] = ()
    case: bool = False
    incident: str | None = None
    freeze: bool = False
    next_read: bool = False
    orders: tuple[Order, ...] = ()
    wanted: State | None = None
    held_because: str | None = None

    @property
    def held(self) -> bool:
        """Whether a person must settle it before what was wanted can happen."""
        return self.held_because is not None

    @property
    def text(self) -> str | None:
        """The decision as the ledger writes it: row and action (R-RP-24)."""
        return None if self.row is None else f"{self.row} {self.action}"


@dataclass(frozen=True, eq=False)
class Policy:
    """One version of the recovery policy: the table's rows in their order, and what runs without a person.

    `digest` names the rows that decided, whatever a later release builds in.
    """

    rows: tuple[Row, ...]
    digest: str
    automatic: frozenset[State] = frozenset(RELATIONS)
    hold: frozenset[str] = frozenset()
    _matched: dict[Situation, Row] = field(default_factory=dict, repr=False)

    def match(self, situation: Situation) -> Row:
        """The first row that fits (rule 1)."""
        found = self._matched.get(situation)
        if found is None:
            found = next(row for row in self.rows if _fits(row, situation))
            if len(self._matched) < _REMEMBERED:
                self._matched[situation] = found
        return found


_REMEMBERED = 4096


def _row(row: Mapping[str, Any]) -> Row:
    return Row(
        id=row["id"],
        trigger=row["inputs"]["trigger"],
        finding=row["finding"],
        condition=row["condition"],
        inputs={key: value for key, value in row["inputs"].items() if key != "trigger"},
        action=row["action"],
        paths=tuple(tuple(map(State, path)) for path in row["state_paths"]),
        effects=tuple(row["effects"]),
    )


TABLE: dict[str, Any] = json.loads(files("reviews.rules").joinpath("recovery_table.json").read_bytes())
"""The table that is built in, with its vocabulary and the strategies that reviewers read (R-RP-41)."""

ROWS: tuple[Row, ...] = tuple(map(_row, TABLE["rows"]))
"""Its rows, in the order in which they are tried."""

BUILT_IN = Policy(ROWS, digest(canonical(TABLE["rows"])))


@lru_cache(maxsize=64)
def parse(document: bytes) -> Policy:
    """The policy in the bytes of a version that was checked when it was put in force."""
    plain = json.loads(document)
    table = plain.get("table", "built-in")
    named = frozenset(map(State, plain.get("automatic", sorted(RELATIONS))))
    hold = frozenset(plain.get("hold", ()))
    if table == "built-in":
        return Policy(ROWS, BUILT_IN.digest, named, hold)
    return Policy(tuple(map(_row, table)), digest(canonical(table)), named, hold)


def _fits(row: Row, situation: Situation) -> bool:
    named = row.trigger == "*" or row.trigger in situation.triggers
    return named and all(_agrees(key, value, situation) for key, value in row.inputs.items())


def _agrees(key: str, wanted: Any, situation: Situation) -> bool:
    if key == "any_of":
        return any(all(_agrees(name, value, situation) for name, value in part.items()) for part in wanted)
    given = getattr(situation, key)
    return given in wanted if key in _LISTED else given is wanted


def decide(situation: Situation, *, state: State, means: Means, policy: Policy = BUILT_IN) -> Decision:
    """The decision for an action in `state` (rules 1 to 5)."""
    row = policy.match(situation)
    path = joined(state, _way(row, situation, means))
    orders: tuple[Order, ...] = ()
    wanted: State | None = None
    held_because: str | None = None
    last = path[-1] if path else state
    if last in RELATIONS:
        wanted, done = last, last is _S.ROLLED_BACK and means.absent
        orders, held_because = ((), None) if done else _ordered(row, last, means, policy)
    if held_because is not None:
        path = (*path[:-1], _S.REVIEW_REQUIRED)
    elif orders and last is _S.ROLLED_BACK:
        path = path[:-1]
    ends_in_review = bool(path) and path[-1] is _S.REVIEW_REQUIRED
    critical = situation.side_effect_class == SideEffectClass.CRITICAL_MUTATION
    return Decision(
        row=row.id,
        action=row.action,
        path=path,
        # R-RP-50: below HIGH_RISK_EXTERNAL the recovery runs and a review is opened beside it.
        case=ends_in_review or wanted is not None,
        incident=_INCIDENTS.get(row.action),
        # A critical mutation fails closed: what is held is also stopped (R-VD-06).
        freeze=row.action in _FREEZES or (critical and ends_in_review),
        next_read=row.action in _READS_AGAIN,
        orders=orders,
        wanted=wanted,
        held_because=held_because,
    )


def _way(row: Row, situation: Situation, means: Means) -> tuple[State, ...]:
    """The one of a row's ways that fits (rule 3)."""
    for path in row.paths:
        if path[-1] is _S.ROLLED_BACK and means.local and not situation.externally_visible:
            undone = means.absent or not isinstance(means.plan(_S.ROLLED_BACK), str)
            if undone or isinstance(means.plan(_S.COMPENSATING), str):
                return path
    first = row.paths[0]
    if first == (_S.FAILED, _S.VALIDATED) and not situation.retry_safe:
        return first[:1]
    return first


def _ordered(row: Row, wanted: State, means: Means, policy: Policy) -> tuple[tuple[Order, ...], str | None]:
    """The orders of what the row wants, or why it must wait for a person (rule 4)."""
    name = NAMES[RELATIONS[wanted]]
    safe = wanted is _S.COMPENSATING and means.safe_without_effect
    if means.is_remedy:
        return (), "It is a recovery action itself; what it left behind is for a person."
    if not means.effect_seen and not safe:
        return (), f"Nothing was found that a {name} could act on."
    orders = means.plan(wanted)
    if isinstance(orders, str):
        return (), orders
    if means.high_impact:
        return (), f"From HIGH_RISK_EXTERNAL up, a {name} waits for a person."
    if wanted not in policy.automatic:
        return (), f"The recovery policy runs no {name} without a person."
    if row.id in policy.hold:
        return (), f"The recovery policy holds {row.id} for a person."
    return orders, None


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


def joined(state: State, way: tuple[State, ...]) -> tuple[State, ...]:
    """The states to pass from `state` so that the way is walked by legal steps (rule 2).

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
