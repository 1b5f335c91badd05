"""Outcomes: the single term for an action's status, used wherever it is shown.

1. The outcome follows from the present view of an action alone: its state, the kind of the event by which it came there
   (`reached_by`), its class, its finding, whether people were asked, and whether it was contradicted or taken back
   afterwards.
2. VERIFIED stands only where a reading of the system of record settled a success. Where the target was as wanted
   before, it is UNCHANGED: the action found nothing to do, or to undo. What a person attested is ATTESTED or
   ATTESTED_ABSENT, another effect than was requested that they accepted is ACCEPTED_AS_IT_IS; a reversal that rests on
   somebody's word is COMPENSATED_AS_ATTESTED.
3. FAILED stands only where an execution came to nothing. What never ran says why it did not: rejected, sent back for
   changes, replaced, expired, blocked or cancelled.
4. A contradiction outweighs every other outcome; taking back outweighs the success that was taken back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol

from ledger.catalogue.rules.effects import SideEffectClass
from ledger.record.rules.lifecycle import State


class Outcome(StrEnum):
    """The status of an action; the words that people read are in `WORDS`."""

    PROPOSED = "PROPOSED"
    WAITING_FOR_APPROVAL = "WAITING_FOR_APPROVAL"
    READY = "READY"
    APPROVED = "APPROVED"
    EXECUTING = "EXECUTING"
    VERIFYING = "VERIFYING"
    VERIFIED = "VERIFIED"
    UNCHANGED = "UNCHANGED"
    ANSWERED = "ANSWERED"
    ATTESTED = "ATTESTED"
    ACCEPTED_AS_IT_IS = "ACCEPTED_AS_IT_IS"
    ATTESTED_ABSENT = "ATTESTED_ABSENT"
    PARTIALLY_APPLIED = "PARTIALLY_APPLIED"
    COMPENSATING = "COMPENSATING"
    ROLLING_BACK = "ROLLING_BACK"
    RECOVERING = "RECOVERING"
    COMPENSATED = "COMPENSATED"
    COMPENSATED_AS_ATTESTED = "COMPENSATED_AS_ATTESTED"
    ROLLED_BACK = "ROLLED_BACK"
    UNKNOWN = "UNKNOWN"
    NEEDS_REVIEW = "NEEDS_REVIEW"
    CONTRADICTED = "CONTRADICTED"
    REJECTED = "REJECTED"
    CHANGES_REQUESTED = "CHANGES_REQUESTED"
    REPLACED = "REPLACED"
    EXPIRED = "EXPIRED"
    BLOCKED = "BLOCKED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    SETTLED_AS_FAILED = "SETTLED_AS_FAILED"
    CLOSED_UNRESOLVED = "CLOSED_UNRESOLVED"


_O, _S = Outcome, State
WORDS: Final[dict[Outcome, str]] = {
    _O.PROPOSED: "Proposed",
    _O.WAITING_FOR_APPROVAL: "Waiting for approval",
    _O.READY: "Ready to run",
    _O.APPROVED: "Approved, ready to run",
    _O.EXECUTING: "Executing",
    _O.VERIFYING: "Verifying",
    _O.VERIFIED: "Verified",
    _O.UNCHANGED: "No change needed",
    _O.ANSWERED: "Answered",
    _O.ATTESTED: "Attested (not verified)",
    _O.ACCEPTED_AS_IT_IS: "Accepted (not as requested)",
    _O.ATTESTED_ABSENT: "Attested as not done (not verified)",
    _O.PARTIALLY_APPLIED: "Partially applied",
    _O.COMPENSATING: "Compensating",
    _O.ROLLING_BACK: "Rolling back",
    _O.RECOVERING: "Recovering",
    _O.COMPENSATED: "Compensated",
    _O.COMPENSATED_AS_ATTESTED: "Compensated (attested, not verified)",
    _O.ROLLED_BACK: "Rolled back",
    _O.UNKNOWN: "Unknown",
    _O.NEEDS_REVIEW: "Needs review",
    _O.CONTRADICTED: "Contradicted",
    _O.REJECTED: "Rejected",
    _O.CHANGES_REQUESTED: "Changes requested",
    _O.REPLACED: "Replaced",
    _O.EXPIRED: "Expired",
    _O.BLOCKED: "Blocked by the gate",
    _O.CANCELLED: "Cancelled",
    _O.FAILED: "Failed",
    _O.SETTLED_AS_FAILED: "Settled as failed",
    _O.CLOSED_UNRESOLVED: "Closed unresolved",
}
"""One word for one outcome: on pages, in tables, in the API's document and in the docs."""

