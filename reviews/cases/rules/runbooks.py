"""Runbooks: the steps for people to take about a kind of problem (R-RB-01 to R-RB-12, R-UI-27, R-RP-41).

1. Runbooks are data (`runbooks.json`). Each is found from a case by its reason, then by its discrepancy, then by what
   the deciding row of the recovery table answers to; nothing fits: `held`. A discrepancy says more than a trigger.
2. The five parts of the taxonomy each have an entry that names the structural fix: what makes the fault impossible,
   not what asks a model to behave (R-RB-02).
3. A tick is an event of a case or an incident, and so is taking it back. How the steps stand is read from the events.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from typing import Any

from ledger.record.rules.refusals import NotFound, Refused

TICKED = "step_ticked"
UNTICKED = "step_unticked"


@dataclass(frozen=True)
class RunbookStep:
    """One step; `proof` names the evidence worth noting, empty if there is none."""

    id: str
    text: str
    proof: str


@dataclass(frozen=True, kw_only=True)
class Runbook:
    """One entry; `causes` are the lasting causes of the incidents it is for, by their first word."""

    key: str
    title: str
    means: str
    discrepancies: tuple[str, ...]
    triggers: tuple[str, ...]
    reasons: tuple[str, ...]
    causes: tuple[str, ...]
    incident: str | None
    taxonomy: str | None
    structural_fix: str | None
    strategies: tuple[str, ...]
    steps: tuple[RunbookStep, ...]


@dataclass(frozen=True)
class StepTick:
    """The tick of one step: by whom, when, on what evidence."""

    by: Any
    at: datetime
    evidence: str


class StepUnchanged(Refused):
    """The step is already in that state; someone else changed it first."""

    code = "STEP_STANDS"


def _runbook(plain: Mapping[str, Any]) -> Runbook:
    named: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()}
    return Runbook(**named | {"steps": tuple(RunbookStep(**step) for step in plain["steps"])})


_DOCUMENT = json.loads(files("reviews.cases.rules").joinpath("runbooks.json").read_bytes())
RUNBOOKS: dict[str, Runbook] = {plain["key"]: _runbook(plain) for plain in _DOCUMENT["runbooks"]}
"""Every runbook by its key, in the order of the page."""

_OTHERWISE = RUNBOOKS["held"]
_BY_REASON = {reason: book for book in RUNBOOKS.values() for reason in book.reasons}
_BY_DISCREPANCY = {found: book for book in RUNBOOKS.values() for found in book.discrepancies}
_BY_TRIGGER = {trigger: book for book in RUNBOOKS.values() for trigger in book.triggers}
_BY_CAUSE = {cause: book for book in RUNBOOKS.values() for cause in book.causes}
# What happened to the approval, the provider or a reversal matters more than which fields differ because of it.
_OUTWEIGHS = frozenset(
    {"APPROVAL_TOKEN_MISMATCH", "POLICY_VERSION_MISMATCH", "PROVIDER_OUTAGE", "COMPENSATION_FAILURE"}
)


def for_case(*, reason: str, discrepancy: str = "", trigger: str = "") -> Runbook:
    """The runbook of a case (rule 1)."""
    if reason in _BY_REASON and reason != "HELD":
        return _BY_REASON[reason]
    if trigger in _OUTWEIGHS:
        return _BY_TRIGGER[trigger]
    return _BY_DISCREPANCY.get(discrepancy) or _BY_TRIGGER.get(trigger) or _OTHERWISE


def for_cause(about: str) -> Runbook | None:
    """The runbook of an incident about a lasting cause, such as `system:shop`."""
    return _BY_CAUSE.get(about.partition(":")[0])


TAGS = tuple(dict.fromkeys(book.taxonomy for book in RUNBOOKS.values() if book.taxonomy))
"""The five parts of the taxonomy."""


def tag_of(runbook: str, about: str) -> str:
    """Return the part of the taxonomy that an incident belongs to, by its runbook, otherwise by its cause (R-CG-20)."""
    book = RUNBOOKS.get(runbook) if runbook else for_cause(about)
    return (book.taxonomy or "") if book is not None else ""


def runbooks_with_tag(tag: str) -> tuple[list[str], list[str]]:
    """Return the runbooks, and the first words of causes, whose incidents belong to this part of the taxonomy."""
    books = [book for book in RUNBOOKS.values() if book.taxonomy == tag]
    return [book.key for book in books], [cause for book in books for cause in book.causes]


def find_step(runbook: str, step_id: str) -> RunbookStep:
    """Return one step of a runbook; refuse an unknown step."""
    book = RUNBOOKS.get(runbook)
    found = next((each for each in book.steps if each.id == step_id), None) if book else None
    if found is None:
        raise NotFound(detail="This runbook has no such step.")
    return found


def text_of(runbook: str, step_id: str) -> str:
    """Return the text of a step, or its id if the step no longer exists, because events outlive steps."""
    book = RUNBOOKS.get(runbook)
    return next((each.text for each in book.steps if each.id == step_id), step_id) if book else step_id


def ticks_by_step(events: Iterable[tuple[str, Any, datetime, Mapping[str, Any]]]) -> dict[tuple[str, str], StepTick]:
    """The ticks after these events, each (kind, by, at, detail), in order (rule 3)."""
    standing: dict[tuple[str, str], StepTick] = {}
    for kind, by, at, detail in events:
        if kind == TICKED:
            standing[detail["runbook"], detail["step"]] = StepTick(by, at, detail.get("evidence", ""))
        elif kind == UNTICKED:
            standing.pop((detail["runbook"], detail["step"]), None)
    return standing
