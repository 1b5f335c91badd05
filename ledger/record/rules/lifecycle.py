"""The lifecycle of every subject of the record: the permitted transitions, and their grounds.

1. An action has the nineteen states of R-SM-20 and the fifty-four recommended transitions (R-SM-01 to R-SM-19,
   C-01 to C-10). Nothing else is legal; the database holds the same pairs and forbids the rest.
2. Some transitions need grounds: facts that the caller has established in the same transaction (`NEEDS`).
   REVIEW_REQUIRED is left by people only, with a reason and evidence (C-03).
   A tool that only reads has no effect that a reading could show: where its contract names no check, the checks of its
   answer stand in the place of a decisive reading (`STANDS_FOR`), and the ground says so by its own name.
3. An event that changes no state (a vote, a readback, a report) keeps the state it found; that is legal everywhere.
4. Other subjects (an approval, a case, a freeze …) have small machines of their own, in `MACHINES`.

`next_state` is total: it returns the next state or refuses. `replay` walks a list of events and says where it breaks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cache

from ledger.record.rules.refusals import Refused


class IllegalTransition(Refused):
    """This state does not allow that step."""

    code = "ILLEGAL_TRANSITION"


class GroundsMissing(Refused):
    """The preconditions of this step are not met."""

    code = "GROUNDS_MISSING"


class State(StrEnum):
    """The states of an action (tables/state_machine.json)."""

    PROPOSED = "PROPOSED"
    VALIDATED = "VALIDATED"
    EXECUTING = "EXECUTING"
    ACCEPTED = "ACCEPTED"
    PENDING = "PENDING"
    COMMITTED = "COMMITTED"
    PARTIALLY_COMMITTED = "PARTIALLY_COMMITTED"
    RECONCILED_SUCCESS = "RECONCILED_SUCCESS"
    RECONCILIATION_FAILED = "RECONCILIATION_FAILED"
    FAILED = "FAILED"
    VERIFICATION_TIMEOUT = "VERIFICATION_TIMEOUT"
    UNKNOWN = "UNKNOWN"
    COMPENSATING = "COMPENSATING"
    COMPENSATED = "COMPENSATED"
    COMPENSATION_FAILED = "COMPENSATION_FAILED"
    FORWARD_RECOVERY = "FORWARD_RECOVERY"
    ROLLED_BACK = "ROLLED_BACK"
    REVIEW_REQUIRED = "REVIEW_REQUIRED"
    ABANDONED = "ABANDONED"


class Ground(StrEnum):
    """A fact that a transition rests on, shown by the claiming operation in its own transaction."""

    RELEASED = "released"  # approval granted, unexpired, unused, same hash and policy; key reserved; target not frozen
    DECISIVE_READ = "decisive_read"
    EFFECT_OR_CLAIM = "effect_or_claim"  # the read shows an effect, or the tool had claimed success
    NO_EFFECT_NO_CLAIM = "no_effect_no_claim"
    NOTHING_SENT = "nothing_sent"  # the attempt failed before anything left the executor
    # every predicate true over a primary or strong read, or every check of a read's answer passed, or attested
    PREDICATES_HOLD = "predicates_hold"
    SPLIT_EFFECTS = "split_effects"
    NO_EFFECT_REMAINS = "no_effect_remains"
    LOCAL_UNCHANGED = "local_unchanged"
    COMPENSATION_VERIFIED = "compensation_verified"
    RETRY_ALLOWED = "retry_allowed"
    NOTHING_EXECUTED = "nothing_executed"
    REASON_AND_EVIDENCE = "reason_and_evidence"
    DISCREPANCY_RECORDED = "discrepancy_recorded"
    CHANGES_NOTHING = "changes_nothing"  # a READ_ONLY tool: there is no effect to read back; its answer was checked


_S = State
_TARGETS: dict[State, tuple[State, ...]] = {
    _S.PROPOSED: (_S.VALIDATED, _S.FAILED),
    _S.VALIDATED: (_S.EXECUTING, _S.FAILED, _S.REVIEW_REQUIRED),
    _S.EXECUTING: (_S.ACCEPTED, _S.PENDING, _S.COMMITTED, _S.FAILED, _S.UNKNOWN, _S.ROLLED_BACK),
    _S.ACCEPTED: (_S.PENDING, _S.FAILED, _S.UNKNOWN),
    _S.PENDING: (_S.COMMITTED, _S.VERIFICATION_TIMEOUT, _S.FAILED, _S.UNKNOWN),
    _S.COMMITTED: (_S.RECONCILED_SUCCESS, _S.RECONCILIATION_FAILED, _S.PARTIALLY_COMMITTED),
    _S.PARTIALLY_COMMITTED: (_S.COMPENSATING, _S.FORWARD_RECOVERY, _S.REVIEW_REQUIRED),
    _S.RECONCILIATION_FAILED: (_S.COMPENSATING, _S.FORWARD_RECOVERY, _S.REVIEW_REQUIRED, _S.FAILED, _S.ROLLED_BACK),
    _S.FAILED: (_S.VALIDATED, _S.PROPOSED),
    _S.VERIFICATION_TIMEOUT: (_S.UNKNOWN, _S.REVIEW_REQUIRED, _S.COMPENSATING, _S.FORWARD_RECOVERY),
    _S.UNKNOWN: (_S.REVIEW_REQUIRED, _S.PENDING, _S.RECONCILIATION_FAILED, _S.RECONCILED_SUCCESS),
    _S.COMPENSATING: (_S.COMPENSATED, _S.COMPENSATION_FAILED, _S.REVIEW_REQUIRED),
    _S.COMPENSATION_FAILED: (_S.REVIEW_REQUIRED,),
    _S.FORWARD_RECOVERY: (_S.RECONCILED_SUCCESS, _S.REVIEW_REQUIRED, _S.FAILED),
    _S.REVIEW_REQUIRED: (
        _S.VALIDATED,
        _S.PENDING,
        _S.RECONCILED_SUCCESS,
        _S.RECONCILIATION_FAILED,
        _S.COMPENSATING,
        _S.FORWARD_RECOVERY,
        _S.FAILED,
        _S.ABANDONED,
    ),
}
TRANSITIONS: frozenset[tuple[State, State]] = frozenset(
    (start, target) for start, targets in _TARGETS.items() for target in targets
)
TERMINAL: frozenset[State] = frozenset(State) - frozenset(_TARGETS)

_BY_PEOPLE: frozenset[Ground] = frozenset({Ground.REASON_AND_EVIDENCE})
NEEDS: dict[tuple[State, State], frozenset[Ground]] = {
    (_S.VALIDATED, _S.EXECUTING): frozenset({Ground.RELEASED}),
    (_S.EXECUTING, _S.COMMITTED): frozenset({Ground.DECISIVE_READ}),
    (_S.EXECUTING, _S.FAILED): frozenset({Ground.NOTHING_SENT}),
    (_S.EXECUTING, _S.ROLLED_BACK): frozenset({Ground.LOCAL_UNCHANGED}),
    (_S.ACCEPTED, _S.FAILED): frozenset({Ground.DECISIVE_READ, Ground.NO_EFFECT_NO_CLAIM}),
    (_S.PENDING, _S.COMMITTED): frozenset({Ground.DECISIVE_READ, Ground.EFFECT_OR_CLAIM}),
    (_S.PENDING, _S.FAILED): frozenset({Ground.DECISIVE_READ, Ground.NO_EFFECT_NO_CLAIM}),
    (_S.COMMITTED, _S.RECONCILED_SUCCESS): frozenset({Ground.PREDICATES_HOLD}),
    (_S.COMMITTED, _S.PARTIALLY_COMMITTED): frozenset({Ground.SPLIT_EFFECTS}),
    (_S.UNKNOWN, _S.RECONCILED_SUCCESS): frozenset({Ground.PREDICATES_HOLD}),
    (_S.RECONCILIATION_FAILED, _S.FAILED): frozenset({Ground.NO_EFFECT_REMAINS}),
    (_S.RECONCILIATION_FAILED, _S.ROLLED_BACK): frozenset({Ground.LOCAL_UNCHANGED}),
    (_S.FORWARD_RECOVERY, _S.RECONCILED_SUCCESS): frozenset({Ground.PREDICATES_HOLD}),
    (_S.FORWARD_RECOVERY, _S.FAILED): frozenset({Ground.NO_EFFECT_REMAINS}),
    (_S.COMPENSATING, _S.COMPENSATED): frozenset({Ground.COMPENSATION_VERIFIED}),
    (_S.FAILED, _S.VALIDATED): frozenset({Ground.RETRY_ALLOWED}),
    (_S.FAILED, _S.PROPOSED): frozenset({Ground.RETRY_ALLOWED}),
    (_S.REVIEW_REQUIRED, _S.VALIDATED): _BY_PEOPLE | {Ground.NOTHING_EXECUTED},
    (_S.REVIEW_REQUIRED, _S.PENDING): _BY_PEOPLE,
    (_S.REVIEW_REQUIRED, _S.RECONCILED_SUCCESS): _BY_PEOPLE | {Ground.PREDICATES_HOLD},
    (_S.REVIEW_REQUIRED, _S.RECONCILIATION_FAILED): _BY_PEOPLE,
    (_S.REVIEW_REQUIRED, _S.COMPENSATING): _BY_PEOPLE,
    (_S.REVIEW_REQUIRED, _S.FORWARD_RECOVERY): _BY_PEOPLE,
    (_S.REVIEW_REQUIRED, _S.FAILED): _BY_PEOPLE | {Ground.NO_EFFECT_REMAINS},
    (_S.REVIEW_REQUIRED, _S.ABANDONED): _BY_PEOPLE | {Ground.DISCREPANCY_RECORDED},
}

STANDS_FOR: dict[Ground, Ground] = {Ground.DECISIVE_READ: Ground.CHANGES_NOTHING}
"""What may stand in the place of a ground: of an action that changes nothing no effect can be read."""


def missing_grounds(start: State, target: State, shown: Collection[Ground]) -> frozenset[Ground]:
    """The grounds that a transition needs and that were not shown."""
    return frozenset(
        need for need in NEEDS.get((start, target), ()) if need not in shown and STANDS_FOR.get(need) not in shown
    )


BLOCKS_REPEAT: frozenset[State] = frozenset(
    {
        _S.EXECUTING,
        _S.ACCEPTED,
        _S.PENDING,
        _S.COMMITTED,
        _S.PARTIALLY_COMMITTED,
        _S.RECONCILIATION_FAILED,
        _S.VERIFICATION_TIMEOUT,
        _S.UNKNOWN,
        _S.COMPENSATING,
        _S.COMPENSATION_FAILED,
        _S.FORWARD_RECOVERY,
        _S.REVIEW_REQUIRED,
    }
)
"""While an action is in one of these, a repeat of the same logical mutation is refused (R-EX-08)."""

WORDS_OF_PRESENCE = ("accepted_as_it_is", "attested_present")
"""The kinds of event by which a person says that an effect is there."""

WORD_BLOCKS_FOR = timedelta(days=30)
"""How long a repeat is refused after a person's word that the effect is there."""