BY_STATE: Final[dict[State, Outcome]] = {
    _S.PROPOSED: _O.PROPOSED,
    _S.VALIDATED: _O.APPROVED,
    _S.EXECUTING: _O.EXECUTING,
    _S.ACCEPTED: _O.EXECUTING,
    _S.PENDING: _O.VERIFYING,
    _S.COMMITTED: _O.VERIFYING,
    _S.PARTIALLY_COMMITTED: _O.PARTIALLY_APPLIED,
    _S.RECONCILED_SUCCESS: _O.VERIFIED,
    _S.RECONCILIATION_FAILED: _O.ROLLING_BACK,
    _S.FAILED: _O.FAILED,
    _S.VERIFICATION_TIMEOUT: _O.UNKNOWN,
    _S.UNKNOWN: _O.UNKNOWN,
    _S.COMPENSATING: _O.COMPENSATING,
    _S.COMPENSATED: _O.COMPENSATED,
    _S.COMPENSATION_FAILED: _O.NEEDS_REVIEW,
    _S.FORWARD_RECOVERY: _O.RECOVERING,
    _S.ROLLED_BACK: _O.ROLLED_BACK,
    _S.REVIEW_REQUIRED: _O.NEEDS_REVIEW,
    _S.ABANDONED: _O.CLOSED_UNRESOLVED,
}
"""What a state comes to where the way to it makes no difference."""

ATTESTED_REVERSAL: Final = "compensation_attested"
"""The kind of the event that ends a reversal of which a part rests on a person's word."""

ANSWERED_KIND: Final = "answered"
"""The kind of the event that ends a read whose answer was checked; a read that was read back ends like any other."""

NO_OP: Final = "NO_OP_SUCCESS"
"""The finding on an action whose target was as wanted before it ran."""

BY_KIND: Final[dict[tuple[State, str], Outcome]] = {
    (_S.VALIDATED, "validated"): _O.WAITING_FOR_APPROVAL,
    (_S.VALIDATED, "approval_asked_again"): _O.WAITING_FOR_APPROVAL,
    (_S.VALIDATED, "approval_revalidated"): _O.WAITING_FOR_APPROVAL,
    (_S.RECONCILED_SUCCESS, "attested_present"): _O.ATTESTED,
    (_S.RECONCILED_SUCCESS, "accepted_as_it_is"): _O.ACCEPTED_AS_IT_IS,
    (_S.FAILED, "attested_absent"): _O.ATTESTED_ABSENT,
    (_S.ROLLED_BACK, "attested_absent"): _O.ATTESTED_ABSENT,
    (_S.COMPENSATED, "attested_absent"): _O.COMPENSATED_AS_ATTESTED,
    (_S.COMPENSATED, ATTESTED_REVERSAL): _O.COMPENSATED_AS_ATTESTED,
    (_S.FAILED, "failed_by_review"): _O.SETTLED_AS_FAILED,
    (_S.FAILED, "rejected"): _O.REJECTED,
    (_S.FAILED, "changes_requested"): _O.CHANGES_REQUESTED,
    (_S.FAILED, "superseded"): _O.REPLACED,
    (_S.FAILED, "approval_expired"): _O.EXPIRED,
    (_S.FAILED, "provider_outage"): _O.EXPIRED,
    (_S.FAILED, "approval_voided"): _O.BLOCKED,
    (_S.FAILED, "outside_autonomy"): _O.BLOCKED,
    (_S.FAILED, "preflight_refused"): _O.BLOCKED,
    (_S.FAILED, "validation_failed"): _O.BLOCKED,
    (_S.FAILED, "cancelled"): _O.CANCELLED,
}
"""Where the kind of event by which a state was reached makes the difference."""

SET_APART: Final = tuple(sorted({kind for state, kind in BY_KIND if state is not State.VALIDATED}))
"""The kinds behind the outcomes that are rare among the actions of their state; an index holds only these."""


def set_apart(reached_by: str) -> str | None:
    """Return the kind of event if it sets an action apart, otherwise empty; the database has the same function."""
    return reached_by if reached_by in SET_APART else None


BY_WORD: Final = frozenset(
    {
        *(_O.ATTESTED, _O.ACCEPTED_AS_IT_IS, _O.ATTESTED_ABSENT, _O.COMPENSATED_AS_ATTESTED),
        *(_O.SETTLED_AS_FAILED, _O.CLOSED_UNRESOLVED),
    },
)
"""The outcomes that a person's word settled, whatever was read before."""

AS_REQUESTED: Final = frozenset({_O.VERIFIED, _O.UNCHANGED})
"""The outcomes of changes that a reading settled as requested: made by the action, or there before it."""

NEVER_RAN: Final = frozenset(
    {_O.REJECTED, _O.CHANGES_REQUESTED, _O.REPLACED, _O.EXPIRED, _O.BLOCKED, _O.CANCELLED},
)
"""The outcomes of what ended before it was executed: nothing failed, nothing happened."""


class ActionView(Protocol):
    """The columns of an action's present view that its outcome follows from."""

    @property
    def state(self) -> Any: ...
    @property
    def reached_by(self) -> Any: ...
    @property
    def side_effect_class(self) -> Any: ...
    @property
    def discrepancy(self) -> Any: ...
    @property
    def approval_id(self) -> Any: ...
    @property
    def contradicted(self) -> Any: ...
    @property
    def reversed(self) -> Any: ...


