"""The writes about members and their passkeys that their pages and the API share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from django import forms

from approvals.voting.operations import approver_keys, delegations
from approvals.voting.queries import approvers
from console.accounts.members import operations, queries
from console.edge.auth import NotAllowed, roles_of
from console.edge.schemas import Ask
from console.people import schemas
from console.verbs.verb import FRESH, Ids, Verb
from ledger.people.rules.confirmation import Answer
from ledger.record.operations import Actor
from ledger.record.rules.refusals import NotFound

if TYPE_CHECKING:
    from approvals.models import Absence, ApproverKey, Delegation

ADMINISTRATOR: Final = ("administrator",)
ANSWERERS: Final = ("administrator", "reviewer")
TO_CONFIRM: Final = "Proposed. Takes effect after a second administrator confirms it."


def member_answer(tenant_id: UUID, member_id: UUID, at: datetime) -> schemas.Member:
    """Describe a member as they are now."""
    row = queries.member_by_id(tenant_id, member_id)
    if row is None:
        raise NotFound
    return schemas.Member.of(row, away=approvers.absent_approvers(tenant_id, at))


def _change(
    *, tenant_id: UUID, member_id: UUID, roles: list[str], groups: list[str], is_proven: bool, by: Actor, at: datetime
) -> tuple[schemas.Member, bool]:
    is_done = operations.change_member(
        tenant_id=tenant_id,
        member_id=member_id,
        roles=roles,
        groups=groups,
        is_proven=is_proven,
        by=by,
        by_person=operations.person_of(tenant_id, by.id),
        at=at,
    )
    return member_answer(tenant_id, member_id, at), is_done


def _answer_proposal(
    *, tenant_id: UUID, member_id: UUID, confirm: bool, is_proven: bool, by: Actor, at: datetime
) -> tuple[schemas.Member, bool]:
    answer = Answer.CONFIRM if confirm else Answer.DECLINE
    operations.answer_proposal(
        tenant_id=tenant_id, member_id=member_id, answer=answer, is_proven=is_proven, by=by, at=at
    )
    return member_answer(tenant_id, member_id, at), confirm


def _separate(*, tenant_id: UUID, member_id: UUID, by: Actor, at: datetime) -> schemas.Member:
    person = operations.person_of(tenant_id, by.id)
    operations.propose_separation(tenant_id=tenant_id, member_id=member_id, by=by, by_person=person, at=at)
    return member_answer(tenant_id, member_id, at)


def _key_step(step: Callable[..., None], *, tenant_id: UUID, approver_key_id: UUID, **given: Any) -> ApproverKey:
    step(tenant_id=tenant_id, key_id=approver_key_id, **given)
    row = approvers.approver_key_by_id(tenant_id, approver_key_id)
    assert row is not None
    return row


def _confirm_key(*, tenant_id: UUID, approver_key_id: UUID, by: Actor, at: datetime) -> ApproverKey:
    person = operations.person_of(tenant_id, by.id)
    return _key_step(
        operations.confirm_key, tenant_id=tenant_id, approver_key_id=approver_key_id, by=by, by_person=person, at=at
    )


def _decide_key(
    decide: Callable[..., None], *, tenant_id: UUID, approver_key_id: UUID, by: Actor, at: datetime
) -> ApproverKey:
    person = operations.person_of(tenant_id, by.id)
    return _key_step(decide, tenant_id=tenant_id, approver_key_id=approver_key_id, by=by, person_id=person, at=at)


def _refuse_key(*, tenant_id: UUID, approver_key_id: UUID, reason: str, by: Actor, at: datetime) -> ApproverKey:
    return _key_step(
        approver_keys.refuse, tenant_id=tenant_id, approver_key_id=approver_key_id, reason=reason, by=by, at=at
    )


def _suspend_key(*, tenant_id: UUID, approver_key_id: UUID, reason: str, by: Actor, at: datetime) -> ApproverKey:
    suspend = partial(approver_keys.suspend, person_id=operations.person_of(tenant_id, by.id))
    return _key_step(suspend, tenant_id=tenant_id, approver_key_id=approver_key_id, reason=reason, by=by, at=at)


def _end_delegation(*, tenant_id: UUID, delegation_id: UUID, by: Actor, at: datetime) -> Delegation:
    row = approvers.delegation(tenant_id, delegation_id)
    _check_own(tenant_id, by, {row.from_actor, row.to_actor} if row else None)
    delegations.end_delegation(tenant_id=tenant_id, delegation_id=delegation_id, by=by, at=at)
    ended = approvers.delegation(tenant_id, delegation_id)
    assert ended is not None
    return ended


def _end_absence(*, tenant_id: UUID, absence_id: UUID, by: Actor, at: datetime) -> Absence:
    row = approvers.absence(tenant_id, absence_id)
    _check_own(tenant_id, by, {row.actor_id} if row else None)
    delegations.end_absence(tenant_id=tenant_id, absence_id=absence_id, by=by, at=at)
    ended = approvers.absence(tenant_id, absence_id)
    assert ended is not None
    return ended


def _check_own(tenant_id: UUID, by: Actor, whose: set[UUID] | None) -> None:
    """Refuse what is neither of this person nor ended by an administrator."""
    if whose is None:
        raise NotFound
    place = queries.member_by_pseudonym(tenant_id, by.id)
    if by.id not in whose and (place is None or "administrator" not in roles_of(place)):
        raise NotAllowed


def _told_first(result: tuple[schemas.Member, bool], ids: Ids) -> schemas.Member:
    return result[0]


CHANGE: Final = Verb(
    name="change",
    path="/members/{member_id}/roles",
    operation=_change,
    body=schemas.PlaceBody,
    proof=FRESH,
    roles=ADMINISTRATOR,
    answer=schemas.Member,
    told=_told_first,
    summary="Change roles and groups; granting yourself approval rights needs a second administrator",
    done=lambda result: "Roles changed." if result[1] else TO_CONFIRM,
)
ANSWER_PROPOSAL: Final = Verb(
    name="answer_proposal",
    path="/members/{member_id}/answer",
    operation=_answer_proposal,
    body=schemas.AnswerProposalBody,
    proof=FRESH,
    roles=ADMINISTRATOR,
    answer=schemas.Member,
    told=_told_first,
    summary="Confirm or reject a change as the second administrator",
    done=lambda result: "Confirmed." if result[1] else "Rejected.",
    incomplete="Nothing changed: choose confirm or reject.",
)
SEPARATE: Final = Verb(
    name="separate",
    path="/members/{member_id}/separation",
    operation=_separate,
    roles=ADMINISTRATOR,
    answer=schemas.Member,
    told=lambda member, _: member,
    summary="Request separation of linked accounts; a second administrator confirms",
    done=TO_CONFIRM,
)
REMOVE: Final = Verb(
    name="remove",
    path="/members/{member_id}/remove",
    operation=operations.remove_member,
    body=schemas.StopBody,
    roles=ADMINISTRATOR,
    answer=schemas.MemberRemoved,
    told=lambda _, ids: schemas.MemberRemoved(member_id=ids["member_id"], removed=True),
    summary="Remove a member",
    done="Removed. Their keys and delegations have ended.",
    incomplete="Not removed: enter a reason.",
)

STOPPED: Final = {"reason": Ask(field=forms.CharField(required=False, max_length=4000, empty_value="No reason given."))}
TOO_LONG: Final = "Nothing changed: enter a reason of at most 4,000 characters."
CONFIRM_KEY: Final = Verb(
    name="confirm_key",
    path="/approver-keys/{approver_key_id}/confirm",
    operation=_confirm_key,
    roles=ANSWERERS,
    answer=schemas.ApproverKey,
    summary="Confirm another person's passkey",
    done="Recorded.",
)
REFUSE_KEY: Final = Verb(
    name="refuse_key",
    path="/approver-keys/{approver_key_id}/refuse",
    operation=_refuse_key,
    body=schemas.StopBody,
    asks=STOPPED,
    roles=ANSWERERS,
    answer=schemas.ApproverKey,
    summary="Reject an enrolment",
    done="Recorded.",
    incomplete=TOO_LONG,
)
SUSPEND_KEY: Final = Verb(
    name="suspend_key",
    path="/approver-keys/{approver_key_id}/suspend",
    operation=_suspend_key,
    body=schemas.StopBody,
    asks=STOPPED,
    roles=ANSWERERS,
    answer=schemas.ApproverKey,
    summary="Suspend a key immediately; needs one person",
    done="Recorded.",
    incomplete=TOO_LONG,
)
RESTORE_KEY: Final = Verb(
    name="restore_key",
    path="/approver-keys/{approver_key_id}/restore",
    operation=partial(_decide_key, approver_keys.restore),
    roles=ANSWERERS,
    answer=schemas.ApproverKey,
    summary="Reinstate a suspended key; not by its holder or the person who suspended it",
    done="Recorded.",
)
REMOVE_KEY: Final = Verb(
    name="remove_key",
    path="/approver-keys/{approver_key_id}/remove",
    operation=partial(_decide_key, approver_keys.remove),
    roles=ANSWERERS,
    answer=schemas.ApproverKey,
    summary="Remove a suspended key permanently; not by the person who suspended it",
    done="Recorded.",
)

END_DELEGATION: Final = Verb(
    name="end_delegation",
    path="/delegations/{delegation_id}/end",
    operation=_end_delegation,
    roles=("person",),
    answer=schemas.Delegation,
    summary="End a delegation",
    done="Ended.",
)
COME_BACK: Final = Verb(
    name="come_back",
    path="/absences/{absence_id}/end",
    operation=_end_absence,
    roles=("person",),
    answer=schemas.Absence,
    summary="End an absence",
    done="Absence ended.",
)
