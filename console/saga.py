"""A run as pages and callers see it: its steps in order, the pivot, what went on in silence, what was reversed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from console.title import title
from ledger import queries as record
from reviews.operations import unwindings
from reviews.rules import sagas
from reviews.rules.sagas import Region, Silence, Step

MOST = 500


@dataclass(frozen=True, kw_only=True)
class Shown:
    """One step with the row behind it, its region, its recovery actions and what it went on over."""

    row: Any
    step: Step
    region: Region
    title: str
    recovery: list[Any]
    silences: list[Silence]


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run: `complete` says that every step was done and stands."""

    run_id: str
    steps: list[Shown]
    unwinding: Any | None
    complete: bool

    @property
    def has_pivot(self) -> bool:
        """Whether one of the steps marks the point of no return."""
        return any(one.region is Region.AT_PIVOT for one in self.steps)


def run(tenant_id: UUID, run_id: str) -> Run | None:
    """The run of that name, or None where no action belongs to one."""
    actions = record.steps_of(tenant_id, run_id, limit=MOST)
    if not actions:
        return None
    steps = {step.id: step for step in unwindings.steps_of(tenant_id, run_id)}
    ordered = list(steps.values())
    regions, silences = sagas.regions(ordered), sagas.silences(ordered)
    children: dict[UUID, list[Any]] = {}
    for each in actions:
        if each.parent_id is not None:
            children.setdefault(each.parent_id, []).append(each)
    return Run(
        run_id=run_id,
        steps=[
            Shown(
                row=each,
                step=steps[str(each.id)],
                region=regions[str(each.id)],
                title=title(each.operation_kind, each.target),
                recovery=children.get(each.id, []),
                silences=[one for one in silences if one.step == str(each.id)],
            )
            for each in actions
            if not each.relation
        ],
        unwinding=record.unwinding(tenant_id, run_id),
        complete=sagas.is_complete(ordered),
    )


def strip(tenant_id: UUID, run_id: str) -> Run | None:
    """The run for the strip on an action's page; a lone step that nothing was done about has none."""
    found = run(tenant_id, run_id)
    if found is None or (len(found.steps) < 2 and not any(one.recovery for one in found.steps)):
        return None
    return found