def outcome_of(action: ActionView) -> Outcome:
    """The outcome of an action (rules 1 to 4)."""
    if action.contradicted:
        return Outcome.CONTRADICTED
    if action.reversed:
        by_word = action.reached_by in (ATTESTED_REVERSAL, "attested_absent")
        return Outcome.COMPENSATED_AS_ATTESTED if by_word else Outcome.COMPENSATED
    state = State(action.state)
    found = BY_KIND.get((state, action.reached_by), BY_STATE[state])
    if state is State.VALIDATED and action.approval_id is None:
        return Outcome.READY
    return _kind_of_success(action.side_effect_class, action.discrepancy) if found is Outcome.VERIFIED else found


def outcome_of_step(state: str, kind: str, entry: Mapping[str, Any] | None = None) -> Outcome:
    """The outcome after an event of this kind that left its action in this state, with this entry if it is at hand."""
    if kind == ANSWERED_KIND:
        return Outcome.ANSWERED
    found = BY_KIND.get((State(state), kind), BY_STATE[State(state)])
    if found is not Outcome.VERIFIED or entry is None:
        return found
    return _kind_of_success(
        entry.get("side_effect_class"), (entry.get("reconciliation") or {}).get("discrepancy_class")
    )


def _kind_of_success(side_effect_class: str | None, discrepancy: str | None) -> Outcome:
    if side_effect_class == SideEffectClass.READ_ONLY:
        return Outcome.ANSWERED
    return Outcome.UNCHANGED if discrepancy == NO_OP else Outcome.VERIFIED


UNKNOWN_STATES: Final = (State.UNKNOWN, State.VERIFICATION_TIMEOUT)
UNTOLD: Final = ("", "UNKNOWN_STATE", "UNVERIFIABLE_STATE", "PROPAGATION_DELAY")
"""The findings that do not say whether an action took effect."""
LOST_STARTS: Final = ("held_after_restore", "start_without_record")
"""The kinds of the events by which an action is held that may have been started before the record was set back."""


class AttemptedView(ActionView, Protocol):
    """The same with the number of its starts."""

    @property
    def attempt_count(self) -> Any: ...


def is_unknown(action: AttemptedView) -> bool:
    """Return whether it is not known whether an action took effect.

    So it is where something speaks against what was settled, in a state that says so, and where people have it in
    review with a finding that does not tell; of one that never started it is known. The database is asked for the same
    by `ledger.actions.queries.actions.not_known`.
    """
    if action.contradicted or action.state in UNKNOWN_STATES:
        return True
    if action.state != State.REVIEW_REQUIRED or action.discrepancy not in UNTOLD:
        return False
    return may_have_started(action)


def may_have_started(action: AttemptedView) -> bool:
    """Return whether an action was started, or may have been before the record went back."""
    return bool(action.discrepancy) or action.attempt_count > 0 or action.reached_by in LOST_STARTS


@dataclass(frozen=True)
class OutcomePath:
    """One way to an outcome, as conditions on the present view: a state, and which kinds of event reached it.

    `kinds` are the only ones that count, `but` those that do not; `asked`, `read_only` and `no_op` narrow it further,
    where they are not None.
    """

    state: State
    kinds: tuple[str, ...] = ()
    but: tuple[str, ...] = ()
    asked: bool | None = None
    read_only: bool | None = None
    no_op: bool | None = None


def outcome_paths(outcome: Outcome) -> Iterator[OutcomePath]:
    """Every way to an outcome of an action that was neither contradicted nor taken back: what a search asks for."""
    success = {Outcome.VERIFIED: (False, False), Outcome.UNCHANGED: (False, True), Outcome.ANSWERED: (True, None)}
    if outcome in success:
        told, (read_only, no_op) = _told_by_kind(State.RECONCILED_SUCCESS), success[outcome]
        yield OutcomePath(State.RECONCILED_SUCCESS, but=tuple(told), read_only=read_only, no_op=no_op)
        return
    if outcome is Outcome.READY:
        yield OutcomePath(State.VALIDATED, asked=False)
    for state, usual in BY_STATE.items():
        told = _told_by_kind(state)
        kinds = tuple(kind for kind, found in told.items() if found is outcome)
        asked = True if state is State.VALIDATED else None
        if usual is outcome:
            yield OutcomePath(state, but=tuple(told), asked=asked)
        elif kinds:
            yield OutcomePath(state, kinds=kinds, asked=asked)


def _told_by_kind(state: State) -> dict[str, Outcome]:
    return {kind: found for (each, kind), found in BY_KIND.items() if each is state}


# Classes of proof, strongest first: A, a passkey signed the statement, its holder present and verified; B, the session
# and a fresh one-time code; C, the session and the fresh password; D, the session alone (D7).
PASSKEY: Final = "A"
SESSION_ALONE: Final = "D"


def is_as_strong(given: str, wanted: str) -> bool:
    """Return True if a class of proof is at least as strong as the required one: A above B above C, any other below
    all.
    """
    order = "ABC"
    return len(given) == 1 and given in order and order.index(given) <= order.index(wanted)
