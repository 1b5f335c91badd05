"""Resolutions: the decisions a person may make about a held action, and the result of each (C-03, C-09, api.md).

1. A resolution is offered only where its way is open; each needs a reason and evidence (R-SM-18).
2. What was never executed can only be ended (FAIL) or abandoned; there is nothing to look for.
3. FAIL needs proof that no effect is there: nothing was executed, or the last decisive reading found none.
4. ABANDON needs a discrepancy on record (R-SM-19).
5. An attested outcome is a person's word and is reported as such, never as read. Where a strong reading showed
   something else than was requested, nobody attests over it: what is there is accepted (ACCEPT), or not.
6. Two people settle what cannot be undone: the second confirms what the first proposed.
7. Compensation, forward recovery and rollback need a tool that can do it; none is offered without one. They are
   ordered, not believed: the action ends when the recovery action was verified.
8. A step of a run that is taken back is reversed, or left as it is by a person's word (ABANDON).
9. A case that was opened beside an action which goes its own way is acknowledged once that has ended (R-RP-50).
10. A contradiction of a settled action moves no state ("Late truth"): a person looks again or says what is so. The
   contradiction is withdrawn only where that agrees with how the action was settled; else it stands, and with it the
   report that the final state is not known. ABANDON leaves it standing and lets the operation be repeated.
11. After a resolution a repeat of the mutation is refused as `lifecycle.repeat_block` says of the last event, which
   sets the end of a refusal that has one. What a person signs is said from the same event (`settlements`).
12. An action that automation left UNKNOWN has no case until an operator opens one (`waits_for_a_person`). Where its
   contract names no way to look and a later version does, it can be read by that version's lookup.
13. A correction (CORRECT) is proposed by one person, and nothing is settled by proposing it: its case stays open. It
   passes the gate and its own approval. A reading settles the case, or the action is held again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from ledger.catalogue.rules.effects import Reversibility, SideEffectClass
from ledger.catalogue.rules.remedies import Relation
from ledger.people.rules.confirmation import TERMS, SecondPersonNeeded
from ledger.record.rules.envelope import instant
from ledger.record.rules.lifecycle import (
    REPEAT_RELEASED,
    SETTLING,
    WORD_BLOCKS_FOR,
    Ground,
    RepeatBlock,
    State,
    repeat_block,
)
from ledger.record.rules.refusals import Refused
from reviews.reconciliation.rules.shown import NOT_READ, LastReading, Shown


class Resolution(StrEnum):
    """A decision that a person can make about a case."""

    VERIFY_AGAIN = "VERIFY_AGAIN"
    STRONG_READ = "STRONG_READ"
    ATTEST_PRESENT = "ATTEST_PRESENT"
    ATTEST_ABSENT = "ATTEST_ABSENT"
    ACCEPT = "ACCEPT"
    COMPENSATE = "COMPENSATE"
    FORWARD_RECOVER = "FORWARD_RECOVER"
    ROLL_BACK = "ROLL_BACK"
    CORRECT = "CORRECT"
    FAIL = "FAIL"
    ABANDON = "ABANDON"
    ACKNOWLEDGE = "ACKNOWLEDGE"


class NotOffered(Refused):
    """This resolution is not available for this action."""

    code = "RESOLUTION_NOT_ALLOWED"


class EvidenceMissing(Refused):
    """A resolution needs a reason and at least one piece of evidence."""

    code = "EVIDENCE_REQUIRED"
    status = 422


@dataclass(frozen=True, kw_only=True)
class HeldAction:
    """An action that waits for a person. `reading`: the newest decisive one of its last attempt. `remedies`: those for
    which its contract has tools. `to_reverse`: it succeeded, and its run is being rolled back; `taken_back`: that was
    done. `horizon_at`: the time after which no late effect of its attempts can occur. `lookup` is the later version of
    the contract whose lookup would be used to read it, empty if its own is used.
    `correction` says what its correction would do, empty where there can be none.
    """

    state: State
    executed: bool
    reading: LastReading = NOT_READ
    verifiable: bool
    discrepancy: str
    contradicted: bool = False
    side_effect_class: SideEffectClass
    reversibility: Reversibility
    remedies: frozenset[Relation] = frozenset()
    to_reverse: bool = False
    taken_back: bool = False
    lookup: str = ""
    correction: str = ""
    horizon_at: datetime | None = None
    is_claim: bool = False

    @property
    def is_success(self) -> bool:
        """Return whether it counts as done."""
        return self.state is State.RECONCILED_SUCCESS and not self.taken_back


@dataclass(frozen=True, kw_only=True)
class ResolutionEvent:
    """One event of carrying out a resolution; without a state it changes none."""

    state: State | None
    kind: str
    grounds: frozenset[Ground]
    changes: Mapping[str, Mapping[str, Any]]
    view: Mapping[str, Any] = field(default_factory=dict)


SETTLED = frozenset({State.RECONCILED_SUCCESS, State.FAILED, State.COMPENSATED, State.ROLLED_BACK, State.ABANDONED})
RECHECKED = frozenset({State.RECONCILED_SUCCESS, State.FAILED, State.ROLLED_BACK})
"""The settled states in which a reading can be taken again to test what was settled. What was compensated is tested
through its recovery action: the effect itself may still be there, as a refund that says it was cancelled is."""
UNGATED = HeldAction(
    state=State.FAILED,
    executed=False,
    verifiable=False,
    discrepancy="",
    side_effect_class=SideEffectClass.HIGH_RISK_EXTERNAL,
    reversibility=Reversibility.IRREVERSIBLE,
)
"""An effect that nobody gated has no action: a person says who did it and why, and no state moves."""

CLAIM = replace(UNGATED, is_claim=True)
"""A claim that does not match has no action either: a person says what came of it, and no state moves."""
WITHOUT_ACTION = (UNGATED, CLAIM)

LOOKS = (Resolution.VERIFY_AGAIN, Resolution.STRONG_READ)
REMEDIES = {
    Resolution.COMPENSATE: Relation.COMPENSATION,
    Resolution.FORWARD_RECOVER: Relation.FORWARD,
    Resolution.ROLL_BACK: Relation.ROLLBACK,
}
_ENDED = frozenset({State.COMPENSATED, State.ROLLED_BACK, State.RECONCILED_SUCCESS, State.FAILED})
_SETTLES = frozenset(Resolution) - frozenset(LOOKS) - {Resolution.ACKNOWLEDGE, Resolution.CORRECT}
_SAID = frozenset({Ground.REASON_AND_EVIDENCE})


def allowed_resolutions(held: HeldAction) -> tuple[Resolution, ...]:
    """The decisions allowed for a held action (rules 1 to 4 and 7 to 10)."""
    if held.contradicted:
        return (*(LOOKS if held.verifiable else ()), *_attestations(held), Resolution.ABANDON)
    if held.to_reverse:
        return (*_by_tool(held, Resolution.COMPENSATE), Resolution.ABANDON)
    if held.state in _ENDED:
        return (Resolution.ACKNOWLEDGE,)
    if held.state not in (State.REVIEW_REQUIRED, State.UNKNOWN):
        return ()
    open_ways: list[Resolution] = []
    if held.executed:
        open_ways += [*(LOOKS if held.verifiable else ()), *_attestations(held), *_by_tool(held, *REMEDIES)]
        open_ways += [Resolution.CORRECT] if held.correction else []
    if not held.executed or held.reading.shown is Shown.NO_EFFECT:
        open_ways.append(Resolution.FAIL)
    if held.discrepancy:
        open_ways.append(Resolution.ABANDON)
    return tuple(open_ways)


def _attestations(held: HeldAction) -> tuple[Resolution, ...]:
    """The statements that a person may make about the effect (rule 5).

    If another effect than the requested one was read, nobody can state that there is none, unless that would leave a
    contradiction.
    """
    if held.reading.shown is not Shown.DIFFERENT:
        return (Resolution.ATTEST_PRESENT, Resolution.ATTEST_ABSENT)
    stands = held.contradicted and held.is_success
    return (Resolution.ACCEPT, *((Resolution.ATTEST_ABSENT,) if stands else ()))


def _by_tool(held: HeldAction, *wanted: Resolution) -> list[Resolution]:
    return [one for one in wanted if REMEDIES[one] in held.remedies]


def waits_for_a_person(state: State, *, settled: bool) -> bool:
    """Return whether the action has not ended and proceeds only through a person (rule 12)."""
    return state is State.REVIEW_REQUIRED or (state is State.UNKNOWN and settled)


def can_be_reopened(state: State) -> bool:
    """Return whether a settled case of an action in this state can be taken up again: automation
    must not be at work.
    """
    return state in SETTLED or state in (State.REVIEW_REQUIRED, State.UNKNOWN)


def needs_second(held: HeldAction, resolution: Resolution) -> bool:
    """Return whether a second person must confirm (rule 6)."""
    upper = held.side_effect_class.rank >= SideEffectClass.HIGH_RISK_EXTERNAL.rank
    irreversible = held.reversibility is Reversibility.IRREVERSIBLE
    return resolution in _SETTLES and held.executed and (upper or irreversible)


def refuse_second(*, roles: frozenset[str], is_proposer: bool) -> Refused | None:
    """Return the refusal for a person who may not confirm a proposal, or None; another operator or a reviewer may (rule
    6).

    The list, the page, the API and the notices use this; the confirmation compares the people who sign.
    """
    if not roles & TERMS["case"].roles:
        return SecondPersonNeeded("Another operator or a reviewer must confirm this.")
    return SecondPersonNeeded() if is_proposer else None


def check_resolution(held: HeldAction, resolution: Resolution, *, reason: str, evidence: list[str]) -> None:
    """Refuse a resolution that is not offered, or that lacks its reason and evidence."""
    if resolution not in allowed_resolutions(held):
        raise NotOffered
    if not reason.strip() or not any(piece.strip() for piece in evidence):
        raise EvidenceMissing


def resolution_events(held: HeldAction, resolution: Resolution, *, at: datetime) -> tuple[ResolutionEvent, ...]:
    """The events that carry a resolution out, in order; an UNKNOWN action passes REVIEW_REQUIRED on the way."""
    last = _last_event(held, resolution, at=instant(at))
    ends = {
        RepeatBlock.WORD: at + WORD_BLOCKS_FOR,
        RepeatBlock.DEADLINE: held.horizon_at if held.horizon_at is not None and held.horizon_at > at else None,
    }
    block = repeat_block_after(held, resolution)
    until = ends.get(block) if block is not None else None
    if until is not None:
        last = replace(last, view={**last.view, "blocks_until": instant(until)})
    is_moved_in = last.state is not None and held.state is not State.REVIEW_REQUIRED
    return (_into_review(), last) if is_moved_in else (last,)


def repeat_block_after(held: HeldAction, resolution: Resolution) -> RepeatBlock | None:
    """The reason to refuse a repeat after this resolution, or None (rule 11)."""
    last = _last_event(held, resolution, at="")
    contradicted = bool(last.view.get("contradicted", held.contradicted))
    return repeat_block(last.state or held.state, last.kind, contradicted=contradicted)


def changes_repeat(held: HeldAction, resolution: Resolution) -> bool:
    """Return True if a resolution decides whether a repeat is refused; otherwise that stays unchanged."""
    last = _last_event(held, resolution, at="")
    return last.state is not None or last.kind in SETTLING or held.contradicted


def _last_event(held: HeldAction, resolution: Resolution, *, at: str) -> ResolutionEvent:
    if held.contradicted:
        return _settle_contradiction(held, resolution)
    if held.to_reverse:
        return _reverse_or_leave(resolution)
    if resolution is Resolution.ACKNOWLEDGE:
        return ResolutionEvent(state=None, kind="recovery_acknowledged", grounds=frozenset(), changes={})
    way = {
        Resolution.VERIFY_AGAIN: _look_again,
        Resolution.STRONG_READ: _look_again,
        Resolution.ATTEST_PRESENT: _attest_present,
        Resolution.ACCEPT: _accept,
        Resolution.ATTEST_ABSENT: _attest_absent,
        Resolution.FAIL: _fail,
        Resolution.ABANDON: _abandon,
        Resolution.COMPENSATE: _compensate,
        Resolution.FORWARD_RECOVER: _recover_forward,
        Resolution.ROLL_BACK: _roll_back,
        Resolution.CORRECT: _correct,
    }[resolution]
    return way(held, at)


def _settle_contradiction(held: HeldAction, resolution: Resolution) -> ResolutionEvent:
    if resolution in LOOKS:
        return ResolutionEvent(state=None, kind="recheck_ordered", grounds=frozenset(), changes={})
    if resolution is Resolution.ABANDON:
        return ResolutionEvent(state=None, kind=REPEAT_RELEASED, grounds=frozenset(), changes={})
    agrees = (resolution is not Resolution.ATTEST_ABSENT) == held.is_success
    kind = KINDS[resolution]
    return ResolutionEvent(state=None, kind=kind, grounds=frozenset(), changes={}, view={"contradicted": not agrees})


def _reverse_or_leave(resolution: Resolution) -> ResolutionEvent:
    if resolution is Resolution.COMPENSATE:
        return ResolutionEvent(state=None, kind="reversal_decided", grounds=frozenset(), changes={})
    changes = {"reconciliation": {"recovery_decision": "ABANDON"}}
    return ResolutionEvent(state=None, kind="left_as_it_is", grounds=frozenset(), changes=changes)


def _into_review() -> ResolutionEvent:
    changes = {"reconciliation": {"status": "REVIEW_REQUIRED"}}
    return ResolutionEvent(state=State.REVIEW_REQUIRED, kind="held", grounds=frozenset(), changes=changes)


def _look_again(held: HeldAction, at: str) -> ResolutionEvent:
    # The clock of the verdict starts again, so the times of the one before are taken back.
    changes: dict[str, dict[str, Any]] = {
        "execution": {"status": "PENDING"},
        "verification": {"status": "PENDING"},
        "reconciliation": {"status": "NOT_STARTED"},
        "timestamps": {"verified_at": None, "reconciled_at": None},
    }
    return ResolutionEvent(state=State.PENDING, kind="verification_reopened", grounds=_SAID, changes=changes)


KINDS = {
    Resolution.ATTEST_PRESENT: "attested_present",
    Resolution.ACCEPT: "accepted_as_it_is",
    Resolution.ATTEST_ABSENT: "attested_absent",
}


def _attest_present(held: HeldAction, at: str) -> ResolutionEvent:
    return _end_as_there(Resolution.ATTEST_PRESENT, at)


def _accept(held: HeldAction, at: str) -> ResolutionEvent:
    return _end_as_there(Resolution.ACCEPT, at)


def _end_as_there(resolution: Resolution, at: str) -> ResolutionEvent:
    changes = {
        "execution": {"status": "COMMITTED"},
        "verification": {"status": "VERIFIED"},
        "reconciliation": {"status": "RECONCILED_SUCCESS", "recovery_decision": "HUMAN_ATTESTATION"},
        "timestamps": {"reconciled_at": at},
    }
    grounds = _SAID | {Ground.PREDICATES_HOLD}
    return ResolutionEvent(state=State.RECONCILED_SUCCESS, kind=KINDS[resolution], grounds=grounds, changes=changes)


def _attest_absent(held: HeldAction, at: str) -> ResolutionEvent:
    changes = {
        "execution": {"status": "FAILED"},
        "reconciliation": {"status": "RECONCILED_FAILURE", "recovery_decision": "HUMAN_ATTESTATION"},
        "timestamps": {"reconciled_at": at},
    }
    grounds = _SAID | {Ground.NO_EFFECT_REMAINS}
    return ResolutionEvent(state=State.FAILED, kind="attested_absent", grounds=grounds, changes=changes)


def _fail(held: HeldAction, at: str) -> ResolutionEvent:
    changes: dict[str, dict[str, Any]] = {"reconciliation": {"status": "NOT_STARTED"}}
    if held.executed:
        changes = {
            "execution": {"status": "FAILED"},
            "reconciliation": {"status": "RECONCILED_FAILURE"},
            "timestamps": {"reconciled_at": at},
        }
    grounds = _SAID | {Ground.NO_EFFECT_REMAINS}
    return ResolutionEvent(state=State.FAILED, kind="failed_by_review", grounds=grounds, changes=changes)


def _abandon(held: HeldAction, at: str) -> ResolutionEvent:
    changes = {"reconciliation": {"recovery_decision": "ABANDON"}}
    grounds = _SAID | {Ground.DISCREPANCY_RECORDED}
    return ResolutionEvent(state=State.ABANDONED, kind="abandoned", grounds=grounds, changes=changes)


def _compensate(held: HeldAction, at: str) -> ResolutionEvent:
    changes = {"reconciliation": {"recovery_decision": "COMPENSATE"}}
    return ResolutionEvent(state=State.COMPENSATING, kind="compensation_started", grounds=_SAID, changes=changes)


def _recover_forward(held: HeldAction, at: str) -> ResolutionEvent:
    changes: dict[str, dict[str, Any]] = {
        "execution": {"status": "COMMITTED"},
        "verification": {"status": "PENDING"},
        "reconciliation": {"status": "RECONCILED_PARTIAL", "recovery_decision": "FORWARD_RECOVER"},
    }
    return ResolutionEvent(
        state=State.FORWARD_RECOVERY, kind="forward_recovery_started", grounds=_SAID, changes=changes
    )


def _correct(held: HeldAction, at: str) -> ResolutionEvent:
    changes: dict[str, dict[str, Any]] = {
        "execution": {"status": "COMMITTED"},
        "verification": {"status": "PENDING"},
        "reconciliation": {"status": "RECONCILED_PARTIAL", "recovery_decision": "CORRECT"},
    }
    return ResolutionEvent(state=State.FORWARD_RECOVERY, kind="correction_started", grounds=_SAID, changes=changes)


def _roll_back(held: HeldAction, at: str) -> ResolutionEvent:
    changes: dict[str, dict[str, Any]] = {
        "verification": {"status": "FAILED"},
        "reconciliation": {"status": "RECONCILED_FAILURE", "recovery_decision": "ROLL_BACK"},
    }
    return ResolutionEvent(state=State.RECONCILIATION_FAILED, kind="rollback_decided", grounds=_SAID, changes=changes)