REPEAT_RELEASED = "repeat_released"
"""The kind of the event by which a person lets an operation be repeated over a contradiction that stands."""


class RepeatBlock(StrEnum):
    """The reason why a repeat of an action's mutation is refused; DEADLINE and WORD apply only until `blocks_until`."""

    OPEN = "OPEN"
    CONTRADICTED = "CONTRADICTED"
    DEADLINE = "DEADLINE"
    WORD = "WORD"


def repeat_block(state: str, kind: str, *, contradicted: bool) -> RepeatBlock | None:
    """The reason to refuse a repeat of a mutation in this state, reached by an event of this kind (R-EX-08).

    `ledger.actions.queries.actions.open_duplicates_sql` asks the database the same.
    """
    if contradicted:
        return None if kind == REPEAT_RELEASED else RepeatBlock.CONTRADICTED
    if state in BLOCKS_REPEAT:
        return RepeatBlock.OPEN
    if state == _S.FAILED:
        return RepeatBlock.DEADLINE
    return RepeatBlock.WORD if state == _S.RECONCILED_SUCCESS and kind in WORDS_OF_PRESENCE else None


def current_repeat_block(
    state: str, kind: str, *, contradicted: bool, blocks_until: datetime | None, at: datetime
) -> RepeatBlock | None:
    """The reason to refuse a repeat at this moment, or None."""
    block = repeat_block(state, kind, contradicted=contradicted)
    is_over = block in (RepeatBlock.DEADLINE, RepeatBlock.WORD) and (blocks_until is None or blocks_until <= at)
    return None if is_over else block


