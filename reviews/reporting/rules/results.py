"""Results: what follows from the state of an action for task state, model context, user and plan (R-PL-01 to R-PL-08).

1. A contradiction makes every result UNKNOWN (Late truth): it outweighs what was settled.
2. What is held or goes wrong with a wrong target or a duplicate is named as such (R-PL-06, C-51).
3. What went back to people after a reversal was ordered is a failed compensation (R-PL-07).
4. What was found done in part is told as that until it is settled, with what was chosen about it: to compensate, to
   recover forward, or to escalate (R-PL-02).
5. All else follows from the state, and from the report where the state has two readings: a success that is not
   confirmed on the level that its class demands is pending, one that a person attested is attested, one that was taken
   back is compensated.
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
from reviews.reporting.rules.report import Code, Report


class Result(StrEnum):
    """What reconciliation came to, as a planner needs to know it."""

    SUCCESS = "SUCCESS"
    ANSWERED = "ANSWERED"
    ATTESTED = "ATTESTED"
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
class Rule:
    """What follows from a result; `statuses` are the reports that go with it, the usual one first.

    `chosen`: what follows instead, as (next, planning), where the state shows that one of several ways was taken.
    """

    task_state: str
    context: str
    statuses: tuple[Code, ...]
    next: str
    planning: str
    chosen: Mapping[State, Mapping[str, str]] = field(default_factory=dict)


def _rule(plain: Mapping[str, Any]) -> Rule:
    chosen = {State(state): way for state, way in plain.get("chosen", {}).items()}
    return Rule(**{**plain, "statuses": tuple(map(Code, plain["statuses"])), "chosen": chosen})


RULES: dict[Result, Rule] = {
    Result(name): _rule(plain)
    for name, plain in json.loads(files("reviews.reporting.rules").joinpath("results.json").read_bytes())[
        "results"
    ].items()
}

_BY_STATE: dict[State, Result] = {
    State.PROPOSED: Result.NOT_STARTED,
    State.VALIDATED: Result.NOT_STARTED,
    State.EXECUTING: Result.PENDING,
    State.ACCEPTED: Result.PENDING,
    State.PENDING: Result.PENDING,
    State.COMMITTED: Result.PENDING,
    State.PARTIALLY_COMMITTED: Result.PARTIAL_SUCCESS,
    State.RECONCILED_SUCCESS: Result.SUCCESS,
    State.RECONCILIATION_FAILED: Result.RECOVERING,
    State.FAILED: Result.FAILURE,
    State.VERIFICATION_TIMEOUT: Result.UNKNOWN,
    State.UNKNOWN: Result.UNKNOWN,
    State.COMPENSATING: Result.RECOVERING,
    State.COMPENSATED: Result.COMPENSATED,
    State.COMPENSATION_FAILED: Result.COMPENSATION_FAILED,
    State.FORWARD_RECOVERY: Result.RECOVERING,
    State.ROLLED_BACK: Result.ROLLED_BACK,
    State.REVIEW_REQUIRED: Result.REVIEW_REQUIRED,
    State.ABANDONED: Result.ABANDONED,
}
SETTLED: frozenset[Result] = frozenset(
    {Result.SUCCESS, Result.ANSWERED, Result.ATTESTED, Result.FAILURE, Result.COMPENSATED, Result.ROLLED_BACK}
)
"""What a plan may build on; every other result is unresolved."""

SETTLED_STATES: tuple[str, ...] = tuple(str(state) for state, result in _BY_STATE.items() if result in SETTLED)
_GRAVE = {
    Discrepancy.WRONG_TARGET_MODIFIED: Result.WRONG_TARGET,
    Discrepancy.DUPLICATE_SIDE_EFFECT: Result.DUPLICATE,
}
_HELD = frozenset({State.REVIEW_REQUIRED, State.RECONCILIATION_FAILED, State.COMPENSATION_FAILED})


def rule_of(result: Result, state: State) -> Rule:
    """What follows from a result of an action in this state."""
    rule = RULES[result]
    way = rule.chosen.get(state)
    return rule if way is None else replace(rule, next=way["next"], planning=way["planning"])


def result_of(
    state: State, told: Report, *, discrepancy: str = "", contradicted: bool = False, reversal_tried: bool = False
) -> Result:
    """The result of an action (rules 1 to 5); `told` is the report on it."""
    if contradicted:
        return Result.UNKNOWN
    if state in _HELD and discrepancy in _GRAVE:
        return _GRAVE[Discrepancy(discrepancy)]
    if state is State.REVIEW_REQUIRED and reversal_tried:
        return Result.COMPENSATION_FAILED
    if told.parts and discrepancy == Discrepancy.PARTIAL_APPLICATION and state in RULES[Result.PARTIAL_SUCCESS].chosen:
        return Result.PARTIAL_SUCCESS
    result = _BY_STATE[state]
    if told.code is Code.ANSWERED:
        return Result.ANSWERED
    if told.code is Code.ATTESTED:
        return Result.ATTESTED
    if result is Result.SUCCESS and not told.completed:
        return Result.COMPENSATED if told.code is Code.COMPENSATED else Result.PENDING
    return result
