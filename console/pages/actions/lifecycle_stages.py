"""The eight stages of an action's life, each with when it was first reached (R-CX-01)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class LifecycleStage:
    """One stage; `at` is None where the action has not come to it."""

    name: str
    means: str
    at: datetime | None


_BY_EVENT: Final = (
    ("Proposed", "the agent asked for it", frozenset({"proposed"})),
    ("Validated", "the gate accepted it", frozenset({"validated"})),
    ("Attempted", "an executor started it", frozenset({"execution_started"})),
    ("Observed", "the tool answered", frozenset({"observed", "webhook_received"})),
    ("Verified", "a decisive reading of the system of record was taken", frozenset({"verified"})),
    (
        "Reconciled",
        "what was found was compared with what was intended",
        frozenset({"reconciled", "partially_reconciled", "reconciliation_failed", "answered", "answer_refused"}),
    ),
)


def lifecycle_stages(
    history: Iterable[tuple[Any, Any, Any]], *, pinned_at: datetime | None, told_at: datetime | None
) -> list[LifecycleStage]:
    """The stages in their order, from an action's events, the pin of its session's goal, and its first report."""
    first: dict[str, datetime] = {}
    for event, _, _ in history:
        first.setdefault(event.kind, event.at)
    middle = [
        LifecycleStage(name, means, min((first[kind] for kind in kinds if kind in first), default=None))
        for name, means, kinds in _BY_EVENT
    ]
    return [
        LifecycleStage("Planned", "the goal was pinned", pinned_at),
        *middle,
        LifecycleStage("Reported", "somebody was first told of it", told_at),
    ]