OPEN: frozenset[State] = frozenset(State) - {
    _S.RECONCILED_SUCCESS,
    _S.FAILED,
    _S.COMPENSATED,
    _S.ROLLED_BACK,
    _S.ABANDONED,
}
"""While an action is in one of these, it has not come to its end."""

PHASES: dict[str, State] = {
    _S.PROPOSED: _S.VALIDATED,
    _S.EXECUTING: _S.PENDING,
    _S.ACCEPTED: _S.PENDING,
    _S.COMMITTED: _S.PENDING,
}
"""The phase of a state that actions only pass through: the state beside which they are found. Every other state is a
phase of its own. What an action is found by changes with its phase, so that most steps touch no index.
"""


def phase(state: str) -> str:
    """The phase of an action in a state; the database has the same function."""
    return str(PHASES.get(state, state))


def phases(states: Iterable[str]) -> list[str]:
    """The phases of some states, in order."""
    return sorted({phase(state) for state in states})


NOTICED = ("validation_failed", "superseded", "failure_acknowledged", "recovery_acknowledged")
"""After an event of one of these kinds an action's agent knows that it did nothing, or has decided how to go on."""


def is_agent_notice(kind: str, actor_kind: str) -> bool:
    """Return True if an event shows that the agent knows how its action ended: it was notified, withdrew it, or
    continued.
    """
    return kind in NOTICED or (kind, actor_kind) == ("cancelled", "agent")


