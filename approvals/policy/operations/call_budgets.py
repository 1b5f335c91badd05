"""Charges a call to its budgets atomically, also under concurrency.

The caller has locked the call's session; whatever is counted per agent stands behind the lock of the agent's row. Every
call takes them in this order, so no two wait for each other, and each reads what the one before has left.
"""

from __future__ import annotations

from uuid import UUID

from approvals.policy.rules.autonomy import Charge
from ledger.db import execute, savepoint

_TAKE = (
    "INSERT INTO approvals_spending AS s (tenant_id, holder, budget, unit, window_from, used)"
    " VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (tenant_id, holder, budget, unit, window_from)"
    " DO UPDATE SET used = s.used + excluded.used WHERE s.used + excluded.used <= $7 RETURNING used"
)


class _NotEnough(Exception):
    def __init__(self, charge: Charge) -> None:
        self.charge = charge


def charge_budgets(*, tenant_id: UUID, agent_id: str, charges: tuple[Charge, ...], kept: bool) -> Charge | None:
    """Take these charges, or name the first that a budget has not enough left for, and take none.

    Unless `kept`, they are given back at once: a dry run asks and spends nothing.
    """
    if not charges:
        return None
    execute(
        "SELECT id FROM approvals_agent WHERE tenant_id = $1 AND agent_id = $2 FOR NO KEY UPDATE", tenant_id, agent_id
    )
    try:
        with savepoint():
            for charge in charges:
                _take(tenant_id, charge)
            if not kept:
                raise _GivenBack
    except _NotEnough as refusal:
        return refusal.charge
    except _GivenBack:
        return None
    return None


class _GivenBack(Exception):
    pass


def _take(tenant_id: UUID, charge: Charge) -> None:
    # A row that is not there yet holds nothing; what one call needs alone was never more than there is.
    if charge.amount > charge.most:
        raise _NotEnough(charge)
    place = (tenant_id, charge.holder, charge.budget, charge.unit, charge.window_from)
    if not execute(_TAKE, *place, charge.amount, charge.most):
        raise _NotEnough(charge)
