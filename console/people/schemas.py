"""Request and response schemas of people: members, approvers' keys, delegations, absences."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated, Any, Self
from uuid import UUID

from pydantic import AwareDatetime, Field

from console.accounts import queries as directory
from console.accounts.members.rules import current_roles
from console.accounts.sign_in.queries import holders_of_second_factor
from console.edge.schemas import CODE, PASSWORD, SHORT_REASON, Answer, Ask, Body, HasHappened, Reason, Time
from console.people.forms import RolesForm
from console.web.forms import YesField

if TYPE_CHECKING:
    from console.models import Membership

Words = Annotated[list[Annotated[str, Field(min_length=1, max_length=128)]], Field(max_length=50)]
Id = Annotated[UUID, Field(strict=False)]
GivenTime = Annotated[AwareDatetime, Field(strict=False)]


class ProofBody(Body):
    """Who it is that gives somebody power over approvals, unless the session showed it in the last minutes."""

    password: Annotated[str | None, Field(max_length=1000), PASSWORD] = None
    otp: Annotated[str | None, Field(max_length=16), CODE] = None


class PlaceBody(ProofBody):
    roles: Annotated[Words, Ask(field=RolesForm.base_fields["roles"])] = []
    groups: Annotated[Words, Ask(field=RolesForm.base_fields["groups"])] = []


class InviteBody(PlaceBody):
    email: Annotated[str, Field(min_length=3, max_length=150, pattern=r"^[^@\s]+@[^@\s]+\.[^@\s.]+$")]
    name: Annotated[str, Field(max_length=100)] = ""


class AnswerProposalBody(ProofBody):
    confirm: Annotated[bool, Ask(name="to", field=YesField(yes="confirm", no="refuse"))]


class SecondWordBody(ProofBody):
    confirm: Annotated[bool, Ask(name="to", field=YesField(yes="confirm", no="decline"))]
    reason: Annotated[Reason, SHORT_REASON]


class MemberLinkBody(Body):
    member_id: Id


class EnrolBody(Body):
    name: Annotated[str, Field(max_length=100)] = ""
    credential: Annotated[
        dict[str, Any],
        Field(description="The result of navigator.credentials.create(), as PublicKeyCredential.toJSON()."),
    ]
    password: Annotated[
        str | None, Field(description="Required unless the session was reauthenticated in the last minutes.")
    ] = None


class StopBody(Body):
    reason: Reason


class DelegationBody(ProofBody):
    to: Annotated[Id, Field(description="The pseudonym of the approver who is to decide.")]
    giver: Annotated[Id | None, Field(description="For administrators: who delegates. Default: yourself.")] = None
    groups: Words
    tools: Words = []
    starts_at: GivenTime
    ends_at: GivenTime
    reason: Annotated[str, Field(max_length=500)] = ""


class AbsenceBody(Body):
    starts_at: GivenTime
    ends_at: GivenTime
    of: Annotated[Id | None, Field(description="For administrators: who is away. Default: yourself.")] = None


class Member(Answer):
    member_id: UUID = Field(validation_alias="id")
    actor: UUID = Field(validation_alias="actor_id", description="The account's pseudonym in the record.")
    person: UUID = Field(
        validation_alias="person_id", description="The person behind the account; the same for linked accounts."
    )
    name: str
    email: str
    roles: list[str]
    groups: list[str]
    joined_at: Time | None
    is_open: bool
    is_away: bool
    has_second_factor: bool = Field(description="An authenticator app or a passkey for signing in.")
    waits_for: str | None = Field(description="roles or separation: what a second administrator must confirm.")

    @classmethod
    def of(cls, row: Membership, /, *, away: Collection[UUID] = (), **more: Any) -> Self:
        now = current_roles(row)
        if "has_second_factor" not in more:
            more["has_second_factor"] = bool(holders_of_second_factor([row.user_id]))
        return super().of(
            row,
            name=directory.name_of(row),
            email=row.user.get_username(),
            roles=sorted(now.roles),
            groups=sorted(now.groups),
            is_open=row.user.is_active,
            is_away=row.actor_id in away,
            waits_for=row.proposal["what"] if row.proposal else None,
            **more,
        )


class Invited(Member):
    invitation: str = Field(description="The address of the invitation, shown only once.")


class Invitation(Answer):
    member_id: UUID
    invitation: str


class MemberRemoved(Answer):
    member_id: UUID
    removed: bool


class ApproverKey(Answer):
    approver_key_id: UUID = Field(validation_alias="id")
    actor: UUID = Field(validation_alias="actor_id")
    person: UUID = Field(validation_alias="person_id")
    name: str
    state: str = Field(description="PENDING, ACTIVE, SUSPENDED, REFUSED or REMOVED.")
    credential_id: str
    aaguid: UUID
    backup_eligible: bool
    confirmed_by: UUID | None
    created_at: Time


class Ceremony(Answer):
    publicKey: dict[str, Any] = Field(
        description="Options for navigator.credentials.create(), good for two minutes in this session."
    )


class Delegation(Answer):
    delegation_id: UUID = Field(validation_alias="id")
    giver: UUID = Field(validation_alias="from_actor")
    to: UUID = Field(validation_alias="to_actor")
    groups: list[str]
    tools: list[str]
    starts_at: Time
    ends_at: Time
    reason: str
    ended: Annotated[bool, HasHappened] = Field(validation_alias="ended_at")


class Absence(Answer):
    absence_id: UUID = Field(validation_alias="id")
    of_actor: UUID = Field(validation_alias="actor_id", serialization_alias="of")
    starts_at: Time
    ends_at: Time
    ended: Annotated[bool, HasHappened] = Field(validation_alias="ended_at")
