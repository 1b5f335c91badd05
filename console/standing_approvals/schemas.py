"""Request and response schemas of standing approvals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import AwareDatetime, Field

from approvals.standing.rules import shapes
from console.edge.schemas import CODE, PASSWORD, Answer, Ask, Body, Paged, Reason, TextOrNull, Time
from console.standing_approvals import context
from console.web.forms import YesField

if TYPE_CHECKING:
    from approvals import models
    from approvals.standing.operations import offers


class StandingApprovalsWanted(Paged):
    """Which standing approvals a list is of."""

    state: Literal["PROPOSED", "ACTIVE", "PAUSED", "DECLINED", "ENDED"] | None = Field(
        None, description="Default: those proposed, in force or paused."
    )

    def filters(self) -> dict[str, Any]:
        return {"states": (self.state,)} if self.state else {}


class StandingWordBody(Body):
    """Why, and a fresh proof of who it is, as for a vote."""

    reason: Reason
    password: Annotated[Annotated[str, Field(max_length=1000)] | None, PASSWORD] = None
    otp: Annotated[Annotated[str, Field(max_length=16)] | None, CODE] = None


class StandingProposalBody(StandingWordBody):
    shape_digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$", description="Digest of the offer that was shown.")]
    count: Annotated[int, Field(ge=1, le=1000, description="Number of actions that may pass.")]
    sum_minor: Annotated[int, Field(ge=1, le=2**53 - 1)] | None = Field(
        None, description="Total amount that may pass, in the smallest unit, if the calls have an amount."
    )
    ends_at: Annotated[AwareDatetime, Field(strict=False, description="Nothing passes after this time.")]


class StandingAnswerBody(StandingWordBody):
    agree: Annotated[bool, Ask(name="to", field=YesField(yes="agree", no="decline"))]


class TimeBoxBody(Body):
    """The limits of a pass, its reason, and a fresh proof of the person, as for a vote."""

    minutes: Annotated[int, Field(ge=1, le=60, description="How long such calls pass."), Ask(label="Minutes")]
    count: Annotated[
        int, Field(ge=1, le=1000, description="Number of actions that may pass."), Ask(label="Calls at most")
    ]
    reason: Reason
    password: Annotated[Annotated[str, Field(max_length=1000)] | None, PASSWORD] = None
    otp: Annotated[Annotated[str, Field(max_length=16)] | None, CODE] = None


class RevocationBody(Body):
    reason: Annotated[str, Field(max_length=4000, description="May be left out.")] = ""


class StandingOffer(Answer):
    """A standing approval that is earned and may be proposed."""

    shape_digest: str
    shape: dict[str, Any]
    bounds: list[str]
    evidence: list[UUID]
    approvers: int
    said: str = Field(description="The evidence for it, in one sentence.")
    most_passes: int
    most_days: int

    @classmethod
    def of(cls, offer: offers.StandingOffer, /, **more: Any) -> Self:
        return super().of(
            offer,
            shape_digest=offer.shape.digest,
            shape=offer.shape.document(),
            bounds=list(shapes.describe_bounds(offer.shape)),
            said=context.offer_sentence(offer),
            most_passes=offer.policy.most_passes,
            most_days=offer.policy.most_days,
            **more,
        )


class StandingApproval(Answer):
    """Terms that two persons agreed to, or are asked to agree to; or a time-boxed pass that one person gave."""

    standing_approval_id: UUID = Field(validation_alias="id")
    is_time_boxed: bool = Field(description="True for a time-boxed pass: one person gave it, for an hour at most.")
    state: str = Field(description="PROPOSED, ACTIVE, PAUSED, DECLINED or ENDED.")
    agent: str
    tool: str
    shape_digest: str
    shape: dict[str, Any]
    bounds: list[str]
    max_count: int
    max_minor: int | None
    currency: TextOrNull
    ends_at: Time
    used_count: int
    used_minor: int
    evidence: list[UUID]
    approvers: int
    said: str = Field(description="The evidence for it, in one sentence.")
    reason: str
    proposed_by: UUID
    proposed_at: Time
    answered_by: UUID | None
    answered_at: Time | None
    stopped: str = Field(description="Why nothing passes under it, in one sentence; empty where it is in force.")
    paused_at: Time | None
    pause_reason: TextOrNull
    pause_action: UUID | None
    case_id: UUID | None
    ended_at: Time | None
    ended_because: TextOrNull

    @classmethod
    def of(cls, row: models.StandingApproval, /, **more: Any) -> Self:
        return super().of(
            row,
            bounds=list(shapes.describe_bounds(shapes.read_shape(row.shape))),
            said=context.earned_sentence(row),
            stopped=context.stop_sentence(row),
            **more,
        )


class StandingPass(Answer):
    """One action that passed."""

    number: int
    action_id: UUID
    approval_id: UUID
    minor: int
    at: Time


class StandingApprovalDetail(StandingApproval):
    passes: list[StandingPass]


class StandingOffers(Answer):
    """Everything that is offered now."""

    items: list[StandingOffer]
