"""The summary of a session or run, for its user: at most six lines, from the record alone (R-FB-01 to R-FB-05, C-35).

1. What is completed, what failed and the next best step are always said; what is not whole (done in part, reversed,
   stopped), what is unknown and what is pending are said where there is such, and under these names (R-FB-03). What
   ended before it was attempted did not fail: it is told beside the failures, under a name of its own.
2. Each line says the names of the actions and the report's words on them, and nothing else (`report`). Names are cut;
   what is not named is counted.
3. The next best step follows from the gravest result: a stop outweighs an unknown outcome, that one a person's review,
   then what is done in part, recovery, what is pending, what failed.
4. Where no summary can be made there is a static text: it claims nothing, and says that work can go on (R-FB-05).
5. Every line passes the completion guard: no title reads like a claim where nothing stands behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reviews.reporting.rules.context import ReportedAction, SessionScene
from reviews.reporting.rules.report import NEVER_ATTEMPTED
from reviews.reporting.rules.results import PlannerResult

MOST_LINES = 6
MOST_NAMES = 3
MOST_TEXTS = 3
_CANNOT = "No summary could be made. The record holds every call, and the work can go on from there."

_R = PlannerResult
_REVERSED = (
    *(_R.ACCEPTED_AS_IT_IS, _R.PARTIAL_SUCCESS, _R.RECOVERING, _R.COMPENSATED, _R.ROLLED_BACK),
    _R.ABANDONED,
)
_PENDING = (_R.PENDING, _R.REVIEW_REQUIRED, _R.WRONG_TARGET, _R.COMPENSATION_FAILED, _R.DUPLICATE, _R.NOT_STARTED)
_GRAVEST = (
    *(_R.WRONG_TARGET, _R.UNKNOWN, _R.COMPENSATION_FAILED, _R.DUPLICATE, _R.REVIEW_REQUIRED, _R.PARTIAL_SUCCESS),
    *(_R.RECOVERING, _R.PENDING, _R.NOT_STARTED, _R.ABANDONED, _R.FAILURE, _R.COMPENSATED, _R.ROLLED_BACK),
)


@dataclass(frozen=True)
class SessionSummary:
    """At most six lines; `complete` is false for the static text."""

    lines: tuple[str, ...]
    complete: bool = True

    @property
    def text(self) -> str:
        """The lines as one text."""
        return "\n".join(self.lines)


def build_summary(items: Iterable[ReportedAction], scene: SessionScene) -> SessionSummary:
    """The summary of these actions, oldest first (rules 1 to 3)."""
    by_result: dict[PlannerResult, list[ReportedAction]] = {}
    for item in items:
        by_result.setdefault(item.result, []).append(item)

    def told(*results: PlannerResult) -> str:
        return _texts_with_names(item for result in results for item in by_result.get(result, ()))

    failures = by_result.get(_R.FAILURE, [])
    unstarted = [item for item in failures if item.report.text == NEVER_ATTEMPTED]
    failed = [item for item in failures if item.report.text != NEVER_ATTEMPTED]
    read = {"Read": told(_R.ANSWERED), "Attested by people, not verified": told(_R.ATTESTED)}
    not_attempted = {"Ended before a start": _texts_with_names(unstarted), "Refusals": _refusals(scene)}
    lines = [
        f"Completed so far: {told(_R.SUCCESS) or 'nothing.'}{_join_titled(read)}",
        f"Failures: {_texts_with_names(failed) or 'none known.'}{_join_titled(not_attempted)}",
        *_if_any("Not fully completed", told(*_REVERSED)),
        *_if_any("Unknown", told(_R.UNKNOWN)),
        *_if_any("Pending", told(*_PENDING)),
        f"Next best step: {_next(by_result, scene)}",
    ]
    return SessionSummary(tuple(lines))


def fallback_summary(scene: SessionScene) -> SessionSummary:
    """The summary when none can be made (rule 4)."""
    return SessionSummary((*([scene.ending] if scene.forced else []), _CANNOT), complete=False)


def _if_any(title: str, said: str) -> list[str]:
    return [f"{title}: {said}"] if said else []


def _join_titled(told: Mapping[str, str]) -> str:
    return "".join(f" {title}: {said}" for title, said in told.items() if said)


def _texts_with_names(items: Iterable[ReportedAction]) -> str:
    """Return the names of the actions, and the report's text on them (rule 2)."""
    by_text: dict[str, list[str]] = {}
    for item in items:
        by_text.setdefault(item.report.text, []).append(item.name)
    parts = [f"{_names(names)}: {text}" for text, names in list(by_text.items())[:MOST_TEXTS]]
    rest = sum(map(len, list(by_text.values())[MOST_TEXTS:]))
    return " ".join([*parts, *([f"And {rest} more."] if rest else [])])


def _names(names: list[str]) -> str:
    rest = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")


def _refusals(scene: SessionScene) -> str:
    count = sum(scene.refused.values())
    return f"{count} call{'' if count == 1 else 's'}, not attempted." if count else ""


def _next(by_result: dict[PlannerResult, list[ReportedAction]], scene: SessionScene) -> str:
    """The next best step (rule 3)."""
    gravest = next((result for result in _GRAVEST if result in by_result), None)
    if gravest is not None:
        step = by_result[gravest][0].rule.planning
    elif scene.refused and not by_result:
        step = "Correct the refused calls."
    else:
        step = "Go on with the next step of the goal, or end here." if by_result else "Begin with the first call."
    more = f" {scene.unseen} more actions are on record beside these." if scene.unseen else ""
    if not scene.forced:
        return f"{step}{more}"
    return f"{scene.ending} {step} A new session can go on from here.{more}"
