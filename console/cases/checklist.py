"""A runbook as a list of steps to tick, with person, action and time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from console.web import labels
from reviews.cases.rules.runbooks import Runbook, StepTick
from reviews.recovery.rules import recovery_table


def checklist_panel(
    book: Runbook, ticks: Mapping[tuple[str, str], StepTick], names: Mapping[UUID, str], *, may_tick: bool, href: str
) -> dict[str, Any]:
    """The context of the checklist panel."""
    steps = []
    for step in book.steps:
        tick = ticks.get((book.key, step.id))
        done = {"by": names.get(tick.by, "somebody"), "at": tick.at, "evidence": tick.evidence} if tick else None
        steps.append({"id": step.id, "text": step.text, "proof": step.proof, "done": done})
    return {
        "book": book,
        "steps": steps,
        "done": sum(step["done"] is not None for step in steps),
        "may_tick": may_tick,
        "href": href,
    }


def strategy_rows(named: tuple[str, ...] | None = None) -> list[dict[str, str]]:
    """The strategy matrix, or the rows of it that a runbook names (R-RP-41)."""
    return [
        {**row, "word": labels.sentence_case(row["strategy"])}
        for row in recovery_table.TABLE["strategy_matrix"]
        if named is None or row["strategy"] in named
    ]
