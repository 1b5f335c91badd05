"""After a restore, the target of an action is read before the action is granted: it may have been done already.

A database that went back has forgotten which actions were started, and which calls were accepted, after the point to
which it went back. So for every mutating action that was open when the restore was declared, and for every one that is
proposed within a day of it (an agent proposes again what was lost):

1. Nothing is granted before a reading of its target that was taken since. `reviews` takes it, and says of the effect
   that it is absent, present, or that the reading does not tell (`reading_taken`). An effect that is found by its
   idempotency key is never told: the key of the forgotten attempt is forgotten, too.
2. Absent: it goes on.
3. Otherwise a person decides. Where people approve the action, they are asked after the reading and are told what it
   found; where nobody was to be asked, the action is held as a case. One that a person sends back from there goes on.
4. A target that could not be read for ten minutes counts as one whose reading does not tell.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from approvals.execution.operations.release_check import ReleaseContext
from approvals.requests.operations.requests import request_again, reserve_key
from ledger.actions.queries import readings
from ledger.actions.queries.readings import ReadingsSince
from ledger.record import operations as ledger
from ledger.record.rules.envelope import instant

if TYPE_CHECKING:
    from approvals.models import Approval
    from ledger.catalogue.rules.contract import Contract
    from ledger.models import Action

READ_FIRST_FOR = timedelta(hours=24)
"""The time after a restore in which new actions are read first: as long as a session lasts at most."""
UNREAD_AFTER = timedelta(minutes=10)
HELD = "MAY_BE_DONE"


class EffectKnowledge(StrEnum):
    """Knowledge of the effect of an action that has not started on this record."""

    WANTED = "wanted"
    ABSENT = "absent"
    PRESENT = "present"
    UNTOLD = "untold"


class EffectQuestion(NamedTuple):
    """The knowledge of an effect that the lost part of the record may have held, and from which events."""

    finding: EffectKnowledge
    since: ReadingsSince


def effect_question(
    action: Action, contract: Contract, restored_at: datetime | None, *, at: datetime
) -> EffectQuestion | None:
    """Return the finding about an effect that a restore put in question, or None if no restore did."""
    if restored_at is None or not action.mutating or action.proposed_at >= restored_at + READ_FIRST_FOR:
        return None
    since = readings.readings_since(action.tenant_id, action.id, restored_at)
    return EffectQuestion(_finding(contract, since, at=at), since)


def waits_for_reading(context: ReleaseContext, *, at: datetime) -> bool:
    """True while an action waits for the reading of its target that a restore demands."""
    question = _effect_question(context, at=at)
    return question is not None and not question.since.held and question.finding is EffectKnowledge.WANTED


def settle_first(head: ledger.SubjectHead, context: ReleaseContext, *, by: ledger.Actor, at: datetime) -> bool:
    """True if a locked action may be granted after a restore; otherwise request what is needed first."""
    question = _effect_question(context, at=at)
    if question is None or question.since.held:
        return True
    finding, since = question
    if finding is EffectKnowledge.ABSENT or was_decided_since(context.approval, since):
        return True
    if finding is EffectKnowledge.WANTED:
        if since.wanted_at is None:
            reserve_key(head, at=at)
            detail = {"for": "restore"}
            ledger.append(head, ledger.NewEvent(kind="reading_wanted", detail=detail), actor=by, at=at)
    elif context.approval is not None:
        request_again(head=head, action=context.action, why=_WHY[finding], at=at)
    else:
        _hold_action(head, context, finding, at=at)
    return False


_WHY = {
    EffectKnowledge.PRESENT: "The record was set back, and the target shows the effect: it may have been done.",
    EffectKnowledge.UNTOLD: "The record was set back, and no reading tells whether this was done: it may be.",
}


def _effect_question(context: ReleaseContext, *, at: datetime) -> EffectQuestion | None:
    return effect_question(context.action, context.contract, context.record.standing.restored_at, at=at)


def _finding(contract: Contract, since: ReadingsSince, *, at: datetime) -> EffectKnowledge:
    if contract.verification is None:
        return EffectKnowledge.UNTOLD
    if since.effect is not None:
        return EffectKnowledge(since.effect)
    if since.wanted_at is not None and at - since.wanted_at >= UNREAD_AFTER:
        return EffectKnowledge.UNTOLD
    return EffectKnowledge.WANTED


def was_decided_since(approval: Approval | None, since: ReadingsSince) -> bool:
    """Return True if people approved the action after the finding of the reading, or its absence, was known."""
    decided_at = approval.decided_at if approval is not None else None
    if since.taken_at is not None:
        known_at = since.taken_at
    elif since.wanted_at is not None:
        known_at = since.wanted_at + UNREAD_AFTER
    else:
        known_at = since.restored_at
    return decided_at is not None and decided_at > known_at


def _hold_action(head: ledger.SubjectHead, context: ReleaseContext, finding: EffectKnowledge, *, at: datetime) -> None:
    restored_at = context.record.standing.restored_at
    assert restored_at is not None
    ledger.append(
        head,
        ledger.NewEvent(
            kind="held_after_restore",
            to="REVIEW_REQUIRED",
            changes={
                "verification": {"status": "NOT_REQUIRED"},
                "reconciliation": {"status": "REVIEW_REQUIRED", "recovery_decision": HELD},
                "recovery": {},
            },
            detail={"effect": finding, "reason": _WHY[finding], "restored_at": instant(restored_at)},
        ),
        actor=ledger.SYSTEM,
        at=at,
    )
