"""Request bodies about the work on approvals."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from pydantic import Field

from approvals.rules import threads
from console.api.schemas import Body


class AssigneeBody(Body):
    to: Annotated[
        UUID | None,
        Field(strict=False, description="The pseudonym of an approver; left out, it is who has least to do."),
    ] = None


class LineBody(Body):
    text: Annotated[str, Field(min_length=1, max_length=threads.LONGEST)]


class AnswerBody(Body):
    question_id: Annotated[UUID, Field(strict=False)]
    text: Annotated[str, Field(min_length=1, max_length=threads.LONGEST_ANSWER)]