SETTLING = (
    "approval_granted",
    "approval_asked_again",
    "approval_revalidated",
    "attested_present",
    "accepted_as_it_is",
    "attested_absent",
    "compensated",
    "compensation_attested",
)
"""Kinds of event that change how an action stands even where they leave its state as it is."""


def changes_outcome(kind: str, start: str, target: str) -> bool:
    """Return whether an event changes an action's outcome, which then follows from the event's kind."""
    return start != target or kind in SETTLING


MACHINES: dict[str, frozenset[tuple[str, str]]] = {
    "action": frozenset((str(start), str(target)) for start, target in TRANSITIONS) | {("", "PROPOSED")},
    "tenant": frozenset({("", "ACTIVE")}),
    "member": frozenset({("", "ACTIVE"), ("ACTIVE", "REMOVED"), ("REMOVED", "ACTIVE")}),
    "credential": frozenset({("", "ISSUED"), ("ISSUED", "REVOKED")}),
    "agent": frozenset({("", "REGISTERED"), ("REGISTERED", "REVOKED"), ("REVOKED", "REGISTERED")}),
    "executor": frozenset({("", "REGISTERED"), ("REGISTERED", "REVOKED"), ("REVOKED", "REGISTERED")}),
    "system": frozenset({("", "REGISTERED")}),
    "contract": frozenset(
        {
            ("", "REGISTERED"),
            ("", "PENDING"),
            ("PENDING", "REGISTERED"),
            ("PENDING", "DECLINED"),
            ("REGISTERED", "RETIRED"),
            ("REGISTERED", "ROLLED_BACK"),
        }
    ),
    "policy": frozenset(
        {
            ("", "ACTIVE"),
            ("", "CANARY"),
            ("CANARY", "ACTIVE"),
            ("CANARY", "WITHDRAWN"),
            ("ACTIVE", "SUPERSEDED"),
            ("SUPERSEDED", "ACTIVE"),
        }
    ),
    "release": frozenset(
        {
            ("", "DRAFT"),
            ("DRAFT", "CHECKED"),
            ("DRAFT", "READY"),
            ("CHECKED", "DRAFT"),
            ("CHECKED", "CANARY"),
            ("CHECKED", "READY"),
            ("CANARY", "READY"),
            ("CANARY", "STOPPED"),
            ("READY", "DRAFT"),
            ("READY", "PROMOTED"),
            ("READY", "STOPPED"),
            ("READY", "WITHDRAWN"),
            ("DRAFT", "WITHDRAWN"),
            ("CHECKED", "WITHDRAWN"),
            ("PROMOTED", "ROLLED_BACK"),
        }
    ),
    "session": frozenset({("", "OPEN"), ("OPEN", "CLOSED")}),
    "approval": frozenset(
        {
            ("", "PREPARING"),
            ("", "APPROVED"),
            ("PREPARING", "REQUESTED"),
            ("PREPARING", "APPROVED"),
            ("PREPARING", "EXPIRED"),
            ("PREPARING", "VOIDED"),
            ("", "REQUESTED"),
            ("REQUESTED", "APPROVED"),
            ("REQUESTED", "REJECTED"),
            ("REQUESTED", "EXPIRED"),
            ("REQUESTED", "VOIDED"),
            ("APPROVED", "CONSUMED"),
            ("APPROVED", "EXPIRED"),
            ("APPROVED", "VOIDED"),
        }
    ),
    "approver_key": frozenset(
        {
            ("", "PENDING"),
            ("PENDING", "ACTIVE"),
            ("PENDING", "REFUSED"),
            ("ACTIVE", "SUSPENDED"),
            ("SUSPENDED", "ACTIVE"),
            ("SUSPENDED", "REMOVED"),
        }
    ),
    "standing_approval": frozenset(
        {
            ("", "PROPOSED"),
            ("", "ACTIVE"),
            ("PROPOSED", "ACTIVE"),
            ("PROPOSED", "DECLINED"),
            ("PROPOSED", "ENDED"),
            ("ACTIVE", "PAUSED"),
            ("ACTIVE", "ENDED"),
            ("PAUSED", "PROPOSED"),
            ("PAUSED", "ENDED"),
        }
    ),
    "alert_rule": frozenset({("", "ACTIVE"), ("ACTIVE", "ENDED")}),
    "event_destination": frozenset({("", "ACTIVE"), ("ACTIVE", "ENDED")}),
    "price": frozenset({("", "ACTIVE"), ("ACTIVE", "ENDED")}),
    "cost_budget": frozenset({("", "ACTIVE"), ("ACTIVE", "ENDED")}),
    "alert": frozenset({("", "RAISED"), ("RAISED", "CLEARED")}),
    "delegation": frozenset({("", "ACTIVE"), ("ACTIVE", "ENDED")}),
    "absence": frozenset({("", "ACTIVE"), ("ACTIVE", "ENDED")}),
    "emergency": frozenset({("", "USED"), ("USED", "REVIEWED")}),
    "freeze": frozenset({("", "PLACED"), ("PLACED", "LIFTED")}),
    "case": frozenset(
        {
            ("", "OPEN"),
            ("OPEN", "AWAITING_SECOND"),
            ("AWAITING_SECOND", "OPEN"),
            ("OPEN", "RESOLVED"),
            ("AWAITING_SECOND", "RESOLVED"),
            ("RESOLVED", "OPEN"),
        }
    ),
    "claim": frozenset(
        {
            ("", "OPEN"),
            ("OPEN", "VERIFIED"),
            ("OPEN", "DIFFERENT"),
            ("OPEN", "ABSENT"),
            ("OPEN", "UNKNOWN"),
            ("VERIFIED", "DIFFERENT"),
            ("VERIFIED", "ABSENT"),
            ("DIFFERENT", "VERIFIED"),
            ("DIFFERENT", "ABSENT"),
            ("ABSENT", "VERIFIED"),
            ("ABSENT", "DIFFERENT"),
            ("UNKNOWN", "VERIFIED"),
            ("UNKNOWN", "DIFFERENT"),
            ("UNKNOWN", "ABSENT"),
        }
    ),
    "batch": frozenset(
        {
            ("", "RUNNING"),
            ("RUNNING", "PAUSED"),
            ("PAUSED", "RUNNING"),
            ("RUNNING", "CANCELLED"),
            ("PAUSED", "CANCELLED"),
            ("RUNNING", "DONE"),
        }
    ),
    "log": frozenset({("", "OPEN"), ("OPEN", "CLOSED")}),
    "erasure": frozenset(
        {
            ("", "REQUESTED"),
            ("REQUESTED", "CONFIRMED"),
            ("REQUESTED", "REFUSED"),
            ("REQUESTED", "WITHDRAWN"),
            ("CONFIRMED", "WITHDRAWN"),
            ("CONFIRMED", "REFUSED"),
            ("CONFIRMED", "DONE"),
        }
    ),
    "integrity": frozenset(
        {
            ("", "RUNNING"),
            ("RUNNING", "PAUSED"),
            ("PAUSED", "RUNNING"),
            ("RUNNING", "CANCELLED"),
            ("PAUSED", "CANCELLED"),
            ("RUNNING", "HELD"),
            ("RUNNING", "BROKEN"),
        }
    ),
    "hold": frozenset({("", "PLACED"), ("PLACED", "LIFTED")}),
    "retention": frozenset(
        {("", "PROPOSED"), ("PROPOSED", "ACTIVE"), ("PROPOSED", "WITHDRAWN"), ("ACTIVE", "SUPERSEDED")}
    ),
    "incident": frozenset({("", "OPEN"), ("OPEN", "CLOSED"), ("CLOSED", "OPEN")}),
    "export": frozenset({("", "REQUESTED"), ("REQUESTED", "FINISHED"), ("REQUESTED", "FAILED")}),
    "unwinding": frozenset({("", "OPEN"), ("OPEN", "STUCK"), ("STUCK", "OPEN"), ("OPEN", "DONE")}),
    "recording": frozenset({("", "IMPORTED")}),
}
"""Legal pairs by kind of subject; the empty start state means that the event creates the subject."""


