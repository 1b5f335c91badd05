"""Simulation: the decisions of an approval or autonomy policy about past calls (R-RG-13).

1. A call is decided again from its facts of then: its contract, its arguments, its agent, what its session had done so
   far, the time. The two policies are those of its time, but for the one that is simulated.
2. The order is the gate's: the autonomy boundary, the approval policy, the budgets. A remedy knows only the second.
3. Budgets are added up over the calls that are simulated, in their order, from nothing: what was spent before the
   period is not known of a budget that did not exist.
4. Each call is decided on its own. An agent that is refused goes on otherwise, and nobody can tell how.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from approvals.gate.rules.malformed import Malformed
from approvals.policy.rules import autonomy, policy
from approvals.policy.rules.autonomy import AutonomyPolicy
from approvals.policy.rules.policy import ApprovalPolicy
from approvals.policy.rules.policy_facts import Facts
from ledger.catalogue.rules.contract import Contract


class PolicyOutcome(StrEnum):
    """The outcome of a call under the policies."""

    LET_THROUGH = "LET_THROUGH"
    HELD = "HELD"
    REFUSED = "REFUSED"


_OUTCOMES = {"auto": PolicyOutcome.LET_THROUGH, "hold": PolicyOutcome.HELD, "refuse": PolicyOutcome.REFUSED}


@dataclass(frozen=True, kw_only=True)
class PastCall:
    """A past call: the facts and the policies of its time, and its outcome."""

    action_id: UUID
    at: datetime
    contract: Contract
    facts: Facts
    session: str
    is_remedy: bool
    outcome: PolicyOutcome
    approval: ApprovalPolicy
    autonomy: AutonomyPolicy


@dataclass(frozen=True, kw_only=True)
class SimulatedCall:
    """A past call with its simulated decision and the reason."""

    call: PastCall
    outcome: PolicyOutcome
    reason: str

    @property
    def is_touched(self) -> bool:
        """Return whether its outcome would have been different."""
        return self.outcome is not self.call.outcome


def simulate_calls(
    calls: Iterable[PastCall], *, approval: ApprovalPolicy | None = None, boundary: AutonomyPolicy | None = None
) -> Iterator[SimulatedCall]:
    """These calls, oldest first, decided again under the policy that is given (rules 1 to 4)."""
    used: Counter[tuple[str, str, str, datetime]] = Counter()
    for call in calls:
        outcome, reason = _decide(call, approval or call.approval, boundary or call.autonomy, used)
        yield SimulatedCall(call=call, outcome=outcome, reason=reason)


def _decide(
    call: PastCall,
    approval: ApprovalPolicy,
    boundary: AutonomyPolicy,
    used: Counter[tuple[str, str, str, datetime]],
) -> tuple[PolicyOutcome, str]:
    if not call.is_remedy:
        outside = autonomy.check_boundary(boundary, call.contract, call.facts)
        if outside is not None:
            return PolicyOutcome.REFUSED, outside.message
    wanted = policy.decide_call(call.contract, approval, call.facts)
    if wanted.outcome != "refuse" and not call.is_remedy:
        short = _charge(call, boundary, used)
        if short is not None:
            return PolicyOutcome.REFUSED, short.message
    return _OUTCOMES[wanted.outcome], wanted.refusal or ", ".join(wanted.reasons)


def _charge(
    call: PastCall, boundary: AutonomyPolicy, used: Counter[tuple[str, str, str, datetime]]
) -> Malformed | None:
    """Charge the cost of a call, or name the budget that does not suffice and charge nothing (rule 3)."""
    found = autonomy.charges(boundary, call.contract, call.facts, session=call.session)
    if isinstance(found, Malformed):
        return found
    places = [((each.holder, each.budget, each.unit, each.window_from), each) for each in found]
    for place, each in places:
        if used[place] + each.amount > each.most:
            return autonomy.refuse_charge(each)
    for place, each in places:
        used[place] += each.amount
    return None
