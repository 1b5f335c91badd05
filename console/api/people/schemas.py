"""Request bodies about people: members, approvers' keys, delegations, absences."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from pydantic import AwareDatetime, Field

from console.api.schemas import Body, Reason

Words = Annotated[list[Annotated[str, Field(min_length=1, max_length=128)]], Field(max_length=50)]
Id = Annotated[UUID, Field(strict=False)]
Time = Annotated[AwareDatetime, Field(strict=False)]


class ProofBody(Body):
    """Who it is that gives somebody power over approvals, unless the session showed it in the last minutes."""

    password: Annotated[str | None, Field(max_length=1000)] = None
    otp: Annotated[str | None, Field(max_length=16)] = None


class PlaceBody(ProofBody):
    roles: Words = []
    groups: Words = []


class InviteBody(PlaceBody):
    email: Annotated[str, Field(min_length=3, max_length=150, pattern=r"^[^@\s]+@[^@\s]+\.[^@\s.]+$")]
    name: Annotated[str, Field(max_length=100)] = ""


class AnswerProposalBody(ProofBody):
    confirm: bool


class SecondWordBody(ProofBody):
    confirm: bool
    reason: Reason


class MemberLinkBody(Body):
    member_id: Id


class EnrolBody(Body):
    name: Annotated[str, Field(max_length=100)] = ""
    credential: Annotated[
        dict[str, Any], Field(description="What navigator.credentials.create() gave, as PublicKeyCredential.toJSON().")
    ]
    password: Annotated[str | None, Field(description="Unless the session showed who it is in the last minutes.")] = (
        None
    )


class StopBody(Body):
    reason: Reason


class DelegationBody(ProofBody):
    to: Annotated[Id, Field(description="The pseudonym of the approver who is to decide.")]
    giver: Annotated[Id | None, Field(description="For administrators: whose power it is; else one's own.")] = None
    groups: Words
    tools: Words = []
    starts_at: Time
    ends_at: Time
    reason: Annotated[str, Field(max_length=500)] = ""


class AbsenceBody(Body):
    starts_at: Time
    ends_at: Time
    of: Annotated[Id | None, Field(description="For administrators: who is away; else oneself.")] = None
