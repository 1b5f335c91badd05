"""People: members and what they are, approvers' passkeys, delegations and absences. For signed-in people alone."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from ninja import Query, Router

from approvals.voting.operations import delegations
from approvals.voting.queries import approvers
from console.accounts.members import enrolment
from console.accounts.members import operations as people
from console.accounts.members import queries as members_queries
from console.accounts.step_up import is_proven, is_recently_authenticated, proof_class
from console.edge import paging
from console.edge.auth import NotAllowed, admits, caller_of
from console.edge.schemas import Page, Paged
from console.edge.transaction import in_tenancy
from console.people import schemas, verbs
from console.people.lists import DELEGATIONS, PASSKEYS, PEOPLE
from console.verbs.verb import add_verbs
from console.web.list_page import add_lists
from ledger.record.rules.refusals import NotFound, ProofNeeded

router = Router(tags=["People"])


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


add_verbs(router, __name__, (verbs.CHANGE, verbs.ANSWER_PROPOSAL))


@router.post("/members/{member_id}/links", summary="Link two accounts of one person", response=schemas.Member)
@admits("administrator")
@in_tenancy
def link(request: HttpRequest, member_id: UUID, body: schemas.MemberLinkBody) -> schemas.Member:
    people.link_accounts(**_doer(request), member_ids=[member_id, body.member_id])
    return verbs.member_answer(caller_of(request).tenant_id, member_id, timezone.now())


add_verbs(router, __name__, (verbs.SEPARATE, verbs.REMOVE))


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


KEY_VERBS = (verbs.CONFIRM_KEY, verbs.REFUSE_KEY, verbs.SUSPEND_KEY, verbs.RESTORE_KEY, verbs.REMOVE_KEY)
add_verbs(router, __name__, KEY_VERBS)


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


add_verbs(router, __name__, [verbs.END_DELEGATION])


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


add_verbs(router, __name__, [verbs.COME_BACK])


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


def _address(token: str) -> str:
    # The address that people type, by whatever name the administrator reached us.
    return str(settings.COUNTERFOIL_PUBLIC_URL + reverse("invitation", args=[token]))
