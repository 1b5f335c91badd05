"""Evaluate a predicate on real readings, without deciding anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from console.actions.state_comparison import format_value
from ledger.actions.queries import actions as actions_queries
from ledger.catalogue.rules import expressions
from ledger.catalogue.rules.expressions import BadExpression, Truth
from ledger.record.rules.encryption import CannotOpen
from reviews import queries as after

if TYPE_CHECKING:
    from reviews.models import VerificationRun

MOST_READ = 20
LONGEST = 2_000


def recorded_readings(tenant_id: UUID, tool: str) -> list[tuple[Any, Any]]:
    """(action, newest run) of the newest actions of a tool that were read back."""
    actions = actions_queries.actions(tenant_id, tool=tool, limit=MOST_READ)
    runs = after.last_runs(tenant_id, [each.id for each in actions])
    return [(each, runs[each.id]) for each in actions if each.id in runs]


def try_predicate(run: VerificationRun, text: str) -> dict[str, str]:
    """Evaluate a predicate over a recorded reading, with the reason if it cannot be decided."""
    try:
        layers = after.run_findings(run).get("layers")
    except CannotOpen:
        layers = None
    if not layers:
        return _undecidable("What was read is not kept any more.")
    try:
        expression = expressions.compile(text)
    except BadExpression as problem:
        return _undecidable(problem.detail)
    view = expressions.view({name: layers.get(name) or {} for name in expressions.VARIABLES})
    found = expressions.evaluate(expression, view)
    sides = expression.sides
    left = format_value(expressions.display_value(sides[0], view)) if sides else ""
    right = format_value(expressions.display_value(sides[2], view)) if sides else ""
    return {"holds": str(found.truth), "reason": found.reason, "left": left, "right": right}


def _undecidable(reason: str) -> dict[str, str]:
    return {"holds": str(Truth.UNDECIDABLE), "reason": reason, "left": "", "right": ""}
