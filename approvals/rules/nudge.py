"""The nudge: what an agent is told to do after its calls were answered.

1. While any of its actions is open, the nudge says to wait, and forbids a repeat (R-MC-11, C-33).
2. Else, if a result names a next step, the nudge is that step, provided that the contract of the tool that produced it
   allows the step and the session discloses the tool; it travels as data, not as text (R-MC-10, R-MC-12, C-34).
3. Else it sends the agent back to acting instead of narrating (R-MC-09).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ledger.rules.contract import Contract

_SETTLED = frozenset({"RECONCILED_SUCCESS", "FAILED", "COMPENSATED", "ROLLED_BACK", "ABANDONED"})
_TEXT = {
    True: "Wait. An action is not settled yet: do not repeat it and do not report it as done. Ask for its state.",
    False: "Go on with the goal: make the next call, or finish from the summary. Correct refused calls first.",
}


@dataclass(frozen=True)
class Nudge:
    """What to do next; `next_tool` only when a contract names it."""

    text: str
    wait: bool
    next_tool: str | None = None


def next_step(producer: Contract, wanted: str | None, disclosed: Collection[str]) -> str | None:
    """The next tool that a result asks for, if its contract may chain to it and the session discloses it (rule 2)."""
    return wanted if wanted in producer.next_tools and wanted in disclosed else None


def nudge(states: Iterable[str | None], *, step: str | None = None) -> Nudge:
    """The nudge after answers whose actions are in these states (None for a refused call)."""
    wait = any(state is not None and state not in _SETTLED for state in states)
    if not wait and step is not None:
        return Nudge(f"Call `{step}` next.", False, step)
    return Nudge(_TEXT[wait], wait)
