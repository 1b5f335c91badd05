"""The `approval` part of a contract: what must be read of the target before approval is requested.

| field | means |
|---|---|
| baseline | read the target first, freeze that state in the approval, compare it again at the vote and at the start |
| preflight | conditions over `pre`, `sr` and `scope`; a false one shows that the action is doomed: nobody is asked |
| blast_radius | `count`, an expression over the same: how many things it touches; above `high_above`: high risk |
| volatile | paths of the state before whose change means nothing, like `target.seen_at` or `effects.*.etag` |
| prepare_within_s | how long people wait for the reading before they are asked with an unknown baseline |

Each is opt-in. A contract that asks for none of it, and whose predicates do not speak of `pre`, is asked about at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ledger.catalogue.rules import expressions
from ledger.catalogue.rules.expressions import BadExpression

NAMES = ("pre", "scope", "sr")
WITHIN_S = 5


@dataclass(frozen=True)
class Condition:
    """A condition on the state before execution; `otherwise` is the text for the agent if it does not hold."""

    holds: str
    otherwise: str = ""


@dataclass(frozen=True)
class PreflightSpec:
    """The preflight settings of a contract, each with its default."""

    baseline: bool = False
    preflight: tuple[Condition, ...] = ()
    volatile: tuple[str, ...] = ()
    blast_radius: str = ""
    high_above: int | None = None
    within_s: int = WITHIN_S

    @property
    def wanted(self) -> bool:
        """True if the contract itself requires a reading before people are asked."""
        if self.baseline or self.preflight:
            return True
        return bool(self.blast_radius) and "pre" in expressions.variables_of((self.blast_radius,))


def read(approval: Mapping[str, Any]) -> PreflightSpec:
    """The preflight settings in a contract's `approval` part."""
    radius = approval.get("blast_radius", {})
    return PreflightSpec(
        baseline=approval.get("baseline", False),
        preflight=tuple(_condition(each) for each in approval.get("preflight", ())),
        volatile=tuple(approval.get("volatile", ())),
        blast_radius=radius.get("count", ""),
        high_above=radius.get("high_above"),
        within_s=approval.get("prepare_within_s", WITHIN_S),
    )


def faults(
    document: Mapping[str, Any], compile_predicate: Callable[[str], str | None]
) -> Iterator[tuple[str, str, str]]:
    """(path, code, detail) of every fault in a contract's preflight settings."""
    approval = document.get("approval", {})
    wishes = read(approval)
    if wishes.wanted and document.get("verification") is None:
        yield "/approval", "NOTHING_TO_READ", "Without a verification part nothing can be read before people are asked."
    for place, condition in enumerate(wishes.preflight):
        detail = _foreign(condition.holds) or compile_predicate(condition.holds)
        if detail:
            yield f"/approval/preflight/{place}", "BAD_PREFLIGHT", detail
    if wishes.blast_radius:
        try:
            expressions.check_value(wishes.blast_radius, NAMES)
        except BadExpression as problem:
            yield "/approval/blast_radius/count", "BAD_BLAST_RADIUS", problem.detail


def _condition(part: Any) -> Condition:
    return Condition(part) if isinstance(part, str) else Condition(part["holds"], part.get("otherwise", ""))


def _foreign(text: str) -> str:
    strangers = expressions.variables_of((text,)) - set(NAMES)
    if not strangers:
        return ""
    return f"Before the action only {', '.join(NAMES)} are known, not {', '.join(sorted(strangers))}."
