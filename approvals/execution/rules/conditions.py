"""The conditions of a release, in one ordered list: an action is ready, is claimed and starts by the same ones.

`Condition` is their order. `ReleaseState` holds the values that they are judged by, read again each time: for the list
of ready actions, behind the lock of a claim, and behind the locks of a start (R-AP-24). Each of the three names the
conditions that it judges:

- `WAITED_FOR`: an action for which one of these does not hold waits; the list says for what, and a claim passes it by.
- `ASKED_AGAIN`: where one of these does not hold, a claim asks people again.
- `AT_START`: a start is refused by the first that does not hold. Left out is what stays true as long as a grant lives:
  it names the place of its votes in the log, the back-off is over, and the log was on time when it was minted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from approvals.policy.rules import allowed_hours
from approvals.voting.rules import binding, quorum
from ledger.record.rules.refusals import Refused, UnderMaintenance


class Condition(StrEnum):
    """The conditions of a release, in order; the value describes an action for which it holds."""

    MAINTENANCE = "The installation is not under maintenance."
    RECORD = "The record is not behind a head that was seen before, or a person lets its tool start all the same (B16)."
    AGENT = "The agent may still have this done, by the registry in force (R-CR-14)."
    CONTRACT = "The contract version that it was validated against is in force, unaltered."
    APPROVAL = (
        "Nobody had to be asked, or people approved exactly this, and the time to start it is not over (R-AP-08)."
    )
    SEAL = "The decision on its approval is in a signed checkpoint, where it has to wait for that (B40)."
    FREEZE = "Nothing that it touches is frozen (R-EX-15)."
    UNWINDING = "Its run is not being rolled back."
    OPEN_REPEAT = "No other action of the same operation is open, in doubt or known to have taken effect (R-EX-08)."
    BACK_OFF = "The pause before another attempt is over."
    VERIFICATION = "If it is irreversible, the systems that will tell its outcome answer."
    LOG = "If it is irreversible, the log of the record is not late."
    CLAIM = "No live grant holds it."
    POLICY = "The policy in force, and the log with its votes, are those under which people decided (B16, B17)."
    VOTES = "The votes of people who may still decide are enough, or its standing approval still covers it (B18)."
    HOURS = "The allowed hours have begun."
    READING = "The state before it was read lately, where its contract or a restore wants that (R-RC-09)."

    @property
    def word(self) -> str:
        """The name under which an action waits for it."""
        return self.name.lower()


WAITED_FOR = (
    Condition.MAINTENANCE,
    Condition.RECORD,
    Condition.AGENT,
    Condition.CONTRACT,
    Condition.APPROVAL,
    Condition.SEAL,
    Condition.FREEZE,
    Condition.UNWINDING,
    Condition.OPEN_REPEAT,
    Condition.BACK_OFF,
    Condition.VERIFICATION,
    Condition.LOG,
    Condition.CLAIM,
    Condition.HOURS,
)
ASKED_AGAIN = (Condition.POLICY, Condition.VOTES)
AT_START = (
    Condition.MAINTENANCE,
    Condition.RECORD,
    Condition.AGENT,
    Condition.CONTRACT,
    Condition.APPROVAL,
    Condition.FREEZE,
    Condition.UNWINDING,
    Condition.OPEN_REPEAT,
    Condition.VERIFICATION,
    Condition.POLICY,
    Condition.VOTES,
    Condition.HOURS,
)


class DuplicateBlocked(Refused):
    """A repeat is refused: the same operation is open, in doubt, or settled by a person as having taken effect."""

    code = "DUPLICATE_BLOCKED"


class RunTakenBack(Refused):
    """This run is being rolled back; no new action starts in it."""

    code = "RUN_TAKEN_BACK"


class SystemUnverifiable(Refused):
    """The system that would verify the outcome is down, and the action is irreversible; it is held until then."""

    code = "SYSTEM_UNVERIFIABLE"


class OutsideHours(Refused):
    """Approved, but the policy does not release it at this hour."""

    code = "OUTSIDE_HOURS"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalState:
    """The state of an action's approval and the terms of its request.

    `refusal` is the reason why it does not authorise exactly this action now, or None.
    """

    refusal: Refused | None
    is_sealed: bool
    terms: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionState:
    """The state of a decision to let an action start: whether it was made under another policy or log than those in
    force, and the refusal if the votes or the standing approval behind it no longer count.
    """

    policy_changed: bool
    refusal: Refused | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseState:
    """The values by which the conditions are judged at the time `at`; `approval` is None if nobody had to be asked.

    `maintenance` is whether it is under way; `record` and `agent` are the refusals of those two, if any. The last three
    are None where they were not read, and then their conditions cannot be judged.
    """

    at: datetime
    maintenance: bool
    record: Refused | None
    agent: Refused | None
    contract_in_force: bool
    approval: ApprovalState | None
    frozen: bool
    unwinding: bool
    repeated: bool
    blocks_until: datetime | None
    unverifiable: bool
    reserved: bool
    log_late: bool | None = None
    decision: DecisionState | None = None
    needs_reading: bool | None = None


class NotRead(ValueError):
    """A condition was judged whose values were not read."""


def unmet_conditions(state: ReleaseState, among: Collection[Condition] = tuple(Condition)) -> Iterator[Condition]:
    """Those of these conditions that do not hold, in order."""
    return (each for each in Condition if each in among and not _HOLDS[each](state))


def refusal_at_start(state: ReleaseState, among: Collection[Condition] = AT_START) -> Refused | None:
    """The refusal of the first condition of a start that does not hold, or None."""
    unmet = next(unmet_conditions(state, among), None)
    return _REFUSALS[unmet](state) if unmet is not None else None


def _require_read(value: bool | None) -> bool:
    if value is None:
        raise NotRead
    return value


def _decision(state: ReleaseState) -> DecisionState:
    if state.decision is None:
        raise NotRead
    return state.decision


def _approval_refusal(state: ReleaseState) -> Refused | None:
    return state.approval.refusal if state.approval is not None else None


def _hours_are_open(approval: ApprovalState, *, at: datetime) -> bool:
    return allowed_hours.are_open(quorum.read_terms(approval.terms).hours, at=at)


_HOLDS: Mapping[Condition, Callable[[ReleaseState], bool]] = {
    Condition.MAINTENANCE: lambda state: not state.maintenance,
    Condition.RECORD: lambda state: state.record is None,
    Condition.AGENT: lambda state: state.agent is None,
    Condition.CONTRACT: lambda state: state.contract_in_force,
    Condition.APPROVAL: lambda state: _approval_refusal(state) is None,
    # What is not approved waits for people, and not yet for the seal.
    Condition.SEAL: lambda state: (
        _approval_refusal(state) is not None or state.approval is None or state.approval.is_sealed
    ),
    Condition.FREEZE: lambda state: not state.frozen,
    Condition.UNWINDING: lambda state: not state.unwinding,
    Condition.OPEN_REPEAT: lambda state: not state.repeated,
    Condition.BACK_OFF: lambda state: state.blocks_until is None or state.blocks_until <= state.at,
    Condition.VERIFICATION: lambda state: not state.unverifiable,
    Condition.LOG: lambda state: not _require_read(state.log_late),
    Condition.CLAIM: lambda state: not state.reserved,
    Condition.POLICY: lambda state: not _decision(state).policy_changed,
    Condition.VOTES: lambda state: _decision(state).refusal is None,
    Condition.HOURS: lambda state: state.approval is None or _hours_are_open(state.approval, at=state.at),
    Condition.READING: lambda state: not _require_read(state.needs_reading),
}
_REFUSALS: Mapping[Condition, Callable[[ReleaseState], Refused | None]] = {
    Condition.MAINTENANCE: lambda _: UnderMaintenance(),
    Condition.RECORD: lambda state: state.record,
    Condition.AGENT: lambda state: state.agent,
    Condition.CONTRACT: lambda _: binding.ContractChanged(),
    Condition.APPROVAL: _approval_refusal,
    Condition.FREEZE: lambda _: binding.TargetFrozen(),
    Condition.UNWINDING: lambda _: RunTakenBack(),
    Condition.OPEN_REPEAT: lambda _: DuplicateBlocked(),
    Condition.VERIFICATION: lambda _: SystemUnverifiable(),
    Condition.POLICY: lambda _: binding.PolicyChanged(),
    Condition.VOTES: lambda state: _decision(state).refusal,
    Condition.HOURS: lambda _: OutsideHours(),
}
