"""Findings about the rules of an approval policy: rules that never count, have no effect, or match every call.

Only certain findings are reported. Conditions are not solved: one that is left out or is `true` holds for every call,
`false` for none, and two with the same text hold together. A rule that is not named here may still never count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from approvals.policy.rules.policy import ApprovalPolicy, PolicyRule


@dataclass(frozen=True, kw_only=True)
class RuleFinding:
    """One finding about one rule.

    NEVER: without it every call is decided as with it. UNCLEAR_ONLY: the same, but where its condition cannot be told,
    in which case people are asked. ALWAYS: it matches every call.
    """

    rule: str
    code: str
    text: str


def analyse_rules(policy: ApprovalPolicy) -> tuple[RuleFinding, ...]:
    """The findings of the rules in their order, at most one for each."""
    found = ((rule, next(_findings(place, policy.rules), None)) for place, rule in enumerate(policy.rules))
    return tuple(RuleFinding(rule=rule.name, code=said[0], text=said[1]) for rule, said in found if said)


def _findings(place: int, rules: Sequence[PolicyRule]) -> Iterator[tuple[str, str]]:
    """(code, text) of everything that is certain of one rule, the weightiest first."""
    rule, before, behind = rules[place], rules[:place], rules[place + 1 :]
    if _text(rule) == "false":
        yield "NEVER", "Its condition never holds."
    # A refusal before the one of every call still gives its own reason.
    if (refusing := _first_rule(before if rule.outcome == "refuse" else rules, "refuse", "true")) is not None:
        yield "NEVER", f"“{refusing.name}” refuses every call."
    if rule.outcome == "refuse":
        yield from _of_refusal(rule, before)
    else:
        yield from _of_others(rule, before, behind)
    if _text(rule) == "true":
        yield "ALWAYS", _ALWAYS[rule.outcome]


_ALWAYS = {
    "refuse": "No call is allowed.",
    "hold": "Approval is required for each call that no earlier `auto` rule matches.",
    "auto": "No later rule requires approval.",
}


def _of_refusal(rule: PolicyRule, before: Sequence[PolicyRule]) -> Iterator[tuple[str, str]]:
    if (same := _first_rule(before, "refuse", _text(rule))) is not None:
        yield (
            "UNCLEAR_ONLY",
            f"“{same.name}” is earlier and refuses the same calls, and the agent reads the reason given there.",
        )


def _of_others(
    rule: PolicyRule, before: Sequence[PolicyRule], behind: Sequence[PolicyRule]
) -> Iterator[tuple[str, str]]:
    if (sparing := _first_rule(before, "auto", "true")) is not None:
        yield "NEVER", f"“{sparing.name}” is earlier and matches every call, so no rule after it requires approval."
    if (sparing := _first_rule(before, "auto", _text(rule))) is not None:
        yield (
            "UNCLEAR_ONLY",
            f"“{sparing.name}” is earlier and matches the same calls, so no later rule requires approval for them.",
        )
    if rule.outcome == "auto" and all(each.outcome == "refuse" for each in behind):
        code = "NEVER" if _text(rule) == "true" else "UNCLEAR_ONLY"
        yield code, "No later rule requires approval, so it exempts no call."


def _first_rule(rules: Sequence[PolicyRule], outcome: str, text: str) -> PolicyRule | None:
    """The first rule of an outcome with a condition of that text."""
    return next((each for each in rules if each.outcome == outcome and _text(each) == text), None)


def _text(rule: PolicyRule) -> str:
    return rule.when.text.strip() if rule.when is not None else "true"
