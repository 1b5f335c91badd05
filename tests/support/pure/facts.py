"""Facts as they usually are in each state; a test names only what it is about."""

from __future__ import annotations

from typing import Any, Final

from ledger.record.rules.lifecycle import State
from reviews.reconciliation.rules.shown import Shown
from reviews.reporting.rules.facts import (
    Answer,
    Attempt,
    Authorization,
    Doubt,
    DoubtSource,
    Facts,
    Permission,
    RunReading,
)
from tests.support.pure.histories import START

REVERSED: Final = 40
_UNSTARTED: Final = frozenset({State.PROPOSED, State.VALIDATED})
_SHOWN: Final[dict[State, tuple[Shown, str]]] = {
    State.COMMITTED: (Shown.AS_REQUESTED, ""),
    State.RECONCILED_SUCCESS: (Shown.AS_REQUESTED, ""),
    State.PARTIALLY_COMMITTED: (Shown.DIFFERENT, "PARTIAL_APPLICATION"),
    State.FORWARD_RECOVERY: (Shown.DIFFERENT, "PARTIAL_APPLICATION"),
    State.RECONCILIATION_FAILED: (Shown.DIFFERENT, "VALUE_MISMATCH"),
    State.COMPENSATING: (Shown.DIFFERENT, "VALUE_MISMATCH"),
    State.COMPENSATION_FAILED: (Shown.DIFFERENT, "VALUE_MISMATCH"),
    State.COMPENSATED: (Shown.AS_REQUESTED, ""),
    State.FAILED: (Shown.NO_EFFECT, ""),
    State.ROLLED_BACK: (Shown.NO_EFFECT, ""),
    State.REVIEW_REQUIRED: (Shown.NO_EFFECT, "NO_OP_FAILURE"),
    State.ABANDONED: (Shown.NO_EFFECT, "NO_OP_FAILURE"),
    State.UNKNOWN: (Shown.UNDECIDED, "UNKNOWN_STATE"),
    State.VERIFICATION_TIMEOUT: (Shown.UNDECIDED, "UNKNOWN_STATE"),
}


def attempt(number: int = 1, *, seq: int = 3, silent: int | None = None, answers: tuple[Answer, ...] = ()) -> Attempt:
    return Attempt(number=number, executor="ex", seq=seq, at=START, silent=silent, answers=answers)


def answer(status: str = "success", *, seq: int = 4, unsent: bool = False) -> Answer:
    claims = status == "success"
    return Answer(seq=seq, status=status, claims_success=claims, nothing_sent=unsent, pointer="o-1", at=START)


def reading(shown: Shown, discrepancy: str = "", *, seq: int = 5, difference: str = "") -> RunReading:
    consistency = "REPLICA" if shown is Shown.WEAK else "PRIMARY"
    return RunReading(
        run=f"r-{seq}",
        source="" if shown is Shown.NOT_READ else "shop",
        consistency=consistency,
        shown=shown,
        discrepancy=discrepancy,
        seqs=(seq,),
        at=START,
        difference=difference,
    )


def facts_in(state: State, **changes: Any) -> Facts:
    """An approved action with an answer of its tool, and the reading that usually leads to this state."""
    usual: dict[str, Any] = {
        "reached_by": "otherwise",
        "side_effect_class": "HIGH_RISK_EXTERNAL",
        "authorization": Authorization(how=Permission.APPROVED, seqs=(2,)),
    }
    if state not in _UNSTARTED:
        usual["attempts"] = (attempt(answers=(answer(),)),)
    if state in _SHOWN:
        usual["readings"] = (reading(*_SHOWN[state]),)
    if state is State.COMPENSATED:
        usual["reversal"] = REVERSED
    return Facts(state=state, **(usual | changes))


def doubt(source: DoubtSource = DoubtSource.READING) -> Doubt:
    return Doubt(source, 9)
