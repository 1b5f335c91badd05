"""Standing approvals: people agree once, for a while, to actions of one exact shape that have proved right each time.

1. There are none unless the approval policy has `standing_approvals`.
2. One is offered only after so many approvals of the shape in a row that were all verified: people approved each of
   them, unedited, it ran once, the system of record showed what was asked for, and nothing later contradicts it. What
   is still on its way neither counts nor breaks the row. A rejection, an edit, a use of break-glass, a discrepancy or a
   retry breaks it.
3. Some things always take a person: the class CRITICAL_MUTATION, what its contract marks with `approval_required`,
   what nobody can read back, a tool or a rule that the policy names in `always_ask`, what takes a passkey's signature
   (level A) or more than two people, and, unless the policy says `irreversible`, what cannot be taken back. So does a
   call on which a condition of the policy could not be told, whose session misbehaved, or whose goal contradicts its
   payload.
4. Two persons agree to it, one proposes and one answers, and their two votes would have to be enough for one action
   of the shape under the policy in force.
5. It has an end date and a budget: a count, and a sum where there is money.
6. The first trouble on anything that passed under it pauses it, and so does a freeze or an incident in its scope and
   any change of the contract, the agent or a policy.
7. What was paused because of an action, the contract or the agent is never taken up again: it must be earned anew. The
   rest goes on when two persons agree again, and never by itself.
8. A time-boxed pass is a standing approval that one person gives from one request that waits for their vote: for an
   hour at most, with a count, only where the policy has `time_boxes`, and only where rule 3 leaves it and their vote
   alone would approve such a call. It is never resumed, and nothing passes or starts under it after its end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from approvals.standing.rules.shapes import Shape
from approvals.voting.rules.binding import NotEligible
from approvals.voting.rules.quorum import ApprovalTerms, Ballot, tally_votes
from ledger.people.rules.confirmation import SecondPersonNeeded
from ledger.record.rules.lifecycle import State
from ledger.record.rules.refusals import Refused


class StandingState(StrEnum):
    """The state of a standing approval."""

    PROPOSED = "PROPOSED"
    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    DECLINED = "DECLINED"
    ENDED = "ENDED"


class EndReason(StrEnum):
    """The reason why a standing approval ended."""

    DATE = "DATE"
    BUDGET = "BUDGET"
    BY_HAND = "BY_HAND"


class PauseReason(StrEnum):
    """The reason why a standing approval was paused."""

    DISCREPANCY = "DISCREPANCY"
    LATE_TRUTH = "LATE_TRUTH"
    OUTCOME = "OUTCOME"
    DRIFT = "DRIFT"
    FREEZE = "FREEZE"
    INCIDENT = "INCIDENT"
    CONTRACT = "CONTRACT"
    AGENT = "AGENT"
    POLICY = "POLICY"
    BY_HAND = "BY_HAND"


PAUSE_SENTENCES: Mapping[PauseReason, str] = {
    PauseReason.DISCREPANCY: "An action that passed under it is not as the system of record shows.",
    PauseReason.LATE_TRUTH: "A later reading contradicts an action that passed under it.",
    PauseReason.OUTCOME: "An action that passed under it did not end as a verified success.",
    PauseReason.DRIFT: "The target of an action that passed under it had changed before the start.",
    PauseReason.FREEZE: "A freeze covers its agent or its tool.",
    PauseReason.INCIDENT: "An incident concerns an action that passed under it.",
    PauseReason.CONTRACT: "Another version of the tool's contract is in force.",
    PauseReason.AGENT: "The agent was registered anew or revoked.",
    PauseReason.POLICY: "A policy has changed since people agreed to it.",
    PauseReason.BY_HAND: "Somebody paused it.",
}


RESUMABLE = frozenset({PauseReason.FREEZE, PauseReason.INCIDENT, PauseReason.POLICY, PauseReason.BY_HAND})
"""The reasons after which two persons may let it go on (rule 7)."""


class NotOffered(Refused):
    """No standing approval of this shape is offered: it is not earned, or one of this scope exists."""

    code = "STANDING_NOT_OFFERED"


class OfferChanged(Refused):
    """The offer is not the one that was shown any more: the evidence, the contract or a policy has changed."""

    code = "OFFER_CHANGED"


class BudgetOutsidePolicy(Refused):
    """The budget or the end date is outside of what the approval policy allows."""

    code = "BUDGET_OUTSIDE_POLICY"
    status = 422


class TimeBoxNotAllowed(Refused):
    """No time-boxed pass can be given from this request."""

    code = "TIME_BOX_NOT_ALLOWED"


class NotInThisState(Refused):
    """A standing approval in this state does not allow that."""

    code = "WRONG_STATE"


@dataclass(frozen=True, kw_only=True)
class TimeBoxPolicy:
    """The limits of a time-boxed pass (rule 8)."""

    most_minutes: int
    most_count: int


@dataclass(frozen=True, kw_only=True)
class StandingPolicy:
    """The approval policy's rules for standing approvals; without them there are none."""

    after: int = 10
    most_passes: int = 20
    most_days: int = 30
    irreversible: bool = False
    always_ask: frozenset[str] = frozenset()
    time_boxes: TimeBoxPolicy | None = None


