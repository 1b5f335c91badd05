"""What the API is sent and answers about actions."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from ninja import Schema
from pydantic import Field

from console.api.schemas import Answer, Body, Moment, Paged, SpeltTime, TextOrNull, Time
from console.web import labels
from ledger.record.rules.outcomes import Outcome, outcome_of
from reviews.tracing.rules.spans import SpanStatus, Stage


class ActionsWanted(Paged):
    state: str | None = None
    outcome: Annotated[Outcome | None, Field(description="How it stands, in the words that people read.")] = None
    tool: str | None = None
    agent: str | None = None
    session: UUID | None = None
    run: str | None = None
    side_effect_class: Annotated[str | None, Field(alias="class")] = None
    discrepancy: str | None = None
    since: Annotated[Moment | None, Field(alias="from")] = None
    until: Annotated[Moment | None, Field(alias="to")] = None
    target: str | None = None
    q: Annotated[str | None, Field(max_length=200)] = None


class ActionWanted(Schema):
    wait_s: Annotated[int, Field(ge=0, le=30, description="How long to wait for people to decide.")] = 0


class CancelBody(Body):
    reason: Annotated[str, Field(max_length=4000)] = ""


class Question(Answer):
    question_id: UUID
    action_id: UUID
    text: str = Field(description="A person's question; it is answered at `/actions/{id}/answers`.")
    at: Time


class Part(Answer):
    name: str
    outcome: str = Field(
        description="APPLIED, APPLIED_DIFFERENTLY, NOT_APPLIED, INCONSISTENT, UNFINISHED or NOT_KNOWN, by that reading."
    )
    text: str = Field(validation_alias="words")


class UserStatus(Answer):
    code: str
    text: str


class ActionRow(Answer):
    action_id: UUID = Field(validation_alias="id")
    state: str
    outcome: Outcome = Field(description="How it stands: one code for one of the words that people read.")
    tool: str
    tool_version: str
    agent: str
    session_id: UUID
    workflow_run_id: str = Field(validation_alias="run_id")
    side_effect_class: str
    target: str
    discrepancy: TextOrNull
    discrepancy_settled: bool = Field(description="Whether what was found wrong has been settled since.")
    contradicted: bool
    proposed_at: Time
    changed_at: Time

    @classmethod
    def of(cls, action: Any, /, **more: Any) -> Self:
        is_settled = bool(action.discrepancy) and labels.is_past_finding(action)
        return super().of(action, outcome=outcome_of(action), discrepancy_settled=is_settled, **more)


class Actor(Answer):
    kind: str
    id: UUID


class LogPlace(Answer):
    number: int | None
    index: int | None
    sealed: bool


class Axes(Answer):
    decision: str
    execution: str
    effect: str


class Evidence(Answer):
    pointer: UUID = Field(validation_alias="id")
    kind: str = Field(validation_alias="purpose")
    commitment: str
    sha256: str | None
    source: str
    observed_at: Time
    redacted: bool


class NextStep(Answer):
    code: str = Field(
        description="WAIT, READ_REPORT, STOP, PROPOSE_CHANGED, PROPOSE_OTHER, FOLLOW, ASK_WHOEVER_WANTS_IT."
    )
    text: str


class ApprovalVerdict(Answer):
    approval_id: UUID
    decision: str = Field(
        description="WAITING, APPROVED, REJECTED, CHANGES_REQUESTED, EXPIRED, VOIDED, SUPERSEDED, REFUSED_BY_PREFLIGHT"
        " or CANCELLED. APPROVED is permission, not success."
    )
    waiting: bool = Field(description="Nothing is decided yet; however long a caller waited, that is no denial.")
    reason: str | None = Field(description="Why, in the reviewer's words where the policy lets an agent read them.")
    next: NextStep
    superseded_by: UUID | None = Field(description="The action that stands in the place of this one.")
    more: dict[str, Any] = Field(description="What else the agent must know: conditions that failed, what was changed.")
    decide_by: SpeltTime
    release_by: SpeltTime | None


class RecordedCall(Answer):
    """The record of the tool call itself; without the arguments where they were erased."""

    tool: str
    arguments: dict[str, Any] | None
    status: str | None = Field(description="What the tool or its runtime answered; never the outcome.")
    success: bool | None = Field(
        description="Whether the answer claims that all was done; evidence, never the outcome."
    )
    result: dict[str, Any] | None
    error: dict[str, Any] | None = Field(description="Its message is for compliance only.")
    trace_id: str
    timestamp: Time
    idempotency_key: str | None = Field(description="SHA-256 of the key, in hex.")


class Settlement(Answer):
    resolution: str
    text: str
    at: Time
    by: UUID | None = Field(description="The person's pseudonym; not for agents.")
    confirmed_by: UUID | None
    reason: str | None


class Action(ActionRow):
    trust_level: int
    user_status: UserStatus
    parts: list[Part] = Field(description="Of an action that was found done in part: what was found of each part.")
    settlement: Settlement | None = Field(description="How a person ended the action, where one did.")
    axes: Axes
    approval: ApprovalVerdict | None = Field(description="What became of the request to people, if there was one.")
    questions: list[Question] = Field(description="What people ask the agent before they decide.")
    supersedes: UUID | None = Field(description="The action that this one stands in for.")
    pin_hash: str | None = Field(description="The hash of the goal that its session pinned.")
    entry_id: str = Field(default="", description="From here on: not for agents.")
    seq: int = 0
    event: str = ""
    actor: Actor | None = None
    at: Time | None = None
    recorded_at: Time | None = Field(default=None, description="By the clock of the database.")
    clocks_differ: bool = Field(default=False, description="The clock of whoever wrote it was over five seconds off.")
    entry: dict[str, Any] | None = None
    prev_hash: str | None = None
    entry_hash: str = ""
    log: LogPlace | None = None
    evidence: list[Evidence] = []
    call: RecordedCall | None = None


class Event(Answer):
    seq: int
    state: str
    event: str
    at: Time
    entry_id: str = Field(default="", description="From here on: not for agents.")
    actor: Actor | None = None
    recorded_at: Time | None = Field(default=None, description="By the clock of the database.")
    clocks_differ: bool = Field(default=False, description="The clock of whoever wrote it was over five seconds off.")
    entry: dict[str, Any] | None = None
    detail: dict[str, Any] | None = None
    prev_hash: str | None = None
    entry_hash: str = ""
    log: LogPlace | None = None


class Span(Answer):
    span_id: str
    parent_span_id: str | None
    stage: Stage
    name: str
    start: Time
    end: Time | None = Field(description="Null while it goes on.")
    status: SpanStatus = Field(description="`ok` only where a reading settled it.")
    seq: int = Field(description="The event that ended it, or the newest: `/actions/{action_id}/history` has it.")
    attributes: dict[str, str | int | bool]


class ActionTrace(Answer):
    trace_id: str
    parent_span_id: str | None = Field(description="The span that the proposal was made in, where one is known.")
    parent: Literal["agent", "recovery"] | None = Field(
        description="Whose span that is: the agent's own, its model inference; or the recovery that ordered the action."
    )
    replay_bundle_id: str | None
    action_id: UUID
    spans: list[Span]


class SourceRead(Answer):
    name: str = Field(description="The further source of the contract; empty for the primary one.")
    source: str
    consistency: str
    freshness: str
    observed_at: SpeltTime
    pointer: str
    indicators: list[str]


class SourceSilent(Answer):
    name: str
    reason: str


class EffectFound(Answer):
    name: str
    found: str
    count: int


class RequiredCheck(Answer):
    check: str
    made: Literal["CHECKED", "FAILED", "UNCHECKED", "NOT_APPLICABLE"]
    by: str


class PolicyApplied(Answer):
    version: str
    digest: str


class Run(Answer):
    number: int
    at: datetime
    result: str
    discrepancy: TextOrNull
    recovery_decision: TextOrNull
    decided_under: dict[str, PolicyApplied] = Field(
        description="By kind (verification, recovery), the version of the policy that made this decision."
    )
    reason: str
    pointer: UUID
    sources: list[SourceRead]
    silent: list[SourceSilent]
    effects: list[EffectFound]
    checks: list[RequiredCheck]


class ReplayWanted(Schema):
    verification_policy: Annotated[
        str, Field(max_length=64, description="A version to judge by; left out, that of each run's time.")
    ] = ""
    recovery_policy: Annotated[str, Field(max_length=64, description="As `verification_policy`.")] = ""


class JudgedStep(Answer):
    state: str
    kind: str
    reason: str


class JudgedRun(Answer):
    result: str
    discrepancy: str | None
    reason: str
    recovery_decision: TextOrNull
    held: bool = Field(description="A person must look before anything else happens.")
    state: str = Field(description="The state after the run.")
    steps: list[JudgedStep]


class ReplayedRun(Answer):
    number: int
    at: datetime
    pointer: UUID
    text: str = Field(description="What came out, in one sentence.")
    same: bool | None = Field(description="Null where the run cannot be judged again.")
    not_replayable: TextOrNull = Field(description="What is missing, where the run cannot be judged again.")
    under: dict[str, str] = Field(description="By kind, the version of the policy that judged it this time.")
    differs: list[str] = Field(description="The parts of verdict, decision and steps that are not the same.")
    recorded: JudgedRun | None
    replayed: JudgedRun | None


class ReplayedAction(Answer):
    action_id: UUID
    text: str
    same: bool = Field(description="Every run was judged again, and each came out as recorded.")
    runs: list[ReplayedRun]


class ReplayBundle(Answer):
    format: Literal["counterfoil-replay"]
    version: Literal[1]
    id: UUID
    runs: list[dict[str, Any]] = Field(description="Each run with its evidence and the entry that it began with.")
    documents: dict[str, Any] = Field(
        description="The contracts, policies and recovery rows that the runs name, under their SHA-256."
    )


class Report(Answer):
    code: str
    text: str
    completed: bool
    trust_level: int
    parts: list[Part] = Field(description="Of an action that was found done in part: what was found of each part.")
    as_of: Time = Field(description="When this was so; what is told later asks again.")
    entry_id: UUID | None


class DsseSignature(Answer):
    keyid: str = Field(description="The `kid` of the key in `/.well-known/jwks.json`.")
    sig: str


class EffectReceipt(Answer):
    payload: str = Field(description="The in-toto statement, canonical JSON in base64.")
    payload_type: Literal["application/vnd.in-toto+json"] = Field(serialization_alias="payloadType")
    signatures: list[DsseSignature]


class ActionState(Answer):
    action_id: UUID
    state: str


class Transition(Answer):
    from_: str = Field(serialization_alias="from")
    to: str
    grounds: list[str]


class StateMachine(Answer):
    states: list[str]
    transitions: list[Transition]
