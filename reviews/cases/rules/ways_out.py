"""Ways out: who has to act on an action that has not ended, and by which control (R-SM-26, C-62).

1. Every state in which an action can rest has an owner and at least one control. The states in `PASSED` are left in the
   transaction that enters them and need none.
2. An open case comes first: its resolutions are what people may decide. An action that is being recovered ends as its
   recovery action does, whatever case stands beside it.
3. A settled case whose contradiction stands is reopened, unless it was closed unresolved. An action that nothing but a
   person can take further, and that has no case, gets one from an operator.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ledger.record.rules.lifecycle import State
from reviews.cases.rules.resolutions import SETTLED, waits_for_a_person


class Owner(StrEnum):
    """The party that has to act next."""

    REVIEWERS = "REVIEWERS"
    EXECUTORS = "EXECUTORS"
    CONSOLE = "CONSOLE"
    OPERATORS = "OPERATORS"


class Control(StrEnum):
    """A step that leads out of a state."""

    DECIDE = "DECIDE"
    CANCEL = "CANCEL"
    REPORT = "REPORT"
    VERIFY = "VERIFY"
    FOLLOW_RECOVERY = "FOLLOW_RECOVERY"
    OPEN_CASE = "OPEN_CASE"
    SETTLE_CASE = "SETTLE_CASE"
    REOPEN_CASE = "REOPEN_CASE"


@dataclass(frozen=True, kw_only=True)
class OpenAction:
    """The facts that a way out depends on. `asked`: people have yet to decide about it. `is_read`: the console reads it
    back. `case` is the state of its newest case, empty if it has none; `left`: a person closed it unresolved.
    """

    state: State
    settled: bool = False
    contradicted: bool = False
    asked: bool = False
    is_read: bool = False
    case: str = ""
    left: bool = False


@dataclass(frozen=True, kw_only=True)
class WayOut:
    """The party that has to act, and its controls."""

    owner: Owner
    controls: tuple[Control, ...]


PASSED = frozenset(
    {
        State.PROPOSED,
        State.COMMITTED,
        State.PARTIALLY_COMMITTED,
        State.VERIFICATION_TIMEOUT,
        State.COMPENSATION_FAILED,
    }
)
_RECOVERED = frozenset({State.COMPENSATING, State.FORWARD_RECOVERY, State.RECONCILIATION_FAILED})


def way_out(action: OpenAction) -> WayOut | None:
    """Return the way to end an action's present state; None if it has ended and nothing is open about it."""
    if action.is_read:
        return WayOut(owner=Owner.CONSOLE, controls=(Control.VERIFY,))
    if action.state in _RECOVERED:
        return WayOut(owner=Owner.CONSOLE, controls=(Control.FOLLOW_RECOVERY,))
    if action.case and action.case != "RESOLVED":
        return WayOut(owner=Owner.OPERATORS, controls=(Control.SETTLE_CASE,))
    if action.contradicted and action.case and not action.left:
        return WayOut(owner=Owner.OPERATORS, controls=(Control.REOPEN_CASE,))
    if action.state in SETTLED:
        return None
    if waits_for_a_person(action.state, settled=action.settled):
        return WayOut(owner=Owner.OPERATORS, controls=(Control.OPEN_CASE,))
    if action.state is State.VALIDATED:
        asked = WayOut(owner=Owner.REVIEWERS, controls=(Control.DECIDE, Control.CANCEL))
        return asked if action.asked else WayOut(owner=Owner.EXECUTORS, controls=(Control.CANCEL,))
    if action.state is State.EXECUTING:
        return WayOut(owner=Owner.EXECUTORS, controls=(Control.REPORT,))
    return WayOut(owner=Owner.CONSOLE, controls=())