def read_policy(document: Mapping[str, Any]) -> StandingPolicy | None:
    """The block `standing_approvals` of an approval policy's document (rule 1)."""
    said = document.get("standing_approvals")
    if said is None:
        return None
    boxes = said.get("time_boxes")
    read = {
        "always_ask": frozenset(said.get("always_ask", ())),
        "time_boxes": None if boxes is None else TimeBoxPolicy(**boxes),
    }
    return StandingPolicy(**{**said, **read})


@dataclass(frozen=True, kw_only=True)
class DecidedAction:
    """An action that was decided on, with its present result; newest first in every list here."""

    action_id: str
    state: str
    approval_state: str
    voted: bool
    edited: bool
    broke_glass: bool
    passed: bool
    attempts: int
    discrepancy: str
    contradicted: bool
    reversed: bool
    follows_up: bool


_UNDER_WAY = frozenset(
    map(str, (State.PROPOSED, State.VALIDATED, State.EXECUTING, State.ACCEPTED, State.PENDING, State.COMMITTED))
)
_SUCCESS = str(State.RECONCILED_SUCCESS)


def earned_row(decided: Iterable[DecidedAction]) -> list[DecidedAction]:
    """The newest approvals in a row that were all verified (rule 2)."""
    row = []
    for each in decided:
        if failure_of(each) is not None or each.approval_state == "REJECTED" or each.edited or each.broke_glass:
            break
        if each.state in _UNDER_WAY or each.passed or each.follows_up or _never_ran(each):
            continue
        if each.state != _SUCCESS or not each.voted or each.attempts != 1:
            break
        row.append(each)
    return row


def failure_of(each: DecidedAction) -> PauseReason | None:
    """The known failure of an action; None for one that succeeded or is under way."""
    if each.contradicted or each.reversed:
        return PauseReason.LATE_TRUTH
    if each.discrepancy:
        return PauseReason.DISCREPANCY
    if each.state in _UNDER_WAY or each.state == _SUCCESS or _never_ran(each):
        return None
    return PauseReason.OUTCOME


def _never_ran(each: DecidedAction) -> bool:
    """Return True if it was approved and then cancelled or not started in time, which is no evidence about such
    actions.
    """
    return each.state == State.FAILED and each.attempts == 0


_ALWAYS_A_PERSON = {
    "CRITICAL_MUTATION": "Critical mutations always take a person.",
    "CONTRACT": "Its contract says that a person always approves it.",
    "UNVERIFIABLE": "Nobody can read back what it does.",
}


def reason_for_a_person(
    policy: StandingPolicy | None, *, tool: str, reasons: Collection[str], terms: ApprovalTerms
) -> str:
    """The reason why an action always needs a person (rule 3); empty if a standing approval may cover it."""
    if policy is None:
        return "The approval policy has no standing approvals."
    for reason in reasons:
        kind, _, name = reason.partition(" ")
        if kind in _ALWAYS_A_PERSON:
            return _ALWAYS_A_PERSON[kind]
        if kind == "UNDECIDABLE":
            return f"The rule “{name}” of the approval policy cannot be told for it."
        if kind == "IRREVERSIBLE" and not policy.irreversible:
            return "It cannot be taken back, and the approval policy lets a person approve that each time."
        if kind == "RULE" and name in policy.always_ask:
            return f"The rule “{name}” of the approval policy always asks a person."
    if tool in policy.always_ask:
        return "The approval policy always asks a person about this tool."
    if terms.votes_wanted > 2:
        return "It takes more than two people each time."
    return "It takes the signature of a passkey each time." if terms.step_up == "A" else ""


def check_two_persons(terms: ApprovalTerms, proposer: Ballot, second: Ballot) -> None:
    """Refuse two persons who are not allowed to agree (rule 4)."""
    if second.person == proposer.person or second.voter == proposer.voter:
        raise SecondPersonNeeded
    if tally_votes(terms, [proposer, second]).state != "approved":
        raise NotEligible(
            "The votes of these two persons would not be enough for one such action, so they cannot agree to many."
        )


