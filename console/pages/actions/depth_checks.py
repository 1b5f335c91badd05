"""What an action's class requires, as pages and the API show it: each check of a run, made or not, and by what."""

from __future__ import annotations

from typing import Any

from console.pages.actions.action_record import ActionRecord
from console.web import labels


def required_checks(told: ActionRecord) -> dict[str, Any]:
    """The table of required checks over the newest run that read something."""
    depth = told.contract.depth
    made = told.found.get("verdict", {}).get("checks", [])
    rows = [{"made": one["made"], "word": labels.sentence_case(one["check"]), "by": one["by"]} for one in made]
    note = f"for {labels.side_effect_class_label(told.action.side_effect_class).lower()}"
    if depth.because:
        note += f", deeper because {' and '.join(labels.sentence_case(each).lower() for each in depth.because)}"
    return {"rows": rows, "note": note}