@cache
def states(kind: str) -> frozenset[str]:
    """Every state that a subject of `kind` can be in."""
    return frozenset(target for _, target in MACHINES[kind])


def next_state(kind: str, start: str, target: str | None, *, by: str, grounds: frozenset[Ground] = frozenset()) -> str:
    """The state after an event on a subject of `kind` (rules 1 to 4); `target` None keeps the state.

    `by` is the kind of actor (person, agent, executor, system …); `grounds` are the facts that the caller has shown.
    """
    if target is None or target == start:
        if start not in states(kind):
            raise IllegalTransition(f"A {kind} must be created before anything else can happen to it.")
        return start
    if (start, target) not in MACHINES[kind]:
        raise IllegalTransition(f"A {kind} cannot go from {start or 'nothing'} to {target}.")
    if kind == "action" and start:
        _check_grounds(State(start), State(target), by=by, grounds=grounds)
    return str(target)


def _check_grounds(start: State, target: State, *, by: str, grounds: frozenset[Ground]) -> None:
    if start is State.REVIEW_REQUIRED and by != "person":
        raise GroundsMissing("Only a person can take an action out of review.")
    missing = missing_grounds(start, target, grounds)
    if missing:
        raise GroundsMissing(f"From {start} to {target} needs: {', '.join(sorted(missing))}.")


def replay(kind: str, events: Iterable[tuple[str, str]], *, since: str = "") -> str:
    """The state after a run of (from, to) pairs, each of which must be legal and continue the one before.

    `since` is the state that an earlier part of the run led to.
    """
    state = since
    for number, (start, target) in enumerate(events, 1):
        if start != state:
            raise IllegalTransition(
                f"Event {number} starts from {start or 'nothing'}, but the {kind} was {state or 'new'}."
            )
        if (start, target) not in MACHINES[kind] and not (start == target and start in states(kind)):
            raise IllegalTransition(f"Event {number} takes a {kind} from {start or 'nothing'} to {target}.")
        state = target
    return state
