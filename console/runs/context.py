"""Context of a run's page and API: steps in order, pivot, silent steps, rollback."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from console.accounts.queries import actor_names
from console.web import labels as words
from console.web.labels import action_title
from ledger.actions.queries import actions as actions_queries
from ledger.actions.queries import runs
from ledger.catalogue.rules.effects import Reversibility
from ledger.record.queries import events
from ledger.record.rules.outcomes import AS_REQUESTED, Outcome, outcome_of
from reviews import queries as after
from reviews.recovery.operations import run_compensation
from reviews.recovery.rules import sagas
from reviews.recovery.rules.sagas import Region, SagaStep, SilentStep

if TYPE_CHECKING:
    from ledger.models import Action

MOST = 500
MOST_SHOWN = 50
MOST_IN_STRIP = 12
"""How many steps the page of a run shows, and that of an action beside itself."""
_BACK = {"OPEN": "rolling back", "STUCK": "rollback needs review", "DONE": "rolled back"}


@dataclass(frozen=True, kw_only=True)
class StepView:
    """One step with the row behind it, its region, its recovery actions and the failures it continued after.

    `waiting` is what is ordered for it and not proposed yet.
    """

    row: Action
    step: SagaStep
    region: Region
    title: str
    recovery: list[Action]
    waiting: dict[str, Any] | None
    silences: list[SilentStep]


@dataclass(frozen=True, kw_only=True)
class RollbackStatus:
    """The rollback of a run: its reason, its author, and the step that waits for a person, if one does."""

    row: Any
    why: str
    by: str
    waits_at: UUID | None


@dataclass(frozen=True, kw_only=True)
class RunView:
    """A run: `complete` if every step succeeded and none was reversed, `outcomes` those of its steps, `can_return` if
    no irreversible step has begun, except those known to have had no effect.
    """

    run_id: str
    steps: list[StepView]
    unwinding: Any | None
    complete: bool
    outcomes: frozenset[Outcome]
    can_return: bool
    earlier: int = 0
    later: int = 0

    def around(self, action_id: UUID | None, most: int) -> RunView:
        """At most `most` steps: those around an action, or the newest; `earlier` and `later` count the omitted ones."""
        places = [place for place, one in enumerate(self.steps) if one.row.id == action_id]
        last = min(places[0] + most // 2 + 1, len(self.steps)) if places else len(self.steps)
        last = max(last, min(most, len(self.steps)))
        first = max(last - most, 0)
        return replace(self, steps=self.steps[first:last], earlier=first, later=len(self.steps) - last)

    @property
    def count(self) -> int:
        """The number of steps."""
        return self.earlier + len(self.steps) + self.later

    @property
    def verified(self) -> bool:
        """Return whether all of it was done and readings settled every step that was to change something."""
        return self.complete and self.outcomes <= AS_REQUESTED | {Outcome.ANSWERED}

    @property
    def ending(self) -> str:
        """Summarise the state of the whole run."""
        if not self.complete:
            return "incomplete"
        if self.outcomes == {Outcome.VERIFIED}:
            return "complete; every step verified"
        return "complete; every change verified" if self.verified else "complete; not every step verified"

    @property
    def words(self) -> str:
        """The progress of the rollback."""
        return _BACK[self.unwinding.state] if self.unwinding else ""


def load_run(tenant_id: UUID, run_id: str) -> RunView | None:
    """The run of that name; None if no action belongs to it."""
    actions = runs.steps_of(tenant_id, run_id, limit=MOST)
    if not actions:
        return None
    steps = {step.id: step for step in run_compensation.saga_steps(tenant_id, actions)}
    ordered = list(steps.values())
    regions = sagas.regions(ordered)
    silences: dict[str, list[SilentStep]] = {}
    for one in sagas.silent_steps(ordered):
        silences.setdefault(one.step, []).append(one)
    waiting = runs.unproposed_orders(tenant_id, [each.id for each in actions])
    children: dict[UUID, list[Action]] = {}
    for each in actions:
        if each.parent_id is not None:
            children.setdefault(each.parent_id, []).append(each)
    return RunView(
        run_id=run_id,
        steps=[
            StepView(
                row=each,
                step=steps[str(each.id)],
                region=regions[str(each.id)],
                title=action_title(each.operation_kind, each.target),
                recovery=children.get(each.id, []),
                waiting=waiting.get(each.id),
                silences=silences.get(str(each.id), []),
            )
            for each in actions
            if not each.relation
        ],
        unwinding=runs.unwinding(tenant_id, run_id),
        complete=sagas.is_complete(ordered),
        outcomes=frozenset(outcome_of(each) for each in actions if not each.relation),
        can_return=not any(_is_past_return(each, steps[str(each.id)]) for each in actions if not each.relation),
    )


_WITHOUT_EFFECT: Final = frozenset({Outcome.FAILED, Outcome.ROLLED_BACK, Outcome.ATTESTED_ABSENT})


def _is_past_return(action: Action, step: SagaStep) -> bool:
    """True once an irreversible step was started, unless a reading shows that it had no effect."""
    final = step.pivot or (action.mutating and action.reversibility == Reversibility.IRREVERSIBLE)
    return final and action.attempt_count > 0 and outcome_of(action) not in _WITHOUT_EFFECT


def rollback_status(tenant_id: UUID, found: RunView) -> RollbackStatus | None:
    """The status of a run's rollback: the first event has the reason, the last one the state."""
    if found.unwinding is None:
        return None
    event, _, detail = events.history(tenant_id, found.unwinding.id)[0]
    stuck = sagas.next_to_compensate([one.step for one in found.steps]) if found.unwinding.state == "STUCK" else None
    return RollbackStatus(
        row=found.unwinding,
        why=str((detail or {}).get("reason") or ""),
        by=actor_names(tenant_id).get(event.actor_id, event.actor_kind),
        waits_at=UUID(stuck.id) if stuck else None,
    )


def recovery_origin(tenant_id: UUID, action: Action) -> dict[str, Any] | None:
    """The origin of a recovery action: the action that it repairs, and the decision that ordered it."""
    behind = actions_queries.action(tenant_id, action.parent_id) if action.parent_id else None
    if behind is None:
        return None
    order = runs.order_details(tenant_id, behind.id).get(action.ordered_by, {}) if action.ordered_by else {}
    return {
        "row": behind,
        "title": action_title(behind.operation_kind, behind.target),
        "relation": action.relation,
        "case": after.case_of(tenant_id, behind.id),
        "because": words.case_reason_label(order["because"]) if order.get("because") else "",
    }


def run_strip(tenant_id: UUID, action: Action) -> RunView | None:
    """Return the run for the strip on an action's page; None for a single step without recovery."""
    found = load_run(tenant_id, action.run_id)
    if found is None or (len(found.steps) < 2 and not any(one.recovery or one.waiting for one in found.steps)):
        return None
    return found.around(action.id, MOST_IN_STRIP)