@dataclass(frozen=True, kw_only=True)
class StandingBudget:
    """The limits of a standing approval: the number, the sum (`sum_minor`, if there is money) and the end."""

    count: int
    sum_minor: int | None
    ends_at: datetime


def check_budget(wanted: StandingBudget, shape: Shape, policy: StandingPolicy, *, at: datetime) -> None:
    """Refuse a budget outside the policy, with every fault (rule 5)."""
    latest, faults = at + timedelta(days=policy.most_days), []
    if not 1 <= wanted.count <= policy.most_passes:
        faults.append(("/count", f"Between 1 and {policy.most_passes} actions may pass."))
    if not at < wanted.ends_at <= latest:
        faults.append(("/ends_at", f"It ends within {policy.most_days} days, and not in the past."))
    if (shape.most_minor is None) != (wanted.sum_minor is None):
        there = shape.most_minor is not None
        faults.append(("/sum_minor", "Say how much money may pass in all." if there else "There is no money in it."))
    elif wanted.sum_minor is not None and not 1 <= wanted.sum_minor <= wanted.count * (shape.most_minor or 0):
        faults.append(("/sum_minor", "The sum is at least 1 and at most the count times the largest amount."))
    if faults:
        raise BudgetOutsidePolicy(
            errors=[{"path": path, "code": "BUDGET", "detail": detail} for path, detail in faults]
        )


def check_time_box(*, minutes: int, count: int, policy: TimeBoxPolicy) -> None:
    """Refuse a time box outside the policy, with every fault (rule 8)."""
    limits = {
        "/minutes": (minutes, policy.most_minutes, "It lasts between 1 and {} minutes."),
        "/count": (count, policy.most_count, "Between 1 and {} actions may pass."),
    }
    faults = [
        {"path": path, "code": "BUDGET", "detail": text.format(most)}
        for path, (wanted, most, text) in limits.items()
        if not 1 <= wanted <= most
    ]
    if faults:
        raise BudgetOutsidePolicy(errors=faults)


def has_room(budget: StandingBudget, *, used_count: int, used_minor: int, minor: int, at: datetime) -> bool:
    """Return whether one more action of this amount fits the budget now."""
    if at >= budget.ends_at or used_count >= budget.count:
        return False
    return budget.sum_minor is None or used_minor + minor <= budget.sum_minor


def is_spent(budget: StandingBudget, *, used_count: int, used_minor: int) -> bool:
    """Return whether the budget is used up."""
    return used_count >= budget.count or (budget.sum_minor is not None and used_minor >= budget.sum_minor)


def authorises_start(state: str, ended_because: str, *, starts_before: datetime | None, at: datetime) -> bool:
    """Return whether actions that passed under it may still start; after it was stopped they may not, nor after the
    end of a time box (`starts_before`).
    """
    if starts_before is not None and at >= starts_before:
        return False
    return state == StandingState.ACTIVE or (
        state == StandingState.ENDED and ended_because in (EndReason.DATE, EndReason.BUDGET)
    )


@dataclass(frozen=True, kw_only=True)
class CurrentBasis:
    """The current state of everything that a standing approval rests on."""

    passed: Sequence[DecidedAction]
    drifted: str = ""
    frozen: bool = False
    incident: str = ""
    contract_digest: str | None = None
    agent_version: str | None = None
    policies: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Pause:
    """A reason to pause, and the action it concerns, if any."""

    reason: PauseReason
    action_id: str = ""


def reason_to_pause(shape: Shape, policies: Mapping[str, str], now: CurrentBasis) -> Pause | None:
    """The reason to pause a standing approval (rule 6); None if the circumstances are still those that people agreed
    to.
    """
    for each in now.passed:
        if (trouble := failure_of(each)) is not None:
            return Pause(reason=trouble, action_id=each.action_id)
    if now.drifted:
        return Pause(reason=PauseReason.DRIFT, action_id=now.drifted)
    if now.incident:
        return Pause(reason=PauseReason.INCIDENT, action_id=now.incident)
    found = {
        PauseReason.FREEZE: now.frozen,
        PauseReason.CONTRACT: now.contract_digest != shape.scope.contract_digest,
        PauseReason.AGENT: now.agent_version != shape.scope.agent_version,
        PauseReason.POLICY: dict(now.policies) != dict(policies),
    }
    return next((Pause(reason=reason) for reason, holds in found.items() if holds), None)
