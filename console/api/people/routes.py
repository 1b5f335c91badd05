"""People: members and what they are, approvers' passkeys, delegations and absences. For signed-in people alone."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from ninja import Query, Router

from approvals.voting.operations import approver_keys, delegations
from approvals.voting.queries import approvers
from approvals.voting.rules import binding
from console.accounts import queries as directory
from console.accounts.members import enrolment
from console.accounts.members import operations as people
from console.accounts.members import queries as members_queries
from console.accounts.members.rules import current_roles
from console.accounts.step_up import is_proven, is_recently_authenticated, proof_class
from console.api import paging
from console.api.answers import Page
from console.api.auth import NotAllowed, admits, caller_of
from console.api.people import answers
from console.api.people.schemas import (
    AbsenceBody,
    AnswerProposalBody,
    DelegationBody,
    EnrolBody,
    InviteBody,
    MemberLinkBody,
    PlaceBody,
    ProofBody,
    StopBody,
)
from console.api.schemas import Paged
from console.api.transaction import NotFound, in_tenancy, json_response, run_once
from ledger.record.rules.envelope import instant

router = Router(tags=["People"])
READERS = ("administrator", "reviewer", "compliance")
ANSWERERS = ("administrator", "reviewer")


def _doer(request: HttpRequest) -> dict[str, Any]:
    caller = caller_of(request)
    return {"tenant_id": caller.tenant_id, "by": caller.actor, "at": timezone.now()}


def _with_person(request: HttpRequest) -> dict[str, Any]:
    caller = caller_of(request)
    return _doer(request) | {"by_person": people.person_of(caller.tenant_id, caller.actor.id)}


# Members


@router.get("/members", summary="Who belongs here, as what", response=Page[answers.Member])
@admits(*READERS)
@in_tenancy
def list_members(request: HttpRequest, wanted: Query[Paged]) -> HttpResponse:
    tenant_id = caller_of(request).tenant_id
    away = approvers.absent_approvers(tenant_id, timezone.now())
    return paging.whole_list_response(members_queries.members(tenant_id), wanted, lambda row: _member(row, away))


@router.post("/members", summary="Invite somebody", response={201: answers.Invited})
@admits("administrator")
def invite(request: HttpRequest, body: InviteBody) -> HttpResponse | None:
    proven = is_proven(request, body.password, body.otp)
    return run_once(request, lambda: _invite(request, body, proven))


def _invite(request: HttpRequest, body: InviteBody, proven: bool) -> HttpResponse:
    asked: dict[str, Any] = {"email": body.email, "name": body.name, "roles": body.roles, "groups": body.groups}
    row, token = people.invite_member(**_doer(request), **asked, is_proven=proven)
    return json_response(_member(row, set()) | {"invitation": _address(token)}, 201)


@router.post(
    "/members/{member_id}/invitation", summary="Another invitation; the one before is void", response=answers.Invitation
)
@admits("administrator")
def invite_again(request: HttpRequest, member_id: UUID, body: ProofBody) -> HttpResponse | None:
    proven = is_proven(request, body.password, body.otp)
    return run_once(request, lambda: _invite_again(request, member_id, proven))


def _invite_again(request: HttpRequest, member_id: UUID, proven: bool) -> HttpResponse:
    token = people.renew_invitation(**_doer(request), member_id=member_id, is_proven=proven)
    return json_response({"member_id": str(member_id), "invitation": _address(token)})


@router.post(
    "/members/{member_id}/roles",
    summary="Other roles and groups; more power over approvals for oneself waits for a second administrator",
    response=answers.Member,
)
@admits("administrator")
def change(request: HttpRequest, member_id: UUID, body: PlaceBody) -> HttpResponse | None:
    proven = is_proven(request, body.password, body.otp)
    return run_once(request, lambda: _change(request, member_id, body, proven))


def _change(request: HttpRequest, member_id: UUID, body: PlaceBody, proven: bool) -> HttpResponse:
    wanted: dict[str, Any] = {"roles": body.roles, "groups": body.groups}
    people.change_member(**_with_person(request), member_id=member_id, **wanted, is_proven=proven)
    return _one(request, member_id)


@router.post(
    "/members/{member_id}/answer", summary="The second administrator's word on what waits", response=answers.Member
)
@admits("administrator")
def answer_proposal(request: HttpRequest, member_id: UUID, body: AnswerProposalBody) -> HttpResponse | None:
    proven = is_proven(request, body.password, body.otp)
    return run_once(request, lambda: _answer_proposal(request, member_id, body, proven))


def _answer_proposal(request: HttpRequest, member_id: UUID, body: AnswerProposalBody, proven: bool) -> HttpResponse:
    people.confirm_proposal(**_with_person(request), member_id=member_id, answer=body.confirm, is_proven=proven)
    return _one(request, member_id)


@router.post("/members/{member_id}/links", summary="Two accounts are one person's", response=answers.Member)
@admits("administrator")
@in_tenancy
def link(request: HttpRequest, member_id: UUID, body: MemberLinkBody) -> HttpResponse:
    people.link_accounts(**_doer(request), member_ids=[member_id, body.member_id])
    return _one(request, member_id)


@router.post(
    "/members/{member_id}/separation",
    summary="Ask that an account be known as another person's; a second administrator confirms",
    response=answers.Member,
)
@admits("administrator")
@in_tenancy
def separate(request: HttpRequest, member_id: UUID) -> HttpResponse:
    people.propose_separation(**_with_person(request), member_id=member_id)
    return _one(request, member_id)


@router.post("/members/{member_id}/remove", summary="End somebody's place", response=answers.MemberRemoved)
@admits("administrator")
@in_tenancy
def remove(request: HttpRequest, member_id: UUID, body: StopBody) -> HttpResponse:
    people.remove_member(**_doer(request), member_id=member_id, reason=body.reason)
    return json_response({"member_id": str(member_id), "removed": True})


# Approvers' keys


@router.get(
    "/approver-keys", summary="The passkeys that sign votes, in every state", response=Page[answers.ApproverKey]
)
@admits(*READERS)
@in_tenancy
def list_keys(request: HttpRequest, wanted: Query[Paged]) -> HttpResponse:
    return paging.whole_list_response(approvers.approver_keys(caller_of(request).tenant_id), wanted, _key)


@router.post("/approver-keys/options", summary="Begin to enrol one's own passkey", response=answers.Ceremony)
@admits("reviewer")
@in_tenancy
def begin_enrolment(request: HttpRequest) -> HttpResponse:
    caller = caller_of(request)
    options = enrolment.begin_enrolment(
        request.session,
        tenant_id=caller.tenant_id,
        actor_id=caller.actor.id,
        name=caller.name,
        known=approvers.approver_keys(caller.tenant_id, actor_id=caller.actor.id),
        at=timezone.now(),
    )
    return json_response(options)


@router.post(
    "/approver-keys",
    summary="Enrol one's own passkey; it signs once another person has confirmed it",
    response={201: answers.ApproverKey},
)
@admits("reviewer")
def enrol(request: HttpRequest, body: EnrolBody) -> HttpResponse | None:
    # Outside the transaction: a wrong password counts towards the lock, whatever becomes of the rest.
    shown = is_recently_authenticated(request) or proof_class(request, caller_of(request).user, body.password) == "C"
    return run_once(request, lambda: _enrol(request, body, shown))


def _enrol(request: HttpRequest, body: EnrolBody, shown: bool) -> HttpResponse:
    if not shown:
        raise binding.StepUpRequired
    caller, at = caller_of(request), timezone.now()
    registered, kept = enrolment.finish_enrolment(
        request.session, tenant_id=caller.tenant_id, actor_id=caller.actor.id, credential=body.credential, at=at
    )
    row = people.enrol_key(**_doer(request), name=body.name, registered=registered, registration=kept)
    return json_response(_key(row), 201)


@router.post(
    "/approver-keys/{approver_key_id}/confirm",
    summary="Another person's word that a key is its holder's",
    response=answers.ApproverKey,
)
@admits(*ANSWERERS)
@in_tenancy
def confirm_key(request: HttpRequest, approver_key_id: UUID) -> HttpResponse:
    people.confirm_key(**_with_person(request), key_id=approver_key_id)
    return _one_key(request, approver_key_id)


@router.post("/approver-keys/{approver_key_id}/refuse", summary="Turn an enrolment down", response=answers.ApproverKey)
@admits(*ANSWERERS)
@in_tenancy
def refuse_key(request: HttpRequest, approver_key_id: UUID, body: StopBody) -> HttpResponse:
    approver_keys.refuse(**_doer(request), key_id=approver_key_id, reason=body.reason)
    return _one_key(request, approver_key_id)


@router.post(
    "/approver-keys/{approver_key_id}/suspend", summary="Stop a key at once, alone", response=answers.ApproverKey
)
@admits(*ANSWERERS)
@in_tenancy
def suspend_key(request: HttpRequest, approver_key_id: UUID, body: StopBody) -> HttpResponse:
    approver_keys.suspend(**_by_person(request), key_id=approver_key_id, reason=body.reason)
    return _one_key(request, approver_key_id)


@router.post(
    "/approver-keys/{approver_key_id}/restore",
    summary="Let a stopped key sign again: neither its holder nor who stopped it",
    response=answers.ApproverKey,
)
@admits(*ANSWERERS)
@in_tenancy
def restore_key(request: HttpRequest, approver_key_id: UUID) -> HttpResponse:
    approver_keys.restore(**_by_person(request), key_id=approver_key_id)
    return _one_key(request, approver_key_id)


@router.post(
    "/approver-keys/{approver_key_id}/remove",
    summary="End a stopped key for good: another person than who stopped it",
    response=answers.ApproverKey,
)
@admits(*ANSWERERS)
@in_tenancy
def remove_key(request: HttpRequest, approver_key_id: UUID) -> HttpResponse:
    approver_keys.remove(**_by_person(request), key_id=approver_key_id)
    return _one_key(request, approver_key_id)


# Delegations and absences


@router.get("/delegations", summary="Whose power is with whom", response=Page[answers.Delegation])
@admits("person")
@in_tenancy
def list_delegations(request: HttpRequest, wanted: Query[Paged]) -> HttpResponse:
    return paging.whole_list_response(
        approvers.delegations(caller_of(request).tenant_id, timezone.now()), wanted, _delegation
    )


@router.post("/delegations", summary="Let another approver decide for a while", response={201: answers.Delegation})
@admits("reviewer", "administrator")
def delegate(request: HttpRequest, body: DelegationBody) -> HttpResponse | None:
    proven = is_proven(request, body.password, body.otp)
    return run_once(request, lambda: _delegate(request, body, proven))


def _delegate(request: HttpRequest, body: DelegationBody, proven: bool) -> HttpResponse:
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
        is_proven=proven,
    )
    return json_response(_delegation(row), 201)


@router.post("/delegations/{delegation_id}/end", summary="Take a delegation back", response=answers.Delegation)
@admits("person")
@in_tenancy
def end_delegation(request: HttpRequest, delegation_id: UUID) -> HttpResponse:
    caller = caller_of(request)
    row = approvers.delegation(caller.tenant_id, delegation_id)
    if row is None:
        raise NotFound
    if caller.actor.id not in (row.from_actor, row.to_actor) and "administrator" not in caller.roles:
        raise NotAllowed
    delegations.end_delegation(**_doer(request), delegation_id=delegation_id)
    return json_response(_delegation(approvers.delegation(caller.tenant_id, delegation_id)))


@router.get("/absences", summary="Who is away, and who will be", response=Page[answers.Absence])
@admits("person")
@in_tenancy
def list_absences(request: HttpRequest, wanted: Query[Paged]) -> HttpResponse:
    return paging.whole_list_response(
        approvers.absences(caller_of(request).tenant_id, timezone.now()), wanted, _absence
    )


@router.post("/absences", summary="Be away for a while", response={201: answers.Absence})
@admits("person")
@in_tenancy
def go_away(request: HttpRequest, body: AbsenceBody) -> HttpResponse:
    row = delegations.add_absence(
        **_doer(request), actor_id=_whose(request, body.of), starts_at=body.starts_at, ends_at=body.ends_at
    )
    return json_response(_absence(row), 201)


@router.post("/absences/{absence_id}/end", summary="Be back", response=answers.Absence)
@admits("person")
@in_tenancy
def come_back(request: HttpRequest, absence_id: UUID) -> HttpResponse:
    caller = caller_of(request)
    row = approvers.absence(caller.tenant_id, absence_id)
    if row is None:
        raise NotFound
    if caller.actor.id != row.actor_id and "administrator" not in caller.roles:
        raise NotAllowed
    delegations.end_absence(**_doer(request), absence_id=absence_id)
    return json_response(_absence(approvers.absence(caller.tenant_id, absence_id)))


# What is told


def _whose(request: HttpRequest, other: UUID | None) -> UUID:
    """Oneself; another only for administrators, and only somebody of this tenant."""
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


def _one(request: HttpRequest, member_id: UUID) -> HttpResponse:
    tenant_id = caller_of(request).tenant_id
    row = members_queries.member_by_id(tenant_id, member_id)
    if row is None:
        raise NotFound
    return json_response(_member(row, approvers.absent_approvers(tenant_id, timezone.now())))


def _one_key(request: HttpRequest, key_id: UUID) -> HttpResponse:
    return json_response(_key(approvers.approver_key_by_id(caller_of(request).tenant_id, key_id)))


def _address(token: str) -> str:
    # The address that people type, by whatever name the administrator reached us.
    return str(settings.COUNTERFOIL_PUBLIC_URL + reverse("invitation", args=[token]))


def _member(row: Any, away: set[UUID]) -> dict[str, Any]:
    now = current_roles(row)
    return {
        "member_id": str(row.id),
        "actor": str(row.actor_id),
        "person": str(row.person_id),
        "name": directory.name_of(row),
        "email": row.user.get_username(),
        "roles": sorted(now.roles),
        "groups": sorted(now.groups),
        "joined_at": instant(row.joined_at) if row.joined_at else None,
        "is_open": row.user.is_active,
        "is_away": row.actor_id in away,
        "waits_for": row.proposal["what"] if row.proposal else None,
    }


def _key(row: Any) -> dict[str, Any]:
    return {
        "approver_key_id": str(row.id),
        "actor": str(row.actor_id),
        "person": str(row.person_id),
        "name": row.name,
        "state": row.state,
        "credential_id": row.credential_id,
        "aaguid": str(row.aaguid),
        "backup_eligible": row.backup_eligible,
        "confirmed_by": str(row.confirmed_by) if row.confirmed_by else None,
        "created_at": instant(row.created_at),
    }


def _delegation(row: Any) -> dict[str, Any]:
    return {
        "delegation_id": str(row.id),
        "giver": str(row.from_actor),
        "to": str(row.to_actor),
        "groups": row.groups,
        "tools": row.tools,
        "starts_at": instant(row.starts_at),
        "ends_at": instant(row.ends_at),
        "reason": row.reason,
        "ended": row.ended_at is not None,
    }


def _absence(row: Any) -> dict[str, Any]:
    return {
        "absence_id": str(row.id),
        "of": str(row.actor_id),
        "starts_at": instant(row.starts_at),
        "ends_at": instant(row.ends_at),
        "ended": row.ended_at is not None,
    }
