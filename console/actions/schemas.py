"""Request and response schemas of actions."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self
from uuid import UUID

from django import forms
from ninja import Schema
from pydantic import Field

from console.edge.schemas import Answer, Ask, Body, Moment, Paged, SpeltTime, TextOrNull, Time
from console.web import labels
from ledger.record.rules.outcomes import Outcome, outcome_of
from reviews.tracing.rules.spans import SpanStatus, Stage

if TYPE_CHECKING:
    from ledger import models


class ActionsWanted(Paged):
    state: str | None = None
    outcome: Annotated[Outcome | None, Field(description="The outcome, as shown on pages.")] = None
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
    wait_s: Annotated[int, Field(ge=0, le=30, description="Seconds to wait for a decision.")] = 0


class CancelBody(Body):
    reason: Annotated[str, Field(max_length=4000), Ask(field=forms.CharField(max_length=4000))] = ""


class Question(Answer):
    question_id: UUID
    action_id: UUID
    text: str = Field(description="A person's question; answer it at `/actions/{id}/answers`.")
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
    outcome: Outcome = Field(description="The outcome: one code for each of the words shown on pages.")
    tool: str
    tool_version: str
    agent: str
    session_id: UUID
    workflow_run_id: str = Field(validation_alias="run_id")
    side_effect_class: str
    target: str
    discrepancy: TextOrNull
    discrepancy_settled: bool = Field(description="Whether the discrepancy has been settled since.")
    accepted: TextOrNull = Field(
        None, description="What is there instead of the request, where a person accepted that."
    )
    contradicted: bool
    proposed_at: Time
    changed_at: Time

    @classmethod
    def of(cls, action: models.Action, /, **more: Any) -> Self:
        is_settled = bool(action.discrepancy) and labels.is_past_finding(action)
        known = {"outcome": outcome_of(action), "discrepancy_settled": is_settled, "accepted": None}
        return super().of(action, **known | more)


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
    waiting: bool = Field(description="No decision yet. This is not a denial, however long the caller waited.")
    reason: str | None = Field(
        description="The reason; in the reviewer's words where the policy lets an agent read them."
    )
    next: NextStep
    superseded_by: UUID | None = Field(description="The action that replaces this one.")
    more: dict[str, Any] = Field(
        description="Further details for the agent: conditions that failed, fields that changed."
    )
    decide_by: SpeltTime
    release_by: SpeltTime | None


class RecordedCall(Answer):
    """The record of the tool call itself; without the arguments where they were erased."""

    tool: str
    arguments: dict[str, Any] | None
    status: str | None = Field(description="What the tool or its runtime answered; never the outcome.")
    success: bool | None = Field(description="Whether the answer claims completion; evidence, never the outcome.")
    result: dict[str, Any] | None
    error: dict[str, Any] | None = Field(description="Its message is shown to compliance only.")
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


class WayOutControl(Answer):
    control: Literal[
        "DECIDE", "CANCEL", "REPORT", "VERIFY", "FOLLOW_RECOVERY", "OPEN_CASE", "SETTLE_CASE", "REOPEN_CASE"
    ]
    method: str
    path: str = Field(description="Below `/api/v1`.")


class WayOut(Answer):
    owner: Literal["REVIEWERS", "EXECUTORS", "CONSOLE", "OPERATORS"]
    text: str
    controls: list[WayOutControl] = Field(description="What leads out of this state; an agent sees its own.")


class RefusedRepeat(Answer):
    ends: Literal["AT_TIME", "WHEN_VERIFIED", "WHEN_SETTLED"]
    until: Time | None = Field(description="Only where time ends it.")
    text: str


class Action(ActionRow):
    trust_level: int
    user_status: UserStatus
    parts: list[Part] = Field(description="For a partially applied action: what was found for each part.")
    settlement: Settlement | None = Field(description="How a person settled the action, if one did.")
    axes: Axes
    approval: ApprovalVerdict | None = Field(description="The result of the approval request, if there was one.")
    questions: list[Question] = Field(description="Questions to the agent from people who are deciding.")
    way_out: WayOut | None = Field(description="Who has to act next; null where it has ended and nothing is open.")
    repeat_refused: RefusedRepeat | None = Field(
        description="Until when a repeat of the same operation is refused because of this action; null where it is not."
    )
    workspace_dirty_by: UUID | None = Field(
        description="Of a local write (EPHEMERAL_WRITE): the action that left its target in doubt; null if none did."
    )
    supersedes: UUID | None = Field(description="The action that this one replaces.")
    pin_hash: str | None = Field(description="The hash of the session's pinned goal.")
    entry_id: str = Field(default="", description="This and the following fields are not shown to agents.")
    seq: int = 0
    event: str = ""
    actor: Actor | None = None
    at: Time | None = None
    recorded_at: Time | None = Field(default=None, description="Database time.")
    clocks_differ: bool = Field(default=False, description="The writer's clock was more than five seconds off.")
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
    entry_id: str = Field(default="", description="This and the following fields are not shown to agents.")
    actor: Actor | None = None
    recorded_at: Time | None = Field(default=None, description="Database time.")
    clocks_differ: bool = Field(default=False, description="The writer's clock was more than five seconds off.")
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
    end: Time | None = Field(description="Null while in progress.")
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


class LentLookup(Answer):
    version: str
    digest: str


class Run(Answer):
    number: int
    at: datetime
    result: str
    discrepancy: TextOrNull
    recovery_decision: TextOrNull
    decided_under: dict[str, PolicyApplied] = Field(
        description="The policy version that made this decision, by kind (verification, recovery)."
    )
    reason: str
    pointer: UUID
    sources: list[SourceRead]
    independent_sources: int | None = Field(
        description="How many of the sources that were read are independent of each other; two names of one source"
        " count once. Null where at most one was read, or nothing was kept of where they came from."
    )
    independence: str = Field(description="The same in a sentence, with the reason.")
    silent: list[SourceSilent]
    effects: list[EffectFound]
    checks: list[RequiredCheck]
    lookup: LentLookup | None = Field(
        description="The later version of the contract whose lookup was used; null where the action's own was."
    )


class ReplayWanted(Schema):
    verification_policy: Annotated[
        str, Field(max_length=64, description="The version to judge by. Default: the version each run was judged by.")
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
    held: bool = Field(description="A person must review it before anything else happens.")
    state: str = Field(description="The state after the run.")
    steps: list[JudgedStep]


class ReplayedRun(Answer):
    number: int
    at: datetime
    pointer: UUID
    text: str = Field(description="The result in one sentence.")
    same: bool | None = Field(description="Null where the run cannot be replayed.")
    not_replayable: TextOrNull = Field(description="What is missing, where the run cannot be replayed.")
    under: dict[str, str] = Field(description="The policy version used for the replay, by kind.")
    differs: list[str] = Field(description="The parts of verdict, decision and steps that differ.")
    recorded: JudgedRun | None
    replayed: JudgedRun | None


class ReplayedAction(Answer):
    action_id: UUID
    text: str
    same: bool = Field(description="True if every run was replayed with the recorded result.")
    runs: list[ReplayedRun]


class ReplayBundle(Answer):
    format: Literal["counterfoil-replay"]
    version: Literal[1]
    id: UUID
    runs: list[dict[str, Any]] = Field(description="Each run with its evidence and the entry it started from.")
    documents: dict[str, Any] = Field(
        description="The contracts, policies and recovery rows that the runs name, under their SHA-256."
    )


class Report(Answer):
    state: str = Field(description="The state that this report is about.")
    code: str
    text: str
    outcome: Outcome = Field(description="The outcome: one code for each of the words shown on pages.")
    completed: bool = Field(description="Whether a reading of the system of record settled that it was done.")
    trust_level: int
    parts: list[Part] = Field(description="For a partially applied action: what was found for each part.")
    as_of: Time = Field(description="Time of this report; ask again before reporting later.")
    entry_id: UUID | None


class DsseSignature(Answer):
    keyid: str = Field(description="The `kid` of the key in `/.well-known/jwks.json`.")
    sig: str


class EffectReceipt(Answer):
    payload: str = Field(
        description="The in-toto statement, canonical JSON in base64. docs/outcome-receipt.md has its JSON Schema.",
        json_schema_extra={"contentEncoding": "base64", "contentMediaType": "application/vnd.in-toto+json"},
    )
    payload_type: Literal["application/vnd.in-toto+json"] = Field(serialization_alias="payloadType")
    signatures: list[DsseSignature]


class ReceiptSignature(Answer):
    alg: Literal["EdDSA"]
    kid: str = Field(description="The key's in `/.well-known/acta-keys.json`, and the payload's `issuer_id`.")
    sig: str = Field(description="Ed25519 over the payload's RFC 8785 bytes, in lower-case hex.")


class SignedReceipt(Answer):
    payload: dict[str, Any] = Field(description="The signed payload.")
    signature: ReceiptSignature


class SignedReceipts(Answer):
    receipts: list[SignedReceipt] = Field(
        description="The decision (`protectmcp:decision`); once there was a start, the effect (`counterfoil:effect`)."
    )


class ActionState(Answer):
    action_id: UUID
    state: str


class OpenedCase(Answer):
    case_id: UUID
    action_id: UUID
    state: str


class Transition(Answer):
    from_: str = Field(serialization_alias="from")
    to: str
    grounds: list[str]


class StateMachine(Answer):
    states: list[str]
    transitions: list[Transition]
