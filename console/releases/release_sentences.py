"""The status, next step and canary of a release, in sentences. Pure: no clock, no database."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from console.policies.policy_sentences import KIND_NAMES
from ledger.catalogue.rules.releases import CANARY, CONTRACT, GATES, SIGNED, CanaryFigures, CanaryScope

STATE_NAMES = {
    "DRAFT": "Draft",
    "CHECKED": "Ready for the canary",
    "CANARY": "On canary",
    "READY": "Waiting for promotion",
    "PROMOTED": "Promoted",
    "STOPPED": "Stopped",
    "WITHDRAWN": "Withdrawn",
    "ROLLED_BACK": "Rolled back",
}
OPEN_STATES = frozenset({"DRAFT", "CHECKED", "CANARY", "READY"})

_ENDED = {
    "PROMOTED": "Two people promoted it.",
    "STOPPED": "Its canary was stopped, and the version in force decides everything.",
    "WITHDRAWN": "It was withdrawn before it took effect.",
    "ROLLED_BACK": "It was in force and was rolled back to an earlier version.",
}
_NEXT_WHERE_ENDED = {
    "STOPPED": "To change it, create a new release.",
    "WITHDRAWN": "To change it, create a new release.",
    "ROLLED_BACK": "It cannot be reinstated; create a new release.",
}


def release_name(kind: str, tool: str) -> str:
    """The subject of a release: a contract or a policy."""
    return f"Contract of {tool}" if kind == CONTRACT else KIND_NAMES[kind]


def standing_sentence(
    state: str, *, red: Sequence[str], ran: bool, is_on_canary: bool = False, is_in_force: bool = False
) -> str:
    """The status of a release: `red` are the gates not passed; `ran`: any was run."""
    if state == "DRAFT":
        found = f"{_join_gates(red)} {'is' if len(red) == 1 else 'are'} not passed" if ran else "No gate was run"
        return f"It is a draft and has no effect yet. {found[:1].upper()}{found[1:]}."
    if state == "CHECKED":
        return "Every gate except the canary has passed. It has no effect yet."
    if state == "CANARY":
        return "It decides some live actions; the version in force decides all others."
    if state == "READY":
        until = "it decides only the actions of its canary" if is_on_canary else "it has no effect"
        return f"Every gate is passed. Until it is promoted {until}."
    return _ENDED[state] + (" It is in force." if is_in_force else "")


def next_step(
    state: str,
    *,
    red: Sequence[str],
    ran: bool,
    first_by: str = "",
    is_basis_old: bool = False,
    is_on_canary: bool = False,
    left: int = 0,
) -> str:
    """Return the next step as a sentence: `first_by` promoted it first, `left` actions of its canary have not ended."""
    if is_basis_old and state in OPEN_STATES:
        over = "Stop it" if is_on_canary else "Withdraw it"
        again = "Run the gates again." if state in ("DRAFT", "CHECKED") else f"{over} and create a new draft."
        return f"Another version has taken effect since its gates ran. {again}"
    if state == "DRAFT":
        unsigned = [gate for gate in red if gate != CANARY]
        if not ran:
            return "Run the gates."
        if set(unsigned) <= set(SIGNED):
            return f"A person who did not draft it must sign {_join_gates(unsigned)}."
        return "Failures are listed below. If the draft is wrong, withdraw it and create a new one."
    if state == "CHECKED":
        return "Start the canary."
    if state == "CANARY":
        actions = "1 more action" if left == 1 else f"{left} more actions"
        return f"Wait until {actions} of its canary have ended. The figures are looked at every ten seconds."
    if state == "READY":
        return (
            f"{first_by} promoted it; another person must promote it as well."
            if first_by
            else "Two people must promote it."
        )
    return _NEXT_WHERE_ENDED.get(state, "")


def missing_people_sentence(people: int) -> str:
    """The reason why a release cannot be finished by the people there are; empty if it can."""
    if people > 1:
        return ""
    there = "only one person who is an operator or administrator" if people else "no operator or administrator"
    return (
        f"This release cannot take effect yet: two people must promote it, and there is {there}."
        " Invite another one first."
    )


def scope_sentence(scope: CanaryScope) -> str:
    """The actions that a canary decides, and the number that must end."""
    which = f"the tools {', '.join(scope.tools)}" if len(scope.tools) > 1 else "every tool"
    which = f"the tool {scope.tools[0]}" if len(scope.tools) == 1 else which
    share = "every action" if scope.share == 100 else f"{scope.share} percent of the actions"
    return (
        f"It covers {share} of {which}, of those that were proposed after it began."
        f" It is passed when {scope.actions} of them have ended and none of the figures is worse."
    )


def canary_rows(inside: CanaryFigures, beside: CanaryFigures) -> list[tuple[str, int, int]]:
    """The figures of a canary, each compared with the rest."""
    words = {
        "ended": "Ended",
        "discrepancies": "With a discrepancy",
        "unknown": "Unknown",
        "false_success": "Reported as done and contradicted",
    }
    return [(word, getattr(inside, name), getattr(beside, name)) for name, word in words.items()]


def gate_label(gate: str) -> str:
    """The label of a gate: its code, if it has one, and its name."""
    name = GATES[gate][0]
    return f"{gate} ({name})" if gate.startswith("RG-") else f"the {name.lower()}"


def _join_gates(gates: Iterable[str]) -> str:
    words = [gate_label(gate) for gate in gates]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
