"""Plans remedies: which recovery actions a decision orders, in which order, with which arguments (R-RP-31 to 33).

1. Compensation reverses what was found, the last effect first; forward recovery finishes what is missing, the first
   effect first; a rollback undoes the whole.
2. A contract with remedies per effect must have one for each effect concerned. Without any, one remedy for the whole
   does. What has no remedy is for a person.
3. Arguments come from the layers of the run that decided: nothing is guessed. An expression without a value means that
   the remedy cannot be ordered.
4. A recovery action counts only when its own verification says so (R-RP-47): success is done; any other end, and a
   hold of its own, is a failure of the recovery; whatever is still open is waited for.
5. A correction makes good one difference that a decisive reading showed, with the tool that the contract names for that
   kind of difference. It is ordered by a person only. A call that would repeat the request is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from ledger.catalogue.rules import remedies
from ledger.catalogue.rules.expressions import NoValue
from ledger.catalogue.rules.remedies import CORRECTION_VARIABLES, Recovery, Relation, Remedy
from ledger.record.rules.lifecycle import State
from reviews.reconciliation.rules.difference import EffectDifference

RELATIONS = {
    State.COMPENSATING: Relation.COMPENSATION,
    State.FORWARD_RECOVERY: Relation.FORWARD,
    State.ROLLED_BACK: Relation.ROLLBACK,
}
NAMES = {
    Relation.COMPENSATION: "compensation",
    Relation.FORWARD: "forward recovery",
    Relation.ROLLBACK: "rollback",
    Relation.CORRECTION: "correction",
}


@dataclass(frozen=True, kw_only=True)
class RecoveryOrder:
    """One recovery action to propose: its tool and arguments, and the effect it is about (None: the whole)."""

    relation: Relation
    tool: str
    arguments: Mapping[str, Any]
    effect: str | None = None


@dataclass(frozen=True, kw_only=True)
class PlanBasis:
    """The basis of a plan: the contract's remedies, the parameters of each named tool, and the layers."""

    recovery: Recovery
    tools: Mapping[str, frozenset[str]]
    layers: Mapping[str, Mapping[str, Any]]


def plan_recovery(
    footing: PlanBasis, relation: Relation, *, concerned: Sequence[str]
) -> tuple[RecoveryOrder, ...] | str:
    """The orders of a recovery, first one first, or why there can be none; `concerned` in the contract's order."""
    name = NAMES[relation]
    single = [effect for effect in concerned if footing.recovery.remedy(relation, effect) is not None]
    if not single:
        whole = _order(footing, relation, None)
        return (whole,) if isinstance(whole, RecoveryOrder) else whole
    missing = [effect for effect in concerned if effect not in single]
    if missing:
        return f"The contract names no tool for a {name} of {', '.join(missing)}."
    backward = relation is Relation.COMPENSATION
    orders: list[RecoveryOrder] = []
    for effect in reversed(single) if backward else single:
        order = _order(footing, relation, effect)
        if isinstance(order, str):
            return order
        orders.append(order)
    return tuple(orders)


CORRECT: Final = "CORRECT"
"""A person's decision to have a difference corrected, as the action's entry names it."""


@dataclass(frozen=True, kw_only=True)
class Correction:
    """A difference and the orders that make it good."""

    difference: EffectDifference
    orders: tuple[RecoveryOrder, ...]


_UNTOLD = "The newest decisive reading shows no single difference that a correction could make good."


def plan_correction(footing: PlanBasis, difference: EffectDifference | None, *, tool: str) -> Correction | str:
    """The correction of a difference, or why there can be none (rule 5); `tool` is the one that was called."""
    if difference is None:
        return _UNTOLD
    remedy = footing.recovery.corrections.get(difference.kind)
    if remedy is None:
        return f"The contract names no tool that corrects this difference ({difference.kind})."
    request = footing.layers.get("sr", {})
    orders: list[RecoveryOrder] = []
    for each in difference.bindings(request):
        layers = {**{name: {} for name in CORRECTION_VARIABLES}, **footing.layers, "diff": each}
        order = _fill(replace(footing, layers=layers), remedy, Relation.CORRECTION, difference.effect)
        if isinstance(order, str):
            return order
        if remedy.tool == tool and dict(order.arguments) == dict(request):
            return f"A call of {tool} with the same arguments would repeat the request."
        orders.append(order)
    return Correction(difference=difference, orders=tuple(orders))


def _order(footing: PlanBasis, relation: Relation, effect: str | None) -> RecoveryOrder | str:
    remedy = footing.recovery.remedy(relation, effect)
    if remedy is None:
        return f"The contract names no tool for a {NAMES[relation]}."
    return _fill(footing, remedy, relation, effect)


def _fill(footing: PlanBasis, remedy: Remedy, relation: Relation, effect: str | None) -> RecoveryOrder | str:
    known = footing.tools.get(remedy.tool)
    if known is None:
        return f"The tool {remedy.tool} is not registered."
    request = footing.layers.get("sr", {})
    try:
        arguments = remedies.remedy_arguments(remedy, request=request, known=known, layers=footing.layers)
    except NoValue as missing:
        return f"The arguments of {remedy.tool} cannot be told. {missing.detail}"
    return RecoveryOrder(relation=relation, tool=remedy.tool, arguments=arguments, effect=effect)


class RemedyOutcome(StrEnum):
    """The state of an ordered recovery action."""

    OPEN = "OPEN"
    DONE = "DONE"
    FAILED = "FAILED"


_ENDED_BADLY = frozenset(
    {
        State.FAILED,
        State.ABANDONED,
        State.ROLLED_BACK,
        State.COMPENSATED,
        State.COMPENSATION_FAILED,
        State.REVIEW_REQUIRED,
    }
)


def remedy_outcome(state: State, *, settled: bool, contradicted: bool) -> RemedyOutcome:
    """The outcome of a recovery action, by its state (rule 4)."""
    if state is State.RECONCILED_SUCCESS:
        return RemedyOutcome.FAILED if contradicted else RemedyOutcome.DONE
    if state in _ENDED_BADLY or (state is State.UNKNOWN and settled):
        return RemedyOutcome.FAILED
    return RemedyOutcome.OPEN
