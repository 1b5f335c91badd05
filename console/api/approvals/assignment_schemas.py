"""Request bodies about the work on approvals."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from approvals.requests.rules import threads
from approvals.voting.rules import batches
from console.api.schemas import Body


class AssigneeBody(Body):
    to: Annotated[
        UUID | None,
        Field(strict=False, description="The pseudonym of an approver; left out, it is who has least to do."),
    ] = None


class LineBody(Body):
    text: Annotated[str, Field(min_length=1, max_length=threads.LONGEST)]


Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class ShownItem(Body):
    approval_id: Annotated[UUID, Field(strict=False)]
    payload_hash: Digest
    rendering_digest: Annotated[Digest, Field(description="Of what was displayed: an item that was not is no item.")]
    covers: Annotated[str, Field(max_length=64)] = Field("", description="The `covers_digest` that was read.")


class VotesBody(Body):
    verdict: Literal["approve", "reject"]
    items: Annotated[list[ShownItem], Field(min_length=1, max_length=batches.MOST)]
    reason: Annotated[str, Field(max_length=4000)] = ""
    password: Annotated[str, Field(max_length=1000)] | None = None
    otp: Annotated[str, Field(max_length=16)] | None = None


class AnswerBody(Body):
    question_id: Annotated[UUID, Field(strict=False)]
    text: Annotated[str, Field(min_length=1, max_length=threads.LONGEST_ANSWER)]
