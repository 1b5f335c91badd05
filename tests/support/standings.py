"""Actions as their present view stands: every state by every way of getting there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

from ledger.record.rules.lifecycle import State
from ledger.record.rules.outcomes import ATTESTED_REVERSAL, BY_KIND, BY_STATE, NO_OP, Outcome, outcome_of


@dataclass(frozen=True)
class Standing:
    """The columns that an outcome follows from."""

    state: State = State.RECONCILED_SUCCESS
    reached_by: str = "reconciled"
    side_effect_class: str = "HIGH_RISK_EXTERNAL"
    approval_id: str | None = "an approval"
    contradicted: bool = False
    reversed: bool = False
    discrepancy: str = ""


def every_standing() -> list[Standing]:
    """Every state by every kind of event that makes a difference to it and by one that makes none."""
    ways = [*BY_KIND, *((state, "otherwise") for state in BY_STATE)]
    found = [
        Standing(state, kind, effect, approval, contradicted)
        for (state, kind), effect, approval, contradicted in product(
            ways, ("HIGH_RISK_EXTERNAL", "READ_ONLY"), ("an approval", None), (False, True)
        )
    ]
    turned = ("compensated", ATTESTED_REVERSAL, "attested_absent")
    no_op = [replace(each, discrepancy=NO_OP) for each in found]
    return [*found, *no_op, *(Standing(reached_by=kind, reversed=True) for kind in turned)]


EXAMPLES: dict[Outcome, Standing] = {outcome_of(each): each for each in every_standing()}
"""One action of every outcome."""
