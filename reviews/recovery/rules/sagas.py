"""Sagas: the actions of one run as steps, with the pivot, their dependencies, and the failures that were ignored.

1. The pivot is the step whose contract marks the point of no return. Before it, what was done is reversed; at it,
   approval, key and verification are at their strongest; after it, what is missing is finished (R-RP-39).
2. A run is taken back from its last completed step to its first. Nothing moves while a step is open, since nobody
   knows yet what there is to reverse (R-RP-32).
3. A chain is silent where a step was proposed although one before it had failed, or its outcome was not known yet,
   and nobody had taken notice of that (R-EX-20). A step is before another that depends on it; a failed one is before
   every later step of the run.
4. A run is complete when every step is; whatever else is told of it would be told over somebody's head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from ledger.record.rules.lifecycle import BLOCKS_REPEAT, State


class Region(StrEnum):
    """The position of a step in its run (rule 1)."""

    BEFORE_PIVOT = "BEFORE_PIVOT"
    AT_PIVOT = "AT_PIVOT"
    AFTER_PIVOT = "AFTER_PIVOT"


@dataclass(frozen=True, kw_only=True)
class SagaStep:
    """One action of a run. `left`: a person decided that it stays as it is; `ended_at` is as text of one form."""

    id: str
    state: State
    mutating: bool
    pivot: bool = False
    proposed_at: datetime
    ended_at: str | None = None
    settled: bool = False
    contradicted: bool = False
    reversed: bool = False
    left: bool = False
    depends_on: tuple[str, ...] = ()
    acknowledges: tuple[str, ...] = ()


@dataclass(frozen=True)
class SilentStep:
    """A step that went on over another's failure or over an outcome that nobody knew."""

    step: str
    over: str
    because: str


_OPEN = BLOCKS_REPEAT | {State.PROPOSED, State.VALIDATED}
_FAILED = frozenset({State.FAILED, State.ABANDONED, State.ROLLED_BACK, State.COMPENSATED, State.COMPENSATION_FAILED})


def regions(steps: Sequence[SagaStep]) -> dict[str, Region]:
    """Return the region of each step, in the order of proposal; without a pivot all are before one."""
    found, passed = {}, False
    for step in steps:
        here = Region.AFTER_PIVOT if passed else Region.BEFORE_PIVOT
        found[step.id] = Region.AT_PIVOT if step.pivot and not passed else here
        passed = passed or step.pivot
    return found


def unresolved_steps(steps: Sequence[SagaStep]) -> list[SagaStep]:
    """Return the steps whose outcome is open, so that the run cannot be rolled back yet (rule 2)."""
    return [one for one in steps if one.state in _OPEN and (one.mutating or one.state is not State.UNKNOWN)]


def next_to_compensate(steps: Sequence[SagaStep]) -> SagaStep | None:
    """Return the step to reverse next: the last completed one that is not reversed."""
    standing = [
        one
        for one in steps
        if one.state is State.RECONCILED_SUCCESS and one.mutating and not one.reversed and not one.left
    ]
    return max(standing, key=lambda one: (one.ended_at or "", one.proposed_at), default=None)


def silent_steps(steps: Sequence[SagaStep]) -> tuple[SilentStep, ...]:
    """Every step that went on in silence, in the order of the steps (rule 3)."""
    silent: list[SilentStep] = []
    # A run may have hundreds of steps: of those before a step only the failed ones and its dependencies are looked at.
    earlier, failed = dict[str, SagaStep](), list[tuple[SagaStep, datetime | None]]()
    for step in steps:
        silent += [
            SilentStep(step.id, other.id, f"It ended {other.state}, which had not been acknowledged.")
            for other, ended_at in failed
            if (ended_at is None or ended_at <= step.proposed_at) and other.id not in step.acknowledges
        ]
        silent += [
            SilentStep(step.id, each, "Its outcome was not known yet.")
            for each in step.depends_on
            if each in earlier and each not in step.acknowledges and _was_open_beside(earlier[each], step)
        ]
        earlier[step.id] = step
        if step.state in _FAILED:
            failed.append((step, datetime.fromisoformat(step.ended_at) if step.ended_at else None))
    return tuple(silent)


def _was_open_beside(other: SagaStep, step: SagaStep) -> bool:
    """Return whether the other step had not ended when this one was proposed."""
    if other.state in _OPEN:
        return True
    return other.ended_at is not None and datetime.fromisoformat(other.ended_at) > step.proposed_at


def is_complete(steps: Sequence[SagaStep]) -> bool:
    """Return whether all of a run was done and still holds (rule 4)."""
    return bool(steps) and all(
        one.state is State.RECONCILED_SUCCESS and not one.contradicted and not one.reversed for one in steps
    )
