"""Request and response schemas of sessions: contract, calls, context, summary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self
from uuid import UUID

from ninja import Schema
from pydantic import AwareDatetime, ConfigDict, Field, SkipValidation, StrictBool

from approvals.gate.rules import agent_evidence, proposals, stale_reads
from approvals.sessions.operations.sessions import describe_contract
from console.actions.schemas import Part, Question, UserStatus
from console.edge.schemas import Answer, Body, HasHappened, Name, SpeltTime, Text, TextOrNull, Time
from console.execution.schemas import StartedAtOnce

if TYPE_CHECKING:
    from approvals import models
    from approvals.agents.operations.withheld_tools import WithheldReport
    from reviews.reporting.rules.context import ReportedAction


class SessionBody(Body):
    agent_id: Name
    goal: Text
    ttl_seconds: int
    tools: Annotated[list[str], Field(max_length=1000)] | None = None
    output_tags: Annotated[list[str], Field(max_length=200)] = []
    intent: Annotated[str, Field(max_length=2000)] = ""
    max_registry_age_s: Annotated[int, Field(ge=0, le=315_360_000)] | None = None
    # It is part of addresses.
    workflow_run_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9._:~-]{1,128}$")] | None = None
    iteration_limit: Annotated[int, Field(ge=1, le=10_000)] | None = None
    on_failure: Literal["stop", "compensate"] = "stop"
    on_behalf_of: Annotated[str, Field(max_length=150, description="The member for whom the agent acts.")] | None = None
    continues: Annotated[UUID, Field(strict=False)] | None = Field(
        None,
        description="An earlier session of this key and agent: this one is in its run, and a `call_id` that left an "
        "action there is that action here, too. The earlier one takes no more calls.",
    )


class GoalBody(Body):
    goal: Text


class WithheldToolBody(Body):
    tool: Annotated[str, Field(min_length=1, max_length=256)]
    fate: Annotated[Literal["changed", "unregistered"], Field(description="changed: it differs from its contract.")]
    why: Annotated[str, Field(max_length=500)] = ""


Tokens = Annotated[int, Field(ge=0, le=2**53 - 1)]


class ModelUsageBody(Body):
    model: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@/+-]*$")]
    calls: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    input_tokens: Tokens | None = Field(None, description="Of all these calls; omitted is not stated, not zero.")
    output_tokens: Tokens | None = Field(None, description="Of all these calls; omitted is not stated, not zero.")
    reference: Annotated[str, Field(max_length=128)] = Field("", description="Your or the provider's name of them.")


class ModelUsage(Answer):
    """A report of calls of a model, as it is on record; nothing checks it."""

    report_id: UUID = Field(validation_alias="id")
    session_id: UUID
    agent_id: str
    model: str
    calls: int
    input_tokens: int | None
    output_tokens: int | None
    reference: TextOrNull
    at: Time


class SurfaceBody(Body):
    withheld: Annotated[
        list[WithheldToolBody],
        Field(max_length=200, description="All tools withheld now; an empty list if none."),
    ]


Texts = Annotated[list[str], Field(max_length=proposals.MAX_NAMED)]


class NamedRead(Schema):
    resource: Annotated[str, Field(min_length=1, max_length=stale_reads.MAX_TEXT)]
    read_at: Annotated[AwareDatetime, Field(json_schema_extra={"maxLength": 40})]
    version: Annotated[str, Field(max_length=stale_reads.MAX_TEXT)] | int | None = None


class IntendedOutcome(Schema):
    target_resource: str | None = None
    expected_predicates: Texts | None = Field(None, description="Predicates to check in addition to the contract's.")


class EvidenceGiven(Body):
    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    statement: Annotated[str, Field(min_length=1, max_length=agent_evidence.LONGEST["statement"])] = ""
    link: Annotated[str, Field(min_length=1, max_length=agent_evidence.LONGEST["link"])] = ""
    id: Annotated[str, Field(min_length=1, max_length=agent_evidence.LONGEST["id"])] = ""


class CallBody(Schema):
    """One call. The gate reads it; a shape that is wrong is answered for this call alone."""

    call_id: Annotated[
        str,
        Field(
            max_length=proposals.MAX_CALL_ID,
            description="A repeat with the same id and body gets the first answer; without an id, it is another call.",
        ),
    ] = ""
    tool: str
    arguments: dict[str, Any] | str = Field(description="An object, or its JSON text as written by a model.")
    goal: str | None = Field(None, description="The pinned goal in the same words; or send `pin_hash`.")
    pin_hash: str | None = None
    target_resource: str | None = Field(None, description="Refused unless the arguments name the same target.")
    intended_outcome: IntendedOutcome | None = None
    depends_on: Texts | None = Field(None, description="Actions that must have succeeded.")
    acknowledges: Texts | None = Field(
        None, description="Failed actions that the agent acknowledges and continues after."
    )
    based_on: Annotated[list[NamedRead], Field(max_length=stale_reads.MAX_READS)] | None = Field(
        None, description="Reads that the call is based on; refused if one is stale."
    )
    evidence: Annotated[list[EvidenceGiven], Field(max_length=agent_evidence.MAX_ITEMS)] | None = Field(
        None,
        description="What the agent says its call is based on. Shown to the approver as the agent's unverified"
        " statement; it changes no check and is never executed.",
    )
    dry_run: StrictBool | None = Field(False, description="Check and log the call without creating an action.")
    supersedes: str | None = Field(None, description="The ended action that this call replaces.")


class ExecutorAtHand(Body):
    """Start the call at once where nothing holds it back, as this executor.

    The executor's key comes in `Executor-Authorization`, its proof of possession in `Executor-DPoP`, with `ath`
    over that key.
    """

    executor_id: Name
    wrapper_version: Annotated[str, Field(min_length=1, max_length=64)]
    timeout_s: Annotated[int, Field(ge=1, le=86_400)]


class CallsBody(Body):
    # The gate reads each call itself (`read_call`), so that one that is malformed disturbs no other: `CallBody` is what
    # the document says of it, and a test holds the two together.
    calls: Annotated[list[SkipValidation[CallBody]], Field(min_length=1, max_length=100)]
    start: ExecutorAtHand | None = Field(
        None, description="For one call at a time: an attempt's time runs from its start."
    )


class DisclosedTool(Answer):
    name: str
    version: str
    wrapper_version: str
    side_effect_class: str
    description: str
    arguments_schema: dict[str, Any]


class Withheld(Answer):
    count: int
    why: str = Field(description="Empty where every tool was disclosed.")


class SessionContract(Answer):
    sub_tools_disclosed: list[str]
    output_tags: list[str] = Field(description="The negotiated tags; an output with another one is refused.")
    withheld: Withheld = Field(description="The tools left out by the limit.")
    registry_version: str
    registry_fingerprint: str
    tools: list[DisclosedTool]


class Pin(Answer):
    hash: str = Field(validation_alias="pin_hash")
    expires_at: Time = Field(validation_alias="pin_expires_at")


class Session(Answer):
    session_id: UUID = Field(validation_alias="id")
    agent_id: str
    workflow_run_id: str = Field(validation_alias="run_id")
    contract: SessionContract
    pin: Pin

    @classmethod
    def of(cls, session: models.Session, /, **more: Any) -> Self:
        return super().of(session, contract=describe_contract(session), pin=session, **more)


class AttemptedTool(Answer):
    tool: str
    call_id: str
    at: Time


class SpentBudget(Answer):
    per: Literal["agent", "session"]
    budget: str
    unit: str = Field(description="calls, readings, or a currency in its smallest unit.")
    window_from: Time
    used: int


class WithheldToolSeen(Answer):
    tool: str
    fate: Literal["changed", "unregistered"]
    why: str


class Surface(Answer):
    withheld: list[WithheldToolSeen]
    at: Time | None = Field(description="Time of the report; null if no gateway ever reported any.")

    @classmethod
    def of(cls, found: WithheldReport | None, /, **more: Any) -> Self:
        if found is None:
            return cls(withheld=[], at=None)
        return super().of(found, withheld=[each.document() for each in found.withheld])


class SessionState(Session):
    calls_accepted: int
    calls_refused: int
    acceptance_rate: float | None
    attempted_undisclosed: int
    phantom_share: float | None
    closed: Annotated[bool, HasHappened] = Field(validation_alias="closed_at")
    flags: list[Literal["PROBING"]] = Field(description="PROBING: it called many tools that were not disclosed to it.")
    attempted_tools: list[AttemptedTool] = Field(description="Tools that exist and were not disclosed to it.")
    budgets: list[SpentBudget] = Field(description="Budgets used by this session and its agent.")
    questions: list[Question] = Field(description="Questions to the agent from people who are deciding.")
    surface: Surface = Field(description="The server's tools that a gateway withholds.")


class AskCheck(Answer):
    match: bool
    reason: TextOrNull


class Error(Answer):
    code: str
    message: str


class ToolResult(Answer):
    tool: str
    status: Literal["pending", "failed"]
    evidence: None
    error: Error | None
    timestamp: SpeltTime
    side_effects: list[Any]


class ApprovalNeed(Answer):
    required: bool
    approval_id: UUID | None
    expires_at: SpeltTime | None
    reasons: list[str] = Field(
        [],
        description="Why people would be asked, or which rule refuses, by the policy's own names; in a dry run only.",
    )


class CallResult(Answer):
    call_id: str
    accepted: bool
    action_id: UUID | None
    state: str | None
    result: ToolResult
    hint: str | None
    suggestion: str | None
    errors: list[dict[str, Any]]
    layer: str | None
    coerced: list[dict[str, str]]
    approval: ApprovalNeed | None
    user_status: UserStatus
    started: StartedAtOnce | None = Field(
        None, description="If `start` was requested: the attempt, or null if the call cannot start yet."
    )


class Closed(Answer):
    session_id: UUID
    closed: bool


class Next(Answer):
    code: str = Field(validation_alias="move")
    text: str
    tools: list[str] = Field(validation_alias="next_tools")


class Behaviour(Answer):
    code: str
    text: str


class Fact(Answer):
    action_id: UUID
    tool: str
    target: str
    state: str
    result: str
    code: str
    statement: str
    trust_level: int
    as_of: Time
    fresh_until: Time | None = Field(description="Until when a plan may build on it, if it is settled.")
    trace_id: str
    discrepancy: TextOrNull
    parts: list[Part]
    version: TextOrNull
    task_state: str = Field(description="What a task's own state is to hold of it, by its result.")
    next_behaviour: Behaviour

    @classmethod
    def of(cls, item: ReportedAction, /, **more: Any) -> Self:
        return super().of(
            item,
            code=item.report.code,
            fresh_until=item.fresh_until if item.is_settled else None,
            trust_level=item.report.trust_level,
            parts=list(item.report.parts),
            task_state=item.rule.task_state,
            next_behaviour=Behaviour(code=item.rule.next, text=item.rule.planning),
            **more,
        )


class Tool(Answer):
    name: str
    version: str
    description: str
    mutating: bool


class More(Answer):
    facts: int
    aged: int
    unresolved: int
    unseen: int


class Context(Answer):
    session_id: UUID
    as_of: Time
    text: str
    facts: list[Fact]
    aged: list[Fact] = Field(description="Settled, and read too long ago to build on: being read again where `WAIT`.")
    unresolved: list[Fact]
    more: More
    manifest: list[Tool]
    stops: list[str]
    refused: dict[str, int]
    next: Next


class Summary(Answer):
    lines: list[str]
    text: str
    complete: bool
    forced: bool


class CallResults(Answer):
    results: list[CallResult]
    nudge: str
    next: Next
    summary: Summary | None
