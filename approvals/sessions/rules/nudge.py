"""The nudge: the advice to an agent after its calls were answered.

1. A run that was forced to end is over: the agent calls no more tools and gives its user the summary (R-MC-23,
   R-FB-06). A session that takes no more calls needs a new one.
2. While any action of the session is open, the nudge says to wait, names what for by the gravest state, and forbids a
   repeat (R-MC-11, C-33). What was contradicted counts as unknown.
3. What is frozen, over its budget or waits for another action is waited for; what policy refuses is not tried again.
4. Other refused calls are corrected first (R-MC-09).
5. Else, if a result names a next step, the nudge is that step, provided that the contract of the tool that produced it
   allows the step and the session discloses the tool; it travels as data, not as text (R-MC-10, R-MC-12, C-34). A
   result that names none leaves the steps that its contract declares.
6. Else it sends the agent back to acting instead of narrating (R-MC-09).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

from ledger.catalogue.rules.contract import Contract

SETTLED = frozenset({"RECONCILED_SUCCESS", "FAILED", "COMPENSATED", "ROLLED_BACK", "ABANDONED"})


class NextMove(StrEnum):
    """The agent's next move, as a code."""

    STOP = "STOP"
    NEW_SESSION = "NEW_SESSION"
    WAIT = "WAIT"
    ASK = "ASK"
    CORRECT = "CORRECT"
    CALL = "CALL"
    GO_ON = "GO_ON"


@dataclass(frozen=True)
class Nudge:
    """The nudge: the next move and its text; `next_tools` only where a contract names them."""

    text: str
    move: NextMove
    next_tools: tuple[str, ...] = ()

    @property
    def wait(self) -> bool:
        """Return whether the agent must wait."""
        return self.move is NextMove.WAIT

    @property
    def next_tool(self) -> str | None:
        """Return the next tool, if there is exactly one."""
        return self.next_tools[0] if len(self.next_tools) == 1 else None


_DO_NOT = "do not repeat it and do not report it as done"
_WAITS: tuple[tuple[frozenset[str], str], ...] = (
    (
        frozenset({"UNKNOWN", "VERIFICATION_TIMEOUT"}),
        f"Wait. The outcome of an action is not known: {_DO_NOT}. It must be reconciled first.",
    ),
    (
        frozenset({"REVIEW_REQUIRED", "COMPENSATION_FAILED"}),
        f"Wait. A person must settle an action: {_DO_NOT}, and take no step that depends on it.",
    ),
    (
        frozenset({"RECONCILIATION_FAILED", "COMPENSATING", "FORWARD_RECOVERY", "PARTIALLY_COMMITTED"}),
        f"Wait. An action did not go as planned and is being put right: {_DO_NOT}.",
    ),
    (
        frozenset({"EXECUTING", "ACCEPTED", "PENDING", "COMMITTED"}),
        f"Wait. An action is being carried out or verified: {_DO_NOT}. Ask for its state.",
    ),
)
_NOT_YET = f"Wait. An action is not carried out yet: {_DO_NOT}. Ask for its state."
_OVER = "Stop. The run has reached its limit: call no more tools, and give the user the session's summary as it is."
_ENDED = "Stop. This session takes no more calls; ask for a new one."
_REFUSED: tuple[tuple[frozenset[str], NextMove, str], ...] = (
    (
        frozenset({"TARGET_FROZEN"}),
        NextMove.WAIT,
        "Wait. A person has frozen what this touches: do not repeat the call, and do not go round it.",
    ),
    (
        frozenset({"BUDGET_EXCEEDED"}),
        NextMove.WAIT,
        "Wait. A budget is used up: do not repeat the call. Report what is done, and let a person decide.",
    ),
    (
        frozenset({"DUPLICATE_BLOCKED", "UNRESOLVED_DEPENDENCY"}),
        NextMove.WAIT,
        "Wait. The call depends on an action that is not settled: do not repeat it before that is. Ask for its state.",
    ),
    (
        frozenset({"OUTSIDE_AUTONOMY"}),
        NextMove.ASK,
        "Do not repeat what policy refuses. Ask the user, or go on with another step of the goal.",
    ),
)
_SESSION_ENDS = frozenset({"PIN_EXPIRED", "SESSION_CLOSED", "AGENT_NOT_REGISTERED", "REGISTRY_FINGERPRINT_MISMATCH"})
_CORRECT = "Correct the refused calls first, then go on with the goal. Call a tool instead of telling what you will do."
_GO_ON = "Go on with the goal: make the next call, or finish from the summary."


def next_step(producer: Contract, wanted: str | None, disclosed: Collection[str]) -> str | None:
    """The next tool that a result names, if its contract may chain to it and the session discloses it (rule 5)."""
    return wanted if wanted in producer.next_tools and wanted in disclosed else None


def next_steps(producer: Contract, wanted: str | None, disclosed: Collection[str]) -> tuple[str, ...]:
    """The next tools after a result: the one that it names, or all that its contract declares (rule 5)."""
    if wanted is not None:
        step = next_step(producer, wanted, disclosed)
        return (step,) if step is not None else ()
    return tuple(name for name in producer.next_tools if name in disclosed)


def choose_nudge(
    states: Iterable[str | None], *, refused: Iterable[str] = (), steps: tuple[str, ...] = (), forced: bool = False
) -> Nudge:
    """Return the nudge for a session whose actions are in these states (None for a refused call, which left none)."""
    codes = frozenset(refused)
    if forced or "ITERATION_LIMIT" in codes:
        return Nudge(_OVER, NextMove.STOP)
    if codes & _SESSION_ENDS:
        return Nudge(_ENDED, NextMove.NEW_SESSION)
    held = {state for state in states if state is not None and state not in SETTLED}
    if held:
        return Nudge(next((text for those, text in _WAITS if those & held), _NOT_YET), NextMove.WAIT)
    return _after_refusals(codes) or _onward(steps)


def _after_refusals(codes: frozenset[str]) -> Nudge | None:
    """Rules 3 and 4."""
    for those, move, text in _REFUSED:
        if those & codes:
            return Nudge(text, move)
    return Nudge(_CORRECT, NextMove.CORRECT) if codes else None


def _onward(steps: tuple[str, ...]) -> Nudge:
    """Rules 5 and 6."""
    if not steps:
        return Nudge(_GO_ON, NextMove.GO_ON)
    named = " or ".join(f"`{name}`" for name in steps)
    return Nudge(f"Call {named} next.", NextMove.CALL, steps)
