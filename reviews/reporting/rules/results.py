"""Results: the consequence of an action's state for task state, model context, user and plan (R-PL-01 to R-PL-08).

1. A contradiction makes every result UNKNOWN (Late truth): it outweighs what was settled.
2. What is held or goes wrong with a wrong target or a duplicate is named as such (R-PL-06, C-51).
3. What went back to people after a reversal was ordered is a failed compensation (R-PL-07).
4. What was found done in part is told as that until it is settled, with what was chosen about it: to compensate, to
   recover forward, or to escalate (R-PL-02).
5. All else follows from the state, and from the report where the state has two readings: a success that is not
   confirmed on the level that its class demands is pending, one that a person attested or accepted as it is is told as
   that, one that was taken back is compensated.
6. What each result asks of a plan is data (`results.json`): the state-update rules (R-PL-12).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from importlib.resources import files
from typing import Any

from ledger.record.rules.lifecycle import State
from reviews.reconciliation.rules.discrepancies import Discrepancy
from reviews.reporting.rules.report import StatusCode, StatusReport


class PlannerResult(StrEnum):
    """The result of reconciliation for a planner."""

    SUCCESS = "SUCCESS"
    ANSWERED = "ANSWERED"
    ATTESTED = "ATTESTED"
    ACCEPTED_AS_IT_IS = "ACCEPTED_AS_IT_IS"
    PARTIAL_SUCCESS = "PARTIAL_SUCCESS"
    PENDING = "PENDING"
    FAILURE = "FAILURE"
    COMPENSATED = "COMPENSATED"
    ROLLED_BACK = "ROLLED_BACK"
    UNKNOWN = "UNKNOWN"
    REVIEW_REQUIRED = "REVIEW_REQUIRED"
    WRONG_TARGET = "WRONG_TARGET"
    COMPENSATION_FAILED = "COMPENSATION_FAILED"
    DUPLICATE = "DUPLICATE"
    RECOVERING = "RECOVERING"
    ABANDONED = "ABANDONED"
    NOT_STARTED = "NOT_STARTED"


@dataclass(frozen=True, kw_only=True)
class ResultRule:
    """The consequences of a result; `statuses` are the reports that go with it, the usual one first. What is put into a
    model's context is the sentence of the report.

    `chosen` holds other consequences, as (next, planning), for states which show that one of several ways was taken.
    """

    task_state: str
    statuses: tuple[StatusCode, ...]
    next: str
    planning: str
    chosen: Mapping[State, Mapping[str, str]] = field(default_factory=dict)


def _rule(plain: Mapping[str, Any]) -> ResultRule:
    chosen = {State(state): way for state, way in plain.get("chosen", {}).items()}
    return ResultRule(**{**plain, "statuses": tuple(map(StatusCode, plain["statuses"])), "chosen": chosen})


RULES: dict[PlannerResult, ResultRule] = {
    PlannerResult(name): _rule(plain)
    for name, plain in json.loads(files("reviews.reporting.rules").joinpath("results.json").read_bytes())[
        "results"
    ].items()
}

_BY_STATE: dict[State, PlannerResult] = {
    State.PROPOSED: PlannerResult.NOT_STARTED,
    State.VALIDATED: PlannerResult.NOT_STARTED,
    State.EXECUTING: PlannerResult.PENDING,
    State.ACCEPTED: PlannerResult.PENDING,
    State.PENDING: PlannerResult.PENDING,
    State.COMMITTED: PlannerResult.PENDING,
    State.PARTIALLY_COMMITTED: PlannerResult.PARTIAL_SUCCESS,
    State.RECONCILED_SUCCESS: PlannerResult.SUCCESS,
    State.RECONCILIATION_FAILED: PlannerResult.RECOVERING,
    State.FAILED: PlannerResult.FAILURE,
    State.VERIFICATION_TIMEOUT: PlannerResult.UNKNOWN,
    State.UNKNOWN: PlannerResult.UNKNOWN,
    State.COMPENSATING: PlannerResult.RECOVERING,
    State.COMPENSATED: PlannerResult.COMPENSATED,
    State.COMPENSATION_FAILED: PlannerResult.COMPENSATION_FAILED,
    State.FORWARD_RECOVERY: PlannerResult.RECOVERING,
    State.ROLLED_BACK: PlannerResult.ROLLED_BACK,
    State.REVIEW_REQUIRED: PlannerResult.REVIEW_REQUIRED,
    State.ABANDONED: PlannerResult.ABANDONED,
}
SETTLED: frozenset[PlannerResult] = frozenset(
    {
        PlannerResult.SUCCESS,
        PlannerResult.ANSWERED,
        PlannerResult.ATTESTED,
        PlannerResult.ACCEPTED_AS_IT_IS,
        PlannerResult.FAILURE,
        PlannerResult.COMPENSATED,
        PlannerResult.ROLLED_BACK,
    }
)
"""What a plan may build on; every other result is unresolved."""

SETTLED_STATES: tuple[str, ...] = tuple(str(state) for state, result in _BY_STATE.items() if result in SETTLED)
_GRAVE = {
    Discrepancy.WRONG_TARGET_MODIFIED: PlannerResult.WRONG_TARGET,
    Discrepancy.DUPLICATE_SIDE_EFFECT: PlannerResult.DUPLICATE,
}
_HELD = frozenset({State.REVIEW_REQUIRED, State.RECONCILIATION_FAILED, State.COMPENSATION_FAILED})


def rule_of(result: PlannerResult, state: State) -> ResultRule:
    """The rule for a result of an action in this state."""
    rule = RULES[result]
    way = rule.chosen.get(state)
    return rule if way is None else replace(rule, next=way["next"], planning=way["planning"])


def result_of(
    state: State, told: StatusReport, *, discrepancy: str = "", contradicted: bool = False, reversal_tried: bool = False
) -> PlannerResult:
    """Return the result of an action (rules 1 to 5); `told` is the report on it."""
    if contradicted:
        return PlannerResult.UNKNOWN
    if state in _HELD and discrepancy in _GRAVE:
        return _GRAVE[Discrepancy(discrepancy)]
    if state is State.REVIEW_REQUIRED and reversal_tried:
        return PlannerResult.COMPENSATION_FAILED
    if (
        told.parts
        and discrepancy == Discrepancy.PARTIAL_APPLICATION
        and state in RULES[PlannerResult.PARTIAL_SUCCESS].chosen
    ):
        return PlannerResult.PARTIAL_SUCCESS
    result = _BY_STATE[state]
    if told.code in (StatusCode.ANSWERED, StatusCode.ATTESTED, StatusCode.ACCEPTED_AS_IT_IS):
        return PlannerResult(told.code)
    if result is PlannerResult.SUCCESS and not told.completed:
        return PlannerResult.COMPENSATED if told.code is StatusCode.COMPENSATED else PlannerResult.PENDING
    return result
