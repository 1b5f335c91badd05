"""Request and response schemas of executors, orders and attempts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Self
from uuid import UUID

import orjson
from ninja import Schema
from pydantic import Field

from console.actions.schemas import ApprovalVerdict, Report
from console.edge.schemas import Answer, Body, Moment, Name, Paged, Time
from reviews.tracing.rules.spans import effect_span_id

if TYPE_CHECKING:
    from approvals.execution.operations.executions import StartedExecution
    from approvals.execution.operations.ready_actions import ReadyAction


class OrdersWanted(Paged):
    tools: Annotated[
        list[str], Field(description="Names of tools, each in a `tools` of its own or with commas between.")
    ]

    def names(self) -> list[str]:
        return [name for given in self.tools for name in given.split(",") if name]


class ExecutorBody(Body):
    executor_id: Name
    public_jwk: dict[str, Any]
    tools: Annotated[list[Name], Field(max_length=1000)]


class StartTerms(Body):
    wrapper_version: Annotated[str, Field(min_length=1, max_length=64)]
    timeout_s: Annotated[int, Field(ge=1, le=86_400)]


class ClaimBody(Body):
    executor_id: Name
    tools: Annotated[list[Name], Field(max_length=1000)] | None = None
    limit: Annotated[int, Field(ge=1, le=50)] = 1
    wait_s: Annotated[int, Field(ge=0, le=30)] = 0
    proof: bool = False
    actions: Annotated[list[Annotated[UUID, Field(strict=False)]], Field(max_length=50)] | None = None
    start: Annotated[
        StartTerms | None,
        Field(description="Start what is claimed at once, with a proof (`DPoP`) for this address and the API key."),
    ] = None


class StartBody(Body):
    grant: Annotated[str, Field(min_length=1, max_length=16_384)]
    executor_id: Name
    wrapper_version: Annotated[str, Field(min_length=1, max_length=64)]
    timeout_s: Annotated[int, Field(ge=1, le=86_400)]
    payload_hash: Annotated[str, Field(max_length=64)] | None = None


class KeptStart(Body):
    action_id: Annotated[UUID, Field(strict=False)]
    attempt: Annotated[int, Field(ge=1, le=2**31 - 1)]
    tool: Name
    target: Annotated[str, Field(max_length=512)] = ""
    payload_hash: Annotated[str, Field(max_length=64)] = ""
    started_at: Annotated[Moment, Field(strict=False)]
    status: Annotated[str, Field(max_length=16, description="What the tool said; empty if it never did.")] = ""


class KeptBody(Body):
    starts: Annotated[list[KeptStart], Field(max_length=500)]


class KeptTaken(Answer):
    unrecorded: int = Field(description="How many of them this record did not have and was not told before.")


class HeartbeatBody(Body):
    executor_id: Name


class Executor(Answer):
    executor_id: str
    thumbprint: str
    tools: list[str]


class ReadyOrder(Answer):
    action_id: UUID
    tool: str
    version: str
    ready: bool
    waiting_for: list[str]

    @classmethod
    def of(cls, order: ReadyAction, /, **more: Any) -> Self:
        return super().of(order, ready=not order.waiting_for, **more)


class LoggedVote(Answer):
    statement: str
    index: int
    path: list[str]
    envelope: str
    detail: str
    salt: str


class ProofOfVotes(Answer):
    checkpoint: str
    votes: list[LoggedVote]


class Trace(Answer):
    trace_id: str
    span_id: str = Field(description="The span of this attempt: the parent of the executor's own spans.")


class Started(Answer):
    action_id: UUID
    attempt: int
    payload: dict[str, Any]
    payload_hash: str
    idempotency_key: str | None
    lease_expires_at: Time
    trace: Trace

    @classmethod
    def of(cls, started: StartedExecution, /, **more: Any) -> Self:
        trace = Trace(trace_id=started.trace_id, span_id=effect_span_id(more["action_id"], started.attempt))
        return super().of(started, payload=orjson.loads(started.payload), trace=trace, **more)


class StartedAtOnce(Started):
    """A start that came with its proposal: what a claim would have answered, and what the start did."""

    tool: str
    version: str
    grant: str = Field(description="Used up by this start. Verify it before anything runs, like a claimed grant.")
    grant_expires_at: Time
    override_id: UUID | None = Field(
        None, description="A person's decision that this starts although the record has gone back."
    )


class Order(Answer):
    action_id: UUID
    tool: str
    version: str
    grant: str
    grant_expires_at: Time
    proof: ProofOfVotes | None = Field(
        None, description="That the votes stand in the signed log, for an executor that asks to see it."
    )
    override_id: UUID | None = Field(
        None, description="A person's decision that this starts although the record has gone back."
    )
    started: Started | None = Field(None, description="The start, if it was asked for; the grant is used up by it.")


class Orders(Answer):
    orders: list[Order]


class Lease(Answer):
    lease_expires_at: Time


class ObserveWanted(Schema):
    report: bool = Field(False, description="Include the report and the decision in the answer.")


class Observed(Answer):
    state: str
    report: Report | None = Field(default=None, description="The current report; only if requested.")
    approval: ApprovalVerdict | None = Field(default=None, description="The decision; only if requested.")
