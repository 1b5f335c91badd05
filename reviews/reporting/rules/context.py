"""Model context: the verified facts given to a model before its next turn (R-PL-01 to R-PL-12, R-PL-15, R-PL-16).

1. Facts are actions that are settled and not contradicted; everything else is unresolved. Each carries the report's
   words, the level of trust, the moment that it is true of, and the behaviour that its result asks for.
2. What is said of an action is its report (`report`) and its result (`results`): nothing that a tool answered, that
   went wrong inside, or that a model wrote. Names are cut to one short line each (R-PL-10, R-PL-11).
3. Beside them stand pointers (the action, its trace, its discrepancy), the tools that there are and no others
   (R-CR-12), what people have stopped, and how many calls were refused.
4. The size is bounded. What is left out is counted: the newest facts are kept, of the unresolved the oldest, for they
   have waited longest.
5. A fact has a life by its class (`FACT_LIFE`), counted from the reading that it rests on. One that has outlived it is
   `aged`: it is told apart from the facts and is read again before a plan may build on it.
6. After a refused version the current one is handed over, so that a new plan starts from it (R-PL-16).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from ledger.catalogue.rules.effects import SideEffectClass
from ledger.record.rules.envelope import instant
from ledger.record.rules.lifecycle import State
from reviews.reconciliation.rules.shown import single_line
from reviews.reporting.rules.report import StatusReport
from reviews.reporting.rules.results import SETTLED, PlannerResult, ResultRule, result_of, rule_of

MOST_FACTS = 20
MOST_UNRESOLVED = 30
LONGEST_NAME = 120
FACT_LIFE: Final[Mapping[SideEffectClass, timedelta]] = {
    SideEffectClass.READ_ONLY: timedelta(minutes=5),
    SideEffectClass.EPHEMERAL_WRITE: timedelta(hours=1),
    SideEffectClass.LOW_RISK_INTERNAL: timedelta(days=1),
    SideEffectClass.MEDIUM_RISK_WRITE: timedelta(days=1),
    SideEffectClass.HIGH_RISK_EXTERNAL: timedelta(hours=12),
    SideEffectClass.CRITICAL_MUTATION: timedelta(hours=1),
}
"""How long a settled fact of a class may be built on after the reading that it rests on."""

_READ_NOW = "It is being read again; build on it once it is among the settled facts."
_NOT_READABLE = "It cannot be read again from here; check it before you build on it."
_OPENING = "What is on record. Nothing else may be told as done, and nothing that is missing here was done."


@dataclass(frozen=True, kw_only=True)
class ReportedAction:
    """One action on record, with its report.

    `fresh_until` is the end of a fact's life, `is_aged` says that it is over. `can_be_read`: another reading can
    confirm it.
    """

    action_id: str
    tool: str
    target: str
    state: State
    report: StatusReport
    as_of: datetime
    trace_id: str = ""
    discrepancy: str = ""
    contradicted: bool = False
    reversal_tried: bool = False
    version: str = ""
    fresh_until: datetime | None = None
    can_be_read: bool = False
    is_aged: bool = False

    @property
    def result(self) -> PlannerResult:
        """The result for a planner."""
        return result_of(
            self.state,
            self.report,
            discrepancy=self.discrepancy,
            contradicted=self.contradicted,
            reversal_tried=self.reversal_tried,
        )

    @property
    def rule(self) -> ResultRule:
        """The rule that applies to this result."""
        rule = rule_of(self.result, self.state)
        if not self.is_aged:
            return rule
        if self.can_be_read:
            return replace(rule, next="WAIT", planning=_READ_NOW)
        return replace(rule, next="READ_AGAIN", planning=_NOT_READABLE)

    @property
    def is_settled(self) -> bool:
        """Return whether a plan may build on it (rule 1)."""
        return self.result in SETTLED

    @property
    def name(self) -> str:
        """Tool and target on one short line."""
        return (
            f"{to_single_line(self.tool)} on {to_single_line(self.target)}"
            if self.target
            else to_single_line(self.tool)
        )

    @property
    def statement(self) -> str:
        """The one sentence that may be reported of it."""
        return f"{self.name}: {self.report.text}"


@dataclass(frozen=True, kw_only=True)
class Capability:
    """One tool that a plan may use."""

    name: str
    version: str
    description: str
    mutating: bool


@dataclass(frozen=True, kw_only=True)
class SessionScene:
    """The context of the actions: tools, stops by people, calls without an action, actions that were erased or are too
    many to be read, and whether the run was forced to end (`limit` is its limit of calls, if it has one).
    """

    tools: tuple[Capability, ...] = ()
    stops: tuple[str, ...] = ()
    refused: Mapping[str, int] = field(default_factory=dict)
    unseen: int = 0
    forced: bool = False
    limit: int | None = None

    @property
    def ending(self) -> str:
        """The statement that the run was forced to end; empty if it was not."""
        if not self.forced:
            return ""
        return f"The limit of {self.limit} calls was reached." if self.limit else "The limit of calls was reached."


@dataclass(frozen=True, kw_only=True)
class ModelContext:
    """The model context for the next turn."""

    facts: tuple[ReportedAction, ...]
    aged: tuple[ReportedAction, ...]
    unresolved: tuple[ReportedAction, ...]
    more_facts: int
    more_aged: int
    more_unresolved: int
    text: str


def build_context(items: Iterable[ReportedAction], scene: SessionScene, *, at: datetime) -> ModelContext:
    """The context of a session whose actions are `items`, oldest first (rules 1 to 6)."""
    items = tuple(replace(item, is_aged=_has_aged(item, at)) for item in items)
    settled = [item for item in items if item.is_settled and not item.is_aged]
    old = [item for item in items if item.is_aged]
    waiting = [item for item in items if not item.is_settled]
    facts, unresolved = tuple(settled[-MOST_FACTS:]), tuple(waiting[:MOST_UNRESOLVED])
    aged = tuple(old[-MOST_FACTS:])
    more = (len(settled) - len(facts), len(waiting) - len(unresolved), len(old) - len(aged))
    lines = [
        f"{_OPENING} As of {instant(at)}.",
        *_list_lines("Settled", facts, more[0], nothing="Settled: nothing so far."),
        *(_list_lines("Settled, and read too long ago to build on", aged, more[2], nothing="") if aged else ()),
        *_list_lines("Not settled", unresolved, more[1], nothing="Not settled: nothing."),
        *_scene_lines(scene),
    ]
    return ModelContext(
        facts=facts,
        aged=aged,
        unresolved=unresolved,
        more_facts=more[0],
        more_aged=more[2],
        more_unresolved=more[1],
        text="\n".join(lines),
    )


def _has_aged(item: ReportedAction, at: datetime) -> bool:
    return item.is_settled and item.fresh_until is not None and item.fresh_until <= at


def _list_lines(title: str, items: tuple[ReportedAction, ...], more: int, *, nothing: str) -> list[str]:
    if not items:
        return [nothing]
    rest = [f"- and {more} more, not listed here."] if more else []
    return [f"{title}:", *map(_line, items), *rest]


def _line(item: ReportedAction) -> str:
    found = f" Found: {item.discrepancy}." if item.discrepancy and not item.is_settled else ""
    version = f" The target's current version is {item.version}." if item.version else ""
    return (
        f"- [{item.action_id}] {item.statement}{found}{version}"
        f" Trust level {item.report.trust_level}, as of {instant(item.as_of)}. Next: {item.rule.planning}"
    )


def _scene_lines(scene: SessionScene) -> list[str]:
    lines = []
    if scene.unseen:
        lines.append(f"{scene.unseen} more actions are on record that nothing is told of here.")
    if scene.refused:
        codes = ", ".join(f"{code} {count}" for code, count in sorted(scene.refused.items()))
        lines.append(f"Refused calls, which left nothing: {codes}.")
    if scene.stops:
        lines.append(f"Stopped, until a person lifts it: {', '.join(map(to_single_line, scene.stops))}.")
    if scene.forced:
        lines.append(f"{scene.ending} No further calls are accepted in this run.")
    names = ", ".join(to_single_line(tool.name) for tool in scene.tools)
    return [*lines, f"Tools of this session, and no others: {names}." if names else "This session has no tools."]


def to_single_line(text: str) -> str:
    """Return a name on one short line, whatever text a call put into it."""
    return single_line(text, LONGEST_NAME)
