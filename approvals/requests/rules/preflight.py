"""Preflight: decide from the state before if an action is doomed, and how many objects it touches.

1. Each condition of the contract is TRUE, FALSE or UNDECIDABLE over `pre`, `sr` and `scope`. A false one refuses the
   action before people are asked; the agent is told which one, and what was read of the fields that it names.
2. An undecidable one refuses nothing and raises the risk; so does a baseline that could not be read, a blast radius
   that is declared and has no value, and one above what the contract calls high.
3. What the agent is told is safe: values are shown as the payload's are, clipped, and only those that the condition
   itself names; of a target that belongs to another tenant, none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from approvals.requests.rules.rendering import mark_hidden
from ledger.catalogue.rules import expressions
from ledger.catalogue.rules.expressions import BadExpression, NoValue, Truth
from ledger.catalogue.rules.preflight_reads import NAMES, Condition, PreflightSpec
from ledger.record.rules.canonical import canonical, digest

MAX_SHOWN = 60

BASELINE_UNKNOWN = "BASELINE_UNKNOWN"
PREFLIGHT_UNDECIDED = "PREFLIGHT_UNDECIDED"
BLAST_RADIUS_UNKNOWN = "BLAST_RADIUS_UNKNOWN"
BLAST_RADIUS_HIGH = "BLAST_RADIUS_HIGH"

Bindings = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class JudgedCondition:
    """A condition with its result; `read` contains the values that it read, in words."""

    holds: str
    otherwise: str
    truth: Truth
    reason: str
    read: tuple[tuple[str, str], ...]

    def document(self) -> dict[str, Any]:
        """The form in which it is recorded."""
        return {"holds": self.holds, "truth": str(self.truth), "reason": self.reason, "read": dict(self.read)}


@dataclass(frozen=True)
class Preflight:
    """The findings before approval is requested: each condition, the number of objects touched, and what raises the
    risk.
    """

    judged: tuple[JudgedCondition, ...]
    touches: int | None
    raises: tuple[str, ...]

    @property
    def refusals(self) -> tuple[JudgedCondition, ...]:
        """The conditions that show that the action is doomed."""
        return tuple(each for each in self.judged if each.truth is Truth.FALSE)

    @property
    def message(self) -> str:
        """The text of the first refusal for the agent; the others are listed separately."""
        first = self.refusals[0]
        said = first.otherwise or f"The target does not allow it: `{first.holds}` does not hold."
        read = "; ".join(f"{path} is {value}" for path, value in first.read)
        return f"{said} Read before anybody was asked: {read}." if read else said

    @property
    def digest(self) -> str:
        """The digest of the whole result, for the statement that voters sign."""
        return digest(canonical([each.document() for each in self.judged] + [self.touches, list(self.raises)]))


def judge_conditions(wishes: PreflightSpec, bindings: Bindings, *, known: bool, foreign: bool = False) -> Preflight:
    """Judge every condition over the state before (rule 1); `known` is True if it could be read, `foreign` if the
    reading belongs to another tenant.
    """
    given = {name: bindings.get(name, {}) for name in NAMES}
    judged = tuple(_judge_condition(condition, given, foreign=foreign) for condition in wishes.preflight)
    touches = _touches(wishes, given)
    return Preflight(judged, touches, tuple(_raises(wishes, judged, touches, known=known)))


def _judge_condition(condition: Condition, given: Bindings, *, foreign: bool) -> JudgedCondition:
    try:
        compiled = expressions.compile(condition.holds, dict.fromkeys(NAMES))
    except BadExpression as problem:
        return JudgedCondition(condition.holds, condition.otherwise, Truth.UNDECIDABLE, problem.detail, ())
    answer = expressions.evaluate(compiled, given)
    hidden = foreign or answer.truth is Truth.UNDECIDABLE
    read = () if hidden else tuple(_values_read(condition.holds, given))
    return JudgedCondition(condition.holds, condition.otherwise, answer.truth, answer.reason, read)


def _values_read(text: str, given: Bindings) -> Iterator[tuple[str, str]]:
    for path in expressions.paths_of(text, "pre", NAMES):
        value: Any = given["pre"]
        for part in path:
            value = value.get(part) if isinstance(value, Mapping) else None
        if path and not isinstance(value, Mapping | list):
            yield ".".join(("pre", *path)), render_value(value)


def render_value(value: object) -> str:
    """A value that was read, as it may be shown anywhere: marked like a payload's, and clipped."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    text, _ = mark_hidden(value if isinstance(value, str) else str(value))
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}… ({len(text)} characters)"


def _touches(wishes: PreflightSpec, given: Bindings) -> int | None:
    if not wishes.blast_radius:
        return None
    try:
        found = expressions.evaluate_value(wishes.blast_radius, given)
    except (NoValue, BadExpression):
        return None
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None


def _raises(
    wishes: PreflightSpec, judged: tuple[JudgedCondition, ...], touches: int | None, *, known: bool
) -> Iterator[str]:
    if not known:
        yield BASELINE_UNKNOWN
    if any(each.truth is Truth.UNDECIDABLE for each in judged):
        yield PREFLIGHT_UNDECIDED
    if wishes.blast_radius and touches is None:
        yield BLAST_RADIUS_UNKNOWN
    if touches is not None and wishes.high_above is not None and touches > wishes.high_above:
        yield BLAST_RADIUS_HIGH
