"""Request and response schemas of decisions for other gateways."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from ninja import Schema
from pydantic import Field, SkipValidation

from console.actions.schemas import UserStatus
from console.edge.schemas import Answer, Body, Name, TextOrNull
from console.execution.schemas import StartedAtOnce
from console.sessions.schemas import ApprovalNeed, CallBody, ExecutorAtHand


class DecideBody(Body):
    session_id: Annotated[UUID, Field(strict=False)]
    agent_id: Annotated[Name, Field(description="The agent that calls; refused unless the session is its own.")]
    # The gate reads it (`read_call`), as in a batch of calls.
    call: Annotated[
        SkipValidation[CallBody],
        Field(description="Its `call_id` is required: the same one in the same session is the same decision."),
    ]
    start: ExecutorAtHand


class Decision(Answer):
    """An action as the answer to one call: it may run now, it may not, or it waits."""

    decision: Literal["allow", "deny", "wait"]
    decision_id: UUID | None = Field(description="The action's id; null if the gate refused to make one of the call.")
    task_id: UUID | None = Field(description="While it waits: the same id, to be asked about.")
    call_id: str
    code: TextOrNull = Field(description="Why it is denied: the gate's code, ALREADY_ALLOWED, or the action's outcome.")
    reason: str = Field(description="Why, and what would be accepted. Empty if it is allowed.")
    errors: list[dict[str, Any]] = Field(description="The faults of a refused call, each with its path.")
    waiting_for: list[str] = Field(description="What it waits for, as in the list of orders.")
    state: str | None
    outcome: str | None
    approval: ApprovalNeed | None
    user_status: UserStatus
    started: StartedAtOnce | None = Field(
        description="If it is allowed: the attempt, its payload, and the lease by whose end its outcome is due."
    )


class OutcomeWanted(Schema):
    attempt: Annotated[int, Field(ge=1, le=2**31 - 1, description="The attempt of the decision's `started`.")]
    report: bool = Field(False, description="Include the report and the decision in the answer.")
