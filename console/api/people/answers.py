"""What the API answers about people, as its OpenAPI document says it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from console.api.answers import Answer


class Member(Answer):
    member_id: str
    actor: str = Field(description="The pseudonym that the record knows the account by.")
    person: str = Field(description="The human behind the account; accounts of one human have the same.")
    name: str
    email: str
    roles: list[str]
    groups: list[str]
    joined_at: datetime | None
    is_open: bool
    is_away: bool
    waits_for: str | None = Field(description="roles or separation: what a second administrator must confirm.")


class Invited(Member):
    invitation: str = Field(description="The address of the invitation, told this once.")


class Invitation(Answer):
    member_id: str
    invitation: str


class MemberRemoved(Answer):
    member_id: str
    removed: bool


class ApproverKey(Answer):
    approver_key_id: str
    actor: str
    person: str
    name: str
    state: str = Field(description="PENDING, ACTIVE, SUSPENDED, REFUSED or REMOVED.")
    credential_id: str
    aaguid: str
    backup_eligible: bool
    confirmed_by: str | None
    created_at: datetime


class Ceremony(Answer):
    publicKey: dict[str, Any] = Field(
        description="Options for navigator.credentials.create(), good for two minutes in this session."
    )


class Delegation(Answer):
    delegation_id: str
    giver: str
    to: str
    groups: list[str]
    tools: list[str]
    starts_at: datetime
    ends_at: datetime
    reason: str
    ended: bool


class Absence(Answer):
    absence_id: str
    of: str
    starts_at: datetime
    ends_at: datetime
    ended: bool
