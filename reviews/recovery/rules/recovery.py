"""Recovery decisions: made by the recovery policy alone (R-RP-01 to R-RP-50).

1. The first row of the policy's table that fits decides, and nothing else may; the same situation always
   gives the same row (R-RP-22; `recovery_table`).
2. The row's states are joined to the state that the action is in; a row that ends where the action
   already is changes nothing.
3. Where a row names two ways: roll back only a local transaction that nobody outside could see, and
   where that can be done or has been done (nothing is there any more); else compensate. Retry only
   where a retry is shown to be safe.
4. What a row wants may have to wait for a person: from HIGH_RISK_EXTERNAL up always (C-63), without a
   remedy, without anything to reverse, after a recovery action of its own, and where the policy says
   so, by row or by state. The decision then says what was wanted and why it is held, and ends in
   REVIEW_REQUIRED.
5. A rollback is ordered while the action is RECONCILIATION_FAILED; only a reading that shows the target
   unchanged leads to ROLLED_BACK (C-02).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ledger.catalogue.rules.effects import SideEffectClass
from ledger.record.rules.lifecycle import State
from reviews.recovery.rules.recovery_table import BUILT_IN, RecoveryPolicy, RecoveryRow, RecoverySituation, legal_path
from reviews.recovery.rules.remedies import NAMES, RELATIONS, RecoveryOrder

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


def no_remedy(wanted: State) -> tuple[RecoveryOrder, ...] | str:
    """The plan of a contract that names no tools."""
    return f"The contract names no tool for a {NAMES[RELATIONS[wanted]]}."


@dataclass(frozen=True, kw_only=True)
class RecoveryOptions:
    """The recovery that is possible here without a person.

    `plan` answers for a wanted state with the orders that lead there, or with the reason why there are none; it is
    called only where a row wants one.

    `effect_seen` says whether there is anything to reverse or finish; `absent` that a strong read shows nothing;
    `safe_without_effect` that a compensation does nothing where nothing was done (C-61); `is_remedy` that the action
    is itself a recovery action.
    """

    plan: Callable[[State], tuple[RecoveryOrder, ...] | str] = no_remedy
    high_impact: bool = False
    local: bool = False
    effect_seen: bool = True
    absent: bool = False
    safe_without_effect: bool = False
    is_remedy: bool = False


@dataclass(frozen=True, kw_only=True)
class RecoveryDecision:
    """The policy's decision: the row, the recovery that it wants, and the states to pass from here.

    `row` None: no discrepancy, nothing to recover. `orders` are the recovery actions to propose, in their order.
    `wanted` and `held_because` say what a held decision would have done and why a person must settle it first. `table`
    is the digest of the rows that decided; it is empty where an earlier decision merely continues.
    """

    row: str | None
    action: str | None
    path: tuple[State, ...] = ()
    case: bool = False
    incident: str | None = None
    freeze: bool = False
    next_read: bool = False
    orders: tuple[RecoveryOrder, ...] = ()
    wanted: State | None = None
    held_because: str | None = None
    table: str = ""

    @property
    def held(self) -> bool:
        """Return whether a person must settle it first."""
        return self.held_because is not None

    @property
    def text(self) -> str | None:
        """The decision as the ledger writes it: row and action (R-RP-24)."""
        return None if self.row is None else f"{self.row} {self.action}"


def decide_recovery(
    situation: RecoverySituation, *, state: State, means: RecoveryOptions, policy: RecoveryPolicy = BUILT_IN
) -> RecoveryDecision:
    """The decision for an action in `state` (rules 1 to 5)."""
    row = policy.match(situation)
    path = legal_path(state, _way(row, situation, means))
    orders: tuple[RecoveryOrder, ...] = ()
    wanted: State | None = None
    held_because: str | None = None
    last = path[-1] if path else state
    if last in RELATIONS:
        wanted, done = last, last is _S.ROLLED_BACK and means.absent
        orders, held_because = ((), None) if done else _plan_orders(row, last, means, policy)
    if held_because is not None:
        path = (*path[:-1], _S.REVIEW_REQUIRED)
    elif orders and last is _S.ROLLED_BACK:
        path = path[:-1]
    ends_in_review = bool(path) and path[-1] is _S.REVIEW_REQUIRED
    critical = situation.side_effect_class == SideEffectClass.CRITICAL_MUTATION
    return RecoveryDecision(
        row=row.id,
        action=row.action,
        path=path,
        # Beside a recovery that runs, a review is opened where the class's own triggers ask for it (R-RP-50).
        case=ends_in_review,
        incident=_INCIDENTS.get(row.action),
        # A critical mutation fails closed: what is held is also stopped (R-VD-06).
        freeze=row.action in _FREEZES or (critical and ends_in_review),
        next_read=row.action in _READS_AGAIN,
        orders=orders,
        wanted=wanted,
        held_because=held_because,
        table=policy.digest,
    )


def _way(row: RecoveryRow, situation: RecoverySituation, means: RecoveryOptions) -> tuple[State, ...]:
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


def _plan_orders(
    row: RecoveryRow, wanted: State, means: RecoveryOptions, policy: RecoveryPolicy
) -> tuple[tuple[RecoveryOrder, ...], str | None]:
    """Return the orders that the row asks for, or the reason why it must wait for a person (rule 4)."""
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
