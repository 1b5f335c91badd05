"""Predicates: the conditions on the authoritative state, one by one (R-RC-01 to R-RC-06, R-RC-12).

1. The set is the contract's predicates, those that the agent added (they may only add), and the scope:
   tenant and target of everything that the action wrote, also where the contract lists neither.
2. Each has one of three results; the fourth, NOT_APPLICABLE, says that the lookup declares nothing to
   compare, and never stands for "passed in silence" (R-CP-15).
3. A comparison shows both sides: what was expected, and what the source said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from ledger.catalogue.rules import expressions
from ledger.catalogue.rules.expressions import BadExpression, Evaluation, Expression, Truth, View
from reviews.reconciliation.rules.reading import Consistency, ReadEffect, Reading

_NOTHING: Mapping[str, Any] = {}


class PredicateOrigin(StrEnum):
    """The origin of a predicate."""

    CONTRACT = "contract"
    AGENT = "agent"
    SCOPE = "scope"


class PredicateOutcome(StrEnum):
    """The result of one predicate over one reading."""

    TRUE = "TRUE"
    FALSE = "FALSE"
    UNDECIDABLE = "UNDECIDABLE"
    NOT_APPLICABLE = "NOT_APPLICABLE"


@dataclass(frozen=True, kw_only=True)
class PredicateResult:
    """One predicate over one reading, with its expected and its actual value (R-RC-12)."""

    text: str
    origin: PredicateOrigin
    holds: PredicateOutcome
    reason: str = ""
    expected: Any = None
    actual: Any = None
    source: str
    consistency: Consistency
    observed_at: datetime


def evaluate(
    reading: Reading,
    *,
    bindings: Mapping[str, Mapping[str, Any]],
    contract: tuple[str, ...],
    added: tuple[str, ...],
    target_resource: str,
) -> tuple[PredicateResult, ...]:
    """Every predicate of the set over one reading, the scope's first."""
    view = expressions.view(_named_bindings(bindings, (*contract, *added)))
    results = list(_scope_results(reading, bindings["scope"], target_resource))
    results += [_result(text, PredicateOrigin.CONTRACT, view, reading) for text in contract]
    results += [_result(text, PredicateOrigin.AGENT, view, reading) for text in added]
    return tuple(results)


def _named_bindings(bindings: Mapping[str, Mapping[str, Any]], texts: tuple[str, ...]) -> dict[str, Mapping[str, Any]]:
    """Return the bindings without those that no predicate names, because preparing values costs more than
    judging them.
    """
    named = expressions.variables_of(texts)
    return {name: value if name in named else _NOTHING for name, value in bindings.items()}


def _result(text: str, origin: PredicateOrigin, view: View, reading: Reading) -> PredicateResult:
    try:
        expression = expressions.compile(text)
    except BadExpression as problem:
        return _result_of(reading, text=text, origin=origin, holds=PredicateOutcome.UNDECIDABLE, reason=problem.detail)
    answer = expressions.evaluate(expression, view)
    expected, actual = _sides(expression, answer, view)
    return _result_of(
        reading,
        text=text,
        origin=origin,
        holds=PredicateOutcome(answer.truth),
        reason=answer.reason,
        expected=expected,
        actual=actual,
    )


def _sides(expression: Expression, answer: Evaluation, view: View) -> tuple[Any, Any]:
    """Return (expected, actual): the side that reads the authority is the actual one."""
    if expression.sides is None:
        return None, None
    left, sign, right = expression.sides
    first = expressions.display_value(left, view)
    # Where two things are equal, one look shows both.
    values = first, first if sign == "==" and answer.truth is Truth.TRUE else expressions.display_value(right, view)
    asks_right = "sa." in right.text and "sa." not in left.text
    return values if asks_right else (values[1], values[0])


def _scope_results(reading: Reading, scope: Mapping[str, Any], target_resource: str) -> Iterator[PredicateResult]:
    """Compare tenant and target of each effect with what was authorised (R-RC-06, R-RC-11)."""
    tenant = str(scope["tenant"]) if "tenant" in scope else None
    # A target is a kind, a slash and the thing's own id; a source knows the id.
    targets = {target_resource, target_resource.partition("/")[2]} - {""}
    for effect in reading.effects:
        yield _scope_result(reading, effect, "tenant", {tenant} if tenant else set())
        yield _scope_result(reading, effect, "target", targets)
        if effect.strayed:
            yield _result_of(
                reading,
                text=f"effects.{effect.name} is nowhere else",
                origin=PredicateOrigin.SCOPE,
                holds=PredicateOutcome.FALSE,
                reason="The same effect was found where nobody wanted it.",
                expected=None,
                actual=list(effect.strayed),
            )


def _scope_result(reading: Reading, effect: ReadEffect, kind: str, allowed: set[str]) -> PredicateResult:
    found = effect.scope.get(kind)
    holds, reason = _check_within(found, allowed, kind)
    if not effect.present and holds is PredicateOutcome.UNDECIDABLE:
        holds, reason = PredicateOutcome.NOT_APPLICABLE, "Nothing of this effect was found."
    return _result_of(
        reading,
        text=f"effects.{effect.name}.{kind} is within the authorised scope",
        origin=PredicateOrigin.SCOPE,
        holds=holds,
        reason=reason,
        expected=sorted(allowed, key=len)[0] if allowed else None,
        actual=None if not found else found[0] if len(found) == 1 else list(found),
    )


def _check_within(found: tuple[Any, ...] | None, allowed: set[str], kind: str) -> tuple[PredicateOutcome, str]:
    if found is None:
        return PredicateOutcome.NOT_APPLICABLE, f"The lookup declares no {kind} to compare."
    if not allowed:
        return PredicateOutcome.UNDECIDABLE, f"No authorised {kind} is known."
    if any(one is not None and str(one) not in allowed for one in found):
        return PredicateOutcome.FALSE, f"The {kind} lies outside the authorised scope."
    if not found or None in found:
        return PredicateOutcome.UNDECIDABLE, f"The source names no {kind}."
    return PredicateOutcome.TRUE, ""


def _result_of(reading: Reading, **parts: Any) -> PredicateResult:
    return PredicateResult(
        source=reading.source,
        consistency=reading.trusted_as,
        observed_at=reading.observed_at,
        **parts,
    )


def mentions_effect(text: str, effects: frozenset[str]) -> bool:
    """Return whether a predicate names one of these effects."""
    asked = expressions.paths_of(text, "sa", expressions.VARIABLES)
    return any(path[:1] == ("effects",) and path[1:2] and path[1] in effects for path in asked)
