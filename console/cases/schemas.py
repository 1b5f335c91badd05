"""Request and response schemas of cases."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

from django import forms
from django.utils import timezone
from pydantic import AwareDatetime, Field

from console.approvals.schemas import SigningKey
from console.edge.schemas import Answer, Ask, Body, Comment, Paged, Reason, TextOrNull, Time
from console.web.forms import SNOOZES, PlainSelect


class CasesWanted(Paged):
    resolved: bool = False


class SignatureBody(Body):
    covers: Annotated[str, Field(max_length=64)] = Field(
        "", description="The `covers_digest` that was read. Required where `proof` is stronger than the session (D)."
    )
    password: Annotated[str, Field(max_length=1000)] | None = None
    otp: Annotated[str, Field(max_length=16)] | None = None
    challenge_id: Annotated[UUID, Field(strict=False)] | None = Field(
        None, description="The challenge that `assertion` answers."
    )
    assertion: dict[str, Any] | None = Field(None, description="`PublicKeyCredential.toJSON()` of a passkey's answer.")


ResolutionName = Literal[
    "VERIFY_AGAIN",
    "STRONG_READ",
    "ATTEST_PRESENT",
    "ATTEST_ABSENT",
    "ACCEPT",
    "COMPENSATE",
    "FORWARD_RECOVER",
    "ROLL_BACK",
    "CORRECT",
    "FAIL",
    "ABANDON",
    "ACKNOWLEDGE",
]


class ResolveBody(SignatureBody):
    resolution: ResolutionName
    reason: Reason
    evidence: Annotated[list[Annotated[str, Field(max_length=4000)]], Field(min_length=1, max_length=50)]


class ConfirmBody(SignatureBody):
    accept: bool = True


class SettlementChallengeBody(Body):
    resolution: ResolutionName | None = Field(
        None, description="The settlement to sign; null to confirm a proposed one."
    )
    reason: Annotated[str, Field(max_length=4000)] = ""
    evidence: Annotated[list[Annotated[str, Field(max_length=4000)]], Field(max_length=50)] = []
    covers: Annotated[str, Field(max_length=64)] = ""
    credential_id: Annotated[str, Field(max_length=2000)] = Field("", description="Which of your keys to sign with.")


class AssignBody(Body):
    to: Annotated[
        UUID,
        Field(strict=False, description="The pseudonym of an operator, as `claimed_by` has it."),
        Ask(field=forms.UUIDField()),
    ]


class HoursFromNowField(forms.ChoiceField):
    """One of some numbers of hours; the moment when they are over."""

    def clean(self, value: Any) -> Any:
        return timezone.now() + timedelta(hours=int(super().clean(value)))


class SnoozeBody(Body):
    until: Annotated[
        AwareDatetime,
        Field(strict=False),
        Ask(name="hours", field=HoursFromNowField(choices=SNOOZES, widget=PlainSelect)),
    ]
    reason: Reason


class BatchBody(Body):
    kind: Literal["CLAIM", "ASSIGN", "SNOOZE", "VERIFY_AGAIN", "COMMENT", "FREEZE_TARGETS"]
    cases: Annotated[list[Annotated[UUID, Field(strict=False)]], Field(min_length=1, max_length=500)]
    to: Annotated[UUID, Field(strict=False)] | None = None
    until: Annotated[AwareDatetime, Field(strict=False)] | None = None
    reason: Annotated[str, Field(max_length=1000)] = ""
    text: Annotated[str, Field(max_length=4000)] = ""


class CaseRow(Answer):
    case_id: UUID = Field(validation_alias="id")
    action_id: UUID | None = Field(description="Null for an ungated effect.")
    state: str
    reason: str
    discrepancy: TextOrNull
    side_effect_class: str
    claimed_by: UUID | None
    proposed_resolution: TextOrNull
    resolution: TextOrNull
    snoozed_until: Time | None
    opened_at: Time


class CaseSleep(Answer):
    case_id: UUID
    snoozed_until: Time | None


class BatchItem(Answer):
    case_id: UUID
    state: str
    code: TextOrNull
    detail: TextOrNull


class Batch(Answer):
    batch_id: UUID = Field(validation_alias="id")
    kind: str
    state: str
    total: int
    done: int
    refused: int
    left: int
    started_at: Time
    ended_at: Time | None
    items: list[BatchItem]


class Allowed(Answer):
    resolution: str
    label: str = Field(description="The choice in words; for ACCEPT with the values that the reading showed.")
    needs_second: bool
    proof: str = Field(description="The weakest class of proof that is accepted: A, B, C, or D for the session alone.")
    meaning: str = Field(description="What the person who chooses it states, as signed.")
    consequence: str = Field(description="Its consequence.")


class Proposal(Answer):
    resolution: str = Field(validation_alias="proposed_resolution")
    reason: str = Field(validation_alias="proposed_reason")
    evidence: list[str] = Field(validation_alias="proposed_evidence")
    proposed_by: UUID | None
    label: str = Field(description="The proposed choice in words.")
    proof: str = Field(description="The weakest class of proof that is accepted for confirming it.")
    meaning: str
    consequence: str
    may_confirm: bool = Field(description="Whether you may confirm it; `why_not` says why not.")
    why_not: str


class Correction(Answer):
    tool: str
    action_id: UUID | None = Field(description="Null until it has passed the gate, and where the gate refused it.")
    target: str
    outcome: str | None
    said: str = Field(description="How it stands, in words.")


class Case(CaseRow):
    rows: list[str] = Field(
        description="The rows that the newest reading shows, as `refund 3`, where it reads their `id`."
    )
    corrections: list[Correction] = Field(description="The corrections that were proposed from the case, oldest first.")
    allowed: list[Allowed]
    proposal: Proposal | None = Field(description="The proposal that awaits a second person.")
    covers: dict[str, Any] = Field(description="What a settlement covers: the case as it stands now.")
    covers_digest: str = Field(description="Send it as `covers` with a settlement.")
    keys: list[SigningKey] = Field(description="Your passkeys that may sign it.")
    findings: dict[str, Any] | None
    comments: list[Comment]


class CaseOwner(Answer):
    case_id: UUID
    claimed_by: UUID | None


class CaseState(Answer):
    case_id: UUID
    state: str
