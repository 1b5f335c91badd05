"""What the API answers about the work on approvals, as its OpenAPI document says it."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from console.api.answers import Answer


class Claimed(Answer):
    approval_id: str
    claimed_by: str | None
    claimed_until: datetime | None


class Assigned(Answer):
    approval_id: str
    assigned_to: str


class Line(Answer):
    line_id: str
    kind: str = Field(description="comment, question or answer; an answer is the agent's own words and no evidence.")
    author: str
    author_kind: str
    text: str
    mentions: list[str]
    answers: str | None
    at: datetime


class LineTaken(Answer):
    line_id: str


class ItemVoted(Answer):
    approval_id: str
    result: str = Field(description="VOTED, DECIDED (by others meanwhile) or REFUSED.")
    statement_hash: str | None
    code: str | None
    detail: str | None


class VotesTaken(Answer):
    items: list[ItemVoted]
    voted: int
    decided: int
    refused: int


class Answered(Answer):
    question_id: str
    line_id: str
