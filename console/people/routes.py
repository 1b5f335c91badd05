"""People: members and what they are, approvers' passkeys, delegations and absences. For signed-in people alone."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from ninja import Query, Router

from approvals.voting.operations import approver_keys, delegations
from approvals.voting.queries import approvers
from console.accounts.members import enrolment
from console.accounts.members import operations as people
from console.accounts.members import queries as members_queries
from console.accounts.step_up import is_proven, is_recently_authenticated, proof_class
from console.edge import paging
from console.edge.auth import NotAllowed, admits, caller_of
from console.edge.schemas import Page, Paged
from console.edge.transaction import in_tenancy
from console.people import schemas
from console.people.lists import DELEGATIONS, PASSKEYS, PEOPLE
from console.web.list_page import add_lists
from ledger.people.rules.confirmation import Answer
from ledger.record.rules.refusals import NotFound, ProofNeeded

router = Router(tags=["People"])
ANSWERERS = ("administrator", "reviewer")


def _doer(request: HttpRequest) -> dict[str, Any]:
    caller = caller_of(request)
    return {"tenant_id": caller.tenant_id, "by": caller.actor, "at": timezone.now()}


def _with_person(request: HttpRequest) -> dict[str, Any]:
    caller = caller_of(request)
    return _doer(request) | {"by_person": people.person_of(caller.tenant_id, caller.actor.id)}


# Members


add_lists(router, __name__, PEOPLE)


@router.post("/members", summary="Invite member", response={201: schemas.Invited})
@admits("administrator")
@in_tenancy
def invite(request: HttpRequest, body: schemas.InviteBody) -> schemas.Invited:
    proven = is_proven(request, body.password, body.otp)
    asked: dict[str, Any] = {"email": body.email, "name": body.name, "roles": body.roles, "groups": body.groups}
    row, token = people.invite_member(**_doer(request), **asked, is_proven=proven)
    return schemas.Invited.of(row, invitation=_address(token))


@router.post(
    "/members/{member_id}/invitation",
    summary="Renew an invitation; the previous one becomes void",
    response=schemas.Invitation,
)
@admits("administrator")
@in_tenancy
def invite_again(request: HttpRequest, member_id: UUID, body: schemas.ProofBody) -> schemas.Invitation:
    proven = is_proven(request, body.password, body.otp)
    token = people.renew_invitation(**_doer(request), member_id=member_id, is_proven=proven)
    return schemas.Invitation(member_id=member_id, invitation=_address(token))


@router.post(
    "/members/{member_id}/roles",
    summary="Change roles and groups; granting yourself approval rights needs a second administrator",
    response=schemas.Member,
)
@admits("administrator")
@in_tenancy
def change(request: HttpRequest, member_id: UUID, body: schemas.PlaceBody) -> schemas.Member:
    proven = is_proven(request, body.password, body.otp)
    wanted: dict[str, Any] = {"roles": body.roles, "groups": body.groups}
    people.change_member(**_with_person(request), member_id=member_id, **wanted, is_proven=proven)
    return _one(request, member_id)


@router.post(
    "/members/{member_id}/answer",
    summary="Confirm or reject a change as the second administrator",
    response=schemas.Member,
)
@admits("administrator")
@in_tenancy
def answer_proposal(request: HttpRequest, member_id: UUID, body: schemas.AnswerProposalBody) -> schemas.Member:
    proven = is_proven(request, body.password, body.otp)
    answer = Answer.CONFIRM if body.confirm else Answer.DECLINE
    people.answer_proposal(**_doer(request), member_id=member_id, answer=answer, is_proven=proven)
    return _one(request, member_id)


@router.post("/members/{member_id}/links", summary="Link two accounts of one person", response=schemas.Member)
@admits("administrator")
@in_tenancy
def link(request: HttpRequest, member_id: UUID, body: schemas.MemberLinkBody) -> schemas.Member:
    people.link_accounts(**_doer(request), member_ids=[member_id, body.member_id])
    return _one(request, member_id)


@router.post(
    "/members/{member_id}/separation",
    summary="Request separation of linked accounts; a second administrator confirms",
    response=schemas.Member,
)
@admits("administrator")
@in_tenancy
def separate(request: HttpRequest, member_id: UUID) -> schemas.Member:
    people.propose_separation(**_with_person(request), member_id=member_id)
    return _one(request, member_id)


@router.post("/members/{member_id}/remove", summary="Remove a member", response=schemas.MemberRemoved)
@admits("administrator")
@in_tenancy
def remove(request: HttpRequest, member_id: UUID, body: schemas.StopBody) -> schemas.MemberRemoved:
    people.remove_member(**_doer(request), member_id=member_id, reason=body.reason)
    return schemas.MemberRemoved(member_id=member_id, removed=True)


# Approvers' keys


add_lists(router, __name__, PASSKEYS)


@router.post("/approver-keys/options", summary="Start enrolling your passkey", response=schemas.Ceremony)
@admits("reviewer")
@in_tenancy
def begin_enrolment(request: HttpRequest) -> schemas.Ceremony:
    caller = caller_of(request)
    options = enrolment.begin_enrolment(
        request.session,
        tenant_id=caller.tenant_id,
        actor_id=caller.actor.id,
        name=caller.name,
        known=approvers.approver_keys(caller.tenant_id, actor_id=caller.actor.id),
        at=timezone.now(),
    )
    return schemas.Ceremony.of(options)


@router.post(
    "/approver-keys",
    summary="Enrol your passkey; it can sign once another person has confirmed it",
    response={201: schemas.ApproverKey},
)
@admits("reviewer")
@in_tenancy
def enrol(request: HttpRequest, body: schemas.EnrolBody) -> schemas.ApproverKey:
    if not (is_recently_authenticated(request) or proof_class(request, caller_of(request).user, body.password) == "C"):
        raise ProofNeeded
    caller, at = caller_of(request), timezone.now()
    registered, kept = enrolment.finish_enrolment(
        request.session, tenant_id=caller.tenant_id, actor_id=caller.actor.id, credential=body.credential, at=at
    )
    row = people.enrol_key(**_doer(request), name=body.name, registered=registered, registration=kept)
    return schemas.ApproverKey.of(row)


@router.post(
    "/approver-keys/{approver_key_id}/confirm",
    summary="Confirm another person's passkey",
    response=schemas.ApproverKey,
)
@admits(*ANSWERERS)
@in_tenancy
def confirm_key(request: HttpRequest, approver_key_id: UUID) -> schemas.ApproverKey:
    people.confirm_key(**_with_person(request), key_id=approver_key_id)
    return _one_key(request, approver_key_id)


@router.post("/approver-keys/{approver_key_id}/refuse", summary="Reject an enrolment", response=schemas.ApproverKey)
@admits(*ANSWERERS)
@in_tenancy
def refuse_key(request: HttpRequest, approver_key_id: UUID, body: schemas.StopBody) -> schemas.ApproverKey:
    approver_keys.refuse(**_doer(request), key_id=approver_key_id, reason=body.reason)
    return _one_key(request, approver_key_id)


@router.post(
    "/approver-keys/{approver_key_id}/suspend",
    summary="Suspend a key immediately; needs one person",
    response=schemas.ApproverKey,
)
@admits(*ANSWERERS)
@in_tenancy
def suspend_key(request: HttpRequest, approver_key_id: UUID, body: schemas.StopBody) -> schemas.ApproverKey:
    approver_keys.suspend(**_by_person(request), key_id=approver_key_id, reason=body.reason)
    return _one_key(request, approver_key_id)


@router.post(
    "/approver-keys/{approver_key_id}/restore",
    summary="Reinstate a suspended key; not by its holder or the person who suspended it",
    response=schemas.ApproverKey,
)
@admits(*ANSWERERS)
@in_tenancy
def restore_key(request: HttpRequest, approver_key_id: UUID) -> schemas.ApproverKey:
    approver_keys.restore(**_by_person(request), key_id=approver_key_id)
    return _one_key(request, approver_key_id)


@router.post(
    "/approver-keys/{approver_key_id}/remove",
    summary="Remove a suspended key permanently; not by the person who suspended it",
    response=schemas.ApproverKey,
)
@admits(*ANSWERERS)
@in_tenancy
def remove_key(request: HttpRequest, approver_key_id: UUID) -> schemas.ApproverKey:
    approver_keys.remove(**_by_person(request), key_id=approver_key_id)
    return _one_key(request, approver_key_id)


# Delegations and absences


add_lists(router, __name__, DELEGATIONS)


@router.post("/delegations", summary="Delegate your approvals for a limited time", response={201: schemas.Delegation})
@admits("reviewer", "administrator")
@in_tenancy
def delegate(request: HttpRequest, body: schemas.DelegationBody) -> schemas.Delegation:
    if approvers.approver(caller_of(request).tenant_id, body.to) is None:
        raise NotFound
    row = delegations.add_delegation(
        **_with_person(request),
        from_actor=_whose(request, body.giver),
        to_actor=body.to,
        groups=body.groups,
        tools=body.tools,
        starts_at=body.starts_at,
        ends_at=body.ends_at,
        reason=body.reason,
        is_proven=is_proven(request, body.password, body.otp),
    )
    return schemas.Delegation.of(row)


@router.post("/delegations/{delegation_id}/end", summary="End a delegation", response=schemas.Delegation)
@admits("person")
@in_tenancy
def end_delegation(request: HttpRequest, delegation_id: UUID) -> schemas.Delegation:
    caller = caller_of(request)
    row = approvers.delegation(caller.tenant_id, delegation_id)
    if row is None:
        raise NotFound
    if caller.actor.id not in (row.from_actor, row.to_actor) and "administrator" not in caller.roles:
        raise NotAllowed
    delegations.end_delegation(**_doer(request), delegation_id=delegation_id)
    return schemas.Delegation.of(approvers.delegation(caller.tenant_id, delegation_id))


@router.get("/absences", summary="Current and planned absences", response=Page[schemas.Absence])
@admits("person")
@in_tenancy
def list_absences(request: HttpRequest, wanted: Query[Paged]) -> Page[schemas.Absence]:
    return paging.page_of_whole_list(
        schemas.Absence.of, approvers.absences(caller_of(request).tenant_id, timezone.now()), wanted
    )


@router.post("/absences", summary="Set an absence", response={201: schemas.Absence})
@admits("person")
@in_tenancy
def go_away(request: HttpRequest, body: schemas.AbsenceBody) -> schemas.Absence:
    row = delegations.add_absence(
        **_doer(request), actor_id=_whose(request, body.of), starts_at=body.starts_at, ends_at=body.ends_at
    )
    return schemas.Absence.of(row)


@router.post("/absences/{absence_id}/end", summary="End an absence", response=schemas.Absence)
@admits("person")
@in_tenancy
def come_back(request: HttpRequest, absence_id: UUID) -> schemas.Absence:
    caller = caller_of(request)
    row = approvers.absence(caller.tenant_id, absence_id)
    if row is None:
        raise NotFound
    if caller.actor.id != row.actor_id and "administrator" not in caller.roles:
        raise NotAllowed
    delegations.end_absence(**_doer(request), absence_id=absence_id)
    return schemas.Absence.of(approvers.absence(caller.tenant_id, absence_id))


# What is told


def _whose(request: HttpRequest, other: UUID | None) -> UUID:
    """The own account; another one only for administrators, and only in this tenant."""
    caller = caller_of(request)
    if other is None or other == caller.actor.id:
        return caller.actor.id
    if "administrator" not in caller.roles:
        raise NotAllowed
    if members_queries.member_by_pseudonym(caller.tenant_id, other) is None:
        raise NotFound
    return other


def _by_person(request: HttpRequest) -> dict[str, Any]:
    known = _with_person(request)
    return {"person_id": known.pop("by_person"), **known}


def _one(request: HttpRequest, member_id: UUID) -> schemas.Member:
    tenant_id = caller_of(request).tenant_id
    row = members_queries.member_by_id(tenant_id, member_id)
    if row is None:
        raise NotFound
    return schemas.Member.of(row, away=approvers.absent_approvers(tenant_id, timezone.now()))


def _one_key(request: HttpRequest, key_id: UUID) -> schemas.ApproverKey:
    return schemas.ApproverKey.of(approvers.approver_key_by_id(caller_of(request).tenant_id, key_id))


def _address(token: str) -> str:
    # The address that people type, by whatever name the administrator reached us.
    return str(settings.COUNTERFOIL_PUBLIC_URL + reverse("invitation", args=[token]))
