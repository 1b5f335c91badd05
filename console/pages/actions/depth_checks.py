"""What an action's class requires, as pages and the API show it: each check of a run, made or not, and by what."""

from __future__ import annotations

from typing import Any

from console.pages.actions.action_record import Account
from console.web import labels


def required_checks(told: Account) -> dict[str, Any]:
    """The table of required checks over the newest run that read something."""
    depth = told.contract.depth
    made = told.found.get("verdict", {}).get("checks", [])
    rows = [{"made": one["made"], "word": labels.sentence(one["check"]), "by": one["by"]} for one in made]
    note = f"for {labels.side_effect_class(told.action.side_effect_class).lower()}"
    if depth.because:
        note += f", deeper because {' and '.join(labels.sentence(each).lower() for each in depth.because)}"
    return {"rows": rows, "note": note}
