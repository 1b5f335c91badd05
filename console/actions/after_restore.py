"""The meaning of a restore of the record for one action, for readers and voters."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from approvals.execution.operations.read_first import (
    EffectKnowledge,
    EffectQuestion,
    effect_question,
    was_decided_since,
)
from console.actions.action_record import ActionRecord
from ledger.record.rules.lifecycle import State

if TYPE_CHECKING:
    from ledger.models import Tenant


class RestoreNotice(NamedTuple):
    """When the record was declared restored, what is known of the effect, the times of events, and the next step."""

    restored_at: datetime
    known: str
    happened: str
    happened_at: datetime | None
    follows: str


def restore_notice(tenant: Tenant, record: ActionRecord, *, at: datetime) -> RestoreNotice | None:
    """The notice of an action that may have been executed in the lost part of the record; None for any other."""
    if record.action.state not in (State.VALIDATED, State.REVIEW_REQUIRED):
        return None
    question = effect_question(record.action, record.contract, tenant.restored_at, at=at)
    if question is None or (record.action.state == State.REVIEW_REQUIRED and not question.since.held):
        return None
    return RestoreNotice(question.since.restored_at, *_describe_finding(record, question), _follows(record, question))


def _describe_finding(record: ActionRecord, question: EffectQuestion) -> tuple[str, str, datetime | None]:
    finding, since = question
    if since.told:
        return "An executor started it, which this record does not have: it may have been done", "told", since.taken_at
    if finding is EffectKnowledge.WANTED:
        return "It may have been done before that, so its target is read before it may start", "asked", since.wanted_at
    if finding is EffectKnowledge.ABSENT:
        return "Its target does not show the effect", "read", since.taken_at
    if finding is EffectKnowledge.PRESENT:
        return "Its target shows the effect: it may have been done", "read", since.taken_at
    if record.contract.verification is None:
        return "Its contract names no way to read the target: it may have been done", "", None
    if since.taken_at is None:
        return "Its target could not be read: it may have been done", "asked", since.wanted_at
    return "The reading of its target does not tell whether it was done: it may have been", "read", since.taken_at


def _follows(record: ActionRecord, question: EffectQuestion) -> str:
    finding, since = question
    if since.held:
        return "It is held for review."
    if finding is EffectKnowledge.WANTED:
        return ""
    if finding is EffectKnowledge.ABSENT or was_decided_since(record.approval, since):
        return "It may start."
    if record.approval is None:
        return "It is held for review before it starts."
    return "It starts only if it is approved after that."
