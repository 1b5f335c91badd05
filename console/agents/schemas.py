"""Request and response schemas of agents."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import BeforeValidator, Field

from console.edge.schemas import Answer, Body, LintFinding, Name


class AgentBody(Body):
    agent_id: Name
    version: Annotated[str, Field(min_length=1, max_length=64)]
    tools: Annotated[list[Name], Field(max_length=1000)]
    versions: Annotated[
        dict[Name, Annotated[str, Field(max_length=64)]],
        Field(
            max_length=1000,
            description="For a tool, a version of its contract (1.4.0) or a range (1.x, 1.4.x, *). Without one,"
            " the agent never comes to a weaker version.",
        ),
    ] = {}
    output_tags: Annotated[list[Name], Field(max_length=200)] = []
    model_tier: Annotated[str, Field(max_length=64)] | None = None
    acts_elsewhere: Annotated[
        bool,
        Field(
            description="Whether the agent also has tools that change something and do not pass the console: under a"
            " hook, beside a gateway, or where calls are only verified. What its messages report without a record is"
            " then noted and not replaced."
        ),
    ] = False
    registered_by: Annotated[str, Field(max_length=200)] | None = None
    owner: Annotated[str, Field(max_length=150, description="The member who owns the agent.")] | None = None


class AgentVersion(Answer):
    agent_id: str
    version: str
    tools: list[str]
    versions: dict[str, str]
    output_tags: list[str]
    model_tier: str
    acts_elsewhere: bool
    registered_by: str
    registered_at: datetime
    fingerprint: str


class AgentRegistered(AgentVersion):
    lint: list[LintFinding]


class AgentFlag(Answer):
    flag: str
    since: datetime
    facts: dict[str, Any] = Field(description="The figures that raised it.")


def _list_flags(flags: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"flag": flag, "since": facts["since"], "facts": {k: v for k, v in facts.items() if k != "since"}}
        for flag, facts in sorted(flags.items())
    ]


class AgentSummary(Answer):
    agent_id: str
    version: str
    revoked: bool
    calls: int = Field(validation_alias="made", description="Over the last thirty days, like every figure here.")
    acceptance_rate: float | None
    phantom_share: float | None
    flags: Annotated[list[AgentFlag], BeforeValidator(_list_flags)]


class UndisclosedCall(Answer):
    tool: str
    session_id: UUID
    at: datetime


class CallShares(Answer):
    day: datetime
    calls: int = Field(validation_alias="made")
    acceptance_rate: float | None
    valid: float | None = Field(validation_alias="valid_share")
    valid_execution_failed: float | None = Field(validation_alias="failed_share")
    argument_hallucination: float | None = Field(validation_alias="argument_share")
    phantom_share: float | None


class Agent(AgentSummary):
    versions: list[AgentVersion]
    demonstrated_tools: list[str] = Field(description="Tools with a verified success that has not been contradicted.")
    over_time: list[CallShares] = Field(description="One entry per day with calls.")
    attempted_undisclosed: list[UndisclosedCall]
    untold_changes: int = Field(
        description="Of its newest 500 actions, the changes that no message followed which the guard has seen."
    )


class StoppedWork(Answer):
    actions: int = Field(description="Accepted actions that had not started; they have ended.")
    requests: int = Field(description="Requests for approval that were withdrawn.")
    grants: int = Field(description="Grants that were claimed and not used; they start nothing.")
    sessions: int = Field(description="Sessions that were open.")
    left: int = Field(
        description="Actions that have not started and are still to be ended, counted up to a hundred. Nothing starts"
        " them meanwhile."
    )


class RunningWork(Answer):
    action_id: UUID
    tool: str
    target: str
    state: str
    attempt: int
    executor_id: str
    started_at: datetime
    lease_expires_at: datetime
    reported: bool = Field(description="Whether its executor has reported, or its lease has ended.")


class UndoableChange(Answer):
    action_id: UUID
    run_id: str
    tool: str
    target: str
    undo_tool: str = Field(description="The tool by which the action's contract reverses it.")


class AgentStopped(Answer):
    agent_id: str
    revoked: bool = Field(description="Whether the agent is stopped now; an operator can register it again.")
    revoked_at: datetime
    reason: str
    stopped: StoppedWork
    running: list[RunningWork] = Field(
        description="Actions that had started: they are observed and verified as ever. The newest hundred."
    )
    undoable: list[UndoableChange] = Field(
        description="Verified changes of the agent that a tool of their contract reverses, among its newest hundred."
        " Rolling back their run reverses them."
    )
