"""What the API answers, as its OpenAPI document says it. Views write their answers; tests hold the two together."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

from ninja import Schema
from pydantic import ConfigDict, Field

from ledger.record.rules.outcomes import Outcome

T = TypeVar("T")


class Answer(Schema):
    model_config = ConfigDict(extra="forbid")


class Page(Answer, Generic[T]):
    items: list[T]
    next: str | None = Field(description="The cursor of the next page; null on the last.")


# Registry and contracts


class LintFinding(Answer):
    code: str
    path: str
    detail: str


class Weakening(Answer):
    code: str
    path: str
    detail: str


class ContractVersion(Answer):
    name: str
    version: str
    digest: str
    lint: list[LintFinding]
    state: str = Field(description="REGISTERED: in force. PENDING: weaker, waits for a second person. DECLINED.")
    compared_with: str | None = Field(description="The version that was in force when it was sent.")
    weakens: list[Weakening] = Field(description="In what it is weaker than that one.")


class Contract(ContractVersion):
    document: dict[str, Any]


class PolicyVersion(Answer):
    kind: str
    version: str
    digest: str


class PolicyInForce(Answer):
    version: str
    digest: str
    document: dict[str, Any]


class SystemHealth(Answer):
    circuit: str
    since: datetime | None
    probe_at: datetime | None
    failures: int
    reads: int
    unanswered: int
    latency_ms: int | None
    last_read_at: datetime | None
    last_success_at: datetime | None
    last_failure: str | None
    waiting: int
    due: int
    oldest_at: datetime | None
    limits: dict[str, int]
    not_releasing: str | None
    stopped_because: str | None


class SystemChange(Answer):
    pattern: str
    settings: dict[str, Any]


class System(Answer):
    name: str
    pattern: str
    settings: dict[str, Any]
    waits: SystemChange | None = Field(description="A change that waits for a second person.")


class SystemSeen(System):
    system_id: str
    health: SystemHealth


class Hook(Answer):
    hook_id: str
    path: str
    created_at: datetime
    revoked_at: datetime | None
    secrets: int
    last_taken_at: datetime | None


class HookRevoked(Answer):
    hook_id: str
    revoked: bool


class Releasing(Answer):
    name: str
    stopped: bool


class Taken(Answer):
    taken: bool


# Sessions and calls


class Question(Answer):
    question_id: str
    action_id: str
    text: str = Field(description="A person's question; it is answered at `/actions/{id}/answers`.")
    at: datetime


class DisclosedTool(Answer):
    name: str
    version: str
    wrapper_version: str
    description: str
    arguments_schema: dict[str, Any]


class Withheld(Answer):
    count: int
    why: str = Field(description="Empty where every tool was disclosed.")


class SessionContract(Answer):
    sub_tools_disclosed: list[str]
    withheld: Withheld = Field(description="The tools that the cap left out.")
    registry_version: str
    registry_fingerprint: str
    tools: list[DisclosedTool]


class Pin(Answer):
    hash: str
    expires_at: datetime


class Session(Answer):
    session_id: str
    agent_id: str
    workflow_run_id: str
    contract: SessionContract
    pin: Pin


class AttemptedTool(Answer):
    tool: str
    call_id: str
    at: datetime


class SpentBudget(Answer):
    per: Literal["agent", "session"]
    budget: str
    unit: str = Field(description="calls, readings, or a currency in its smallest unit.")
    window_from: datetime
    used: int


class WithheldToolSeen(Answer):
    tool: str
    fate: Literal["changed", "unregistered"]
    why: str


class Surface(Answer):
    withheld: list[WithheldToolSeen]
    at: datetime | None = Field(description="Since when it is so; null where no gateway ever reported any.")


class SessionState(Session):
    calls_accepted: int
    calls_refused: int
    acceptance_rate: float | None
    attempted_undisclosed: int
    phantom_share: float | None
    closed: bool
    flags: list[Literal["PROBING"]] = Field(description="PROBING: it called many tools that it was never given.")
    attempted_tools: list[AttemptedTool] = Field(description="Tools that exist and were not disclosed to it.")
    budgets: list[SpentBudget] = Field(description="What was used of the budgets of this session and of its agent.")
    questions: list[Question] = Field(description="What people ask the agent before they decide.")
    surface: Surface = Field(description="What a gateway holds back of the server's tools.")


class AskCheck(Answer):
    match: bool
    reason: str | None


class Error(Answer):
    code: str
    message: str


class ToolResult(Answer):
    tool: str
    status: Literal["pending", "failed"]
    evidence: None
    error: Error | None
    timestamp: datetime
    side_effects: list[Any]


class ApprovalNeed(Answer):
    required: bool
    approval_id: str | None
    expires_at: datetime | None


class Part(Answer):
    name: str
    outcome: str = Field(
        description="APPLIED, APPLIED_DIFFERENTLY, NOT_APPLIED, INCONSISTENT, UNFINISHED or NOT_KNOWN, by that reading."
    )
    text: str


class UserStatus(Answer):
    code: str
    text: str


class CallResult(Answer):
    call_id: str
    accepted: bool
    action_id: str | None
    state: str | None
    result: ToolResult
    hint: str | None
    suggestion: str | None
    errors: list[dict[str, Any]]
    layer: str | None
    coerced: list[dict[str, str]]
    approval: ApprovalNeed | None
    user_status: UserStatus


class Closed(Answer):
    session_id: str
    closed: bool


# Actions


class ActionRow(Answer):
    action_id: str
    state: str
    outcome: Outcome = Field(description="How it stands: one code for one of the words that people read.")
    tool: str
    tool_version: str
    agent: str
    session_id: str
    workflow_run_id: str
    side_effect_class: str
    target: str
    discrepancy: str | None
    discrepancy_settled: bool = Field(description="Whether what was found wrong has been settled since.")
    contradicted: bool
    proposed_at: datetime
    changed_at: datetime


class Actor(Answer):
    kind: str
    id: str


class LogPlace(Answer):
    number: int | None
    index: int | None
    sealed: bool


class Axes(Answer):
    decision: str
    execution: str
    effect: str


class Evidence(Answer):
    pointer: str
    kind: str
    commitment: str
    sha256: str | None
    source: str
    observed_at: datetime
    redacted: bool


class NextStep(Answer):
    code: str = Field(
        description="WAIT, READ_REPORT, STOP, PROPOSE_CHANGED, PROPOSE_OTHER, FOLLOW, ASK_WHOEVER_WANTS_IT."
    )
    text: str


class ApprovalVerdict(Answer):
    approval_id: str
    decision: str = Field(
        description="WAITING, APPROVED, REJECTED, CHANGES_REQUESTED, EXPIRED, VOIDED, SUPERSEDED, REFUSED_BY_PREFLIGHT"
        " or CANCELLED. APPROVED is permission, not success."
    )
    waiting: bool = Field(description="Nothing is decided yet; however long a caller waited, that is no denial.")
    reason: str | None = Field(description="Why, in the reviewer's words where the policy lets an agent read them.")
    next: NextStep
    superseded_by: str | None = Field(description="The action that stands in the place of this one.")
    more: dict[str, Any] = Field(description="What else the agent must know: conditions that failed, what was changed.")
    decide_by: datetime
    release_by: datetime | None


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
    timestamp: datetime
    idempotency_key: str | None = Field(description="SHA-256 of the key, in hex.")


class Settlement(Answer):
    resolution: str
    text: str
    at: datetime
    by: str | None = Field(description="The person's pseudonym; not for agents.")
    confirmed_by: str | None
    reason: str | None


class Action(ActionRow):
    trust_level: int
    user_status: UserStatus
    parts: list[Part] = Field(description="Of an action that was found done in part: what was found of each part.")
    settlement: Settlement | None = Field(description="How a person ended the action, where one did.")
    axes: Axes
    approval: ApprovalVerdict | None = Field(description="What became of the request to people, if there was one.")
    questions: list[Question] = Field(description="What people ask the agent before they decide.")
    supersedes: str | None = Field(description="The action that this one stands in for.")
    pin_hash: str | None = Field(description="The hash of the goal that its session pinned.")
    entry_id: str = Field("", description="From here on: not for agents.")
    seq: int = 0
    event: str = ""
    actor: Actor | None = None
    at: datetime | None = None
    recorded_at: datetime | None = Field(None, description="By the clock of the database.")
    clocks_differ: bool = Field(False, description="The clock of whoever wrote it was over five seconds off.")
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
    at: datetime
    entry_id: str = Field("", description="From here on: not for agents.")
    actor: Actor | None = None
    recorded_at: datetime | None = Field(None, description="By the clock of the database.")
    clocks_differ: bool = Field(False, description="The clock of whoever wrote it was over five seconds off.")
    entry: dict[str, Any] | None = None
    detail: dict[str, Any] | None = None
    prev_hash: str | None = None
    entry_hash: str = ""
    log: LogPlace | None = None


class SourceRead(Answer):
    name: str = Field(description="The further source of the contract; empty for the primary one.")
    source: str
    consistency: str
    freshness: str
    observed_at: datetime
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
    discrepancy: str | None
    recovery_decision: str | None
    decided_under: dict[str, PolicyApplied] = Field(
        description="By kind (verification, recovery), the version of the policy that made this decision."
    )
    reason: str
    pointer: str
    sources: list[SourceRead]
    silent: list[SourceSilent]
    effects: list[EffectFound]
    checks: list[RequiredCheck]


class Report(Answer):
    code: str
    text: str
    completed: bool
    trust_level: int
    parts: list[Part] = Field(description="Of an action that was found done in part: what was found of each part.")
    as_of: datetime = Field(description="When this was so; what is told later asks again.")
    entry_id: str | None


class ActionState(Answer):
    action_id: str
    state: str


class Transition(Answer):
    from_: str = Field(alias="from")
    to: str
    grounds: list[str]


class StateMachine(Answer):
    states: list[str]
    transitions: list[Transition]


# Executions


class Executor(Answer):
    executor_id: str
    thumbprint: str
    tools: list[str]


class ReadyOrder(Answer):
    action_id: str
    tool: str
    version: str
    ready: bool
    waiting_for: list[str]


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


class Order(Answer):
    action_id: str
    tool: str
    version: str
    grant: str
    grant_expires_at: datetime
    proof: ProofOfVotes | None = None


class Orders(Answer):
    orders: list[Order]


class Trace(Answer):
    trace_id: str


class Started(Answer):
    action_id: str
    attempt: int
    payload: dict[str, Any]
    payload_hash: str
    idempotency_key: str | None
    lease_expires_at: datetime
    trace: Trace


class Lease(Answer):
    lease_expires_at: datetime


class Observed(Answer):
    state: str


# People's work


class ApprovalPolicy(Answer):
    version: str
    rules: str
    step_up: str


class ApprovalRow(Answer):
    approval_id: str
    action_id: str
    state: str
    payload_hash: str
    rendering_digest: str
    policy: ApprovalPolicy
    requested_at: datetime
    decide_by: datetime
    release_by: datetime | None
    risk: str = Field(description="LOW, NORMAL or HIGH.")
    claimed_by: str | None
    claimed_until: datetime | None = Field(description="A claim is over by itself, and keeps nobody from voting.")
    assigned_to: str | None
    escalated_at: datetime | None
    stopped_at: datetime | None = Field(description="Since when its deadlines stand still; null while they run.")


class PayloadField(Answer):
    path: str
    label: str
    kind: str
    display: str
    warnings: list[str]


class VoteCast(Answer):
    voter: str
    verdict: str
    class_: str = Field(alias="class", description="A passkey, B one-time code, C password, D the session alone.")
    groups: list[str]
    delegated_by: str | None
    credential_id: str | None
    statement_hash: str
    confirmation_code: str
    at: datetime


class SigningKey(Answer):
    credential_id: str
    name: str


class SignatureWanted(Answer):
    """The argument of `navigator.credentials.get()` in WebAuthn's JSON."""

    challenge: str
    rpId: str
    allowCredentials: list[dict[str, str]]
    userVerification: str
    timeout: int


class Challenge(Answer):
    challenge_id: str
    statement: str = Field(description="The canonical statement that the passkey signs by its hash.")
    statement_hash: str
    confirmation_code: str
    expires_at: datetime
    publicKey: SignatureWanted


class Contradiction(Answer):
    code: str = Field(description="AMOUNT, CURRENCY, NAME or EXPECTATION.")
    where: str
    said: str = Field(description="What the agent said, made visible.")
    sent: str = Field(description="What the payload says.")
    text: str


class BaselineField(Answer):
    field: str
    value: Any


class Baseline(Answer):
    known: bool = Field(description="False where the system did not answer in time; that raises the risk.")
    digest: str | None
    pointer: str | None
    source: str | None
    read_at: datetime | None
    fields: list[BaselineField]
    preflight: list[dict[str, Any]]
    touches: int | None = Field(description="How many things the action touches, where the contract says so.")
    raises: list[str]


class Difference(Answer):
    field: str
    then: str | None
    now: str | None
    material: bool


class Drift(Answer):
    compared_at: datetime
    material: bool
    differences: list[Difference]
    untold: list[str]


class Threshold(Answer):
    group: str
    count: int
    votes: int
    deny: int
    against: int


class MayVote(Answer):
    actor: str
    groups: list[str]
    for_: str | None = Field(alias="for", description="Whose power the vote would use, where it is not their own.")
    away: bool


class Barred(Answer):
    actor: str
    as_: str = Field(alias="as", description="requester, agent_owner, delegator, editor or policy_author.")


class Quorum(Answer):
    state: str = Field(description="open, approved or rejected, by the votes that count now.")
    thresholds: list[Threshold]
    step_up: str
    independence: list[str]
    hours: list[dict[str, Any]]
    may_vote: list[MayVote]
    barred: list[Barred]
    fallen: list[str] = Field(description="Votes that were given and do not count any more.")
    stranded: bool = Field(description="Whether not enough people are left who may approve it.")


class DroppedExpectation(Answer):
    text: str = Field(description="The predicate that the agent had added.")
    fields: list[str] = Field(description="The edited fields that it names.")
    why: str


class EditOfRequest(Answer):
    editor: str = Field(description="The pseudonym of who edited it.")
    reason: str
    text: str = Field(description="Who edited what and why, in one sentence.")
    expectations_dropped: list[DroppedExpectation]


class EvidenceItem(Answer):
    statement: str | None = None
    link: str | None = None
    id: str | None = None


class Approval(ApprovalRow):
    covers: dict[str, Any] = Field(description="What a vote signs, apart from the vote itself.")
    covers_digest: str
    payload: Any
    fields: list[PayloadField]
    votes: list[VoteCast]
    votes_differ: str = Field(
        description="What of the votes is not as their events in the record say; empty if nothing."
    )
    may_vote: bool = Field(description="Whether your vote would be taken now; `why_not` says why not.")
    why_not: str
    quorum: Quorum = Field(description="What it takes, what is there, and who may still vote.")
    keys: list[SigningKey] = Field(description="Your own passkeys that may sign a vote here.")
    agent_evidence: list[EvidenceItem] = Field(
        description="What the agent says that its call rests on: its own statement, unverified. Links are not followed."
    )
    edit: EditOfRequest | None = Field(description="The edit that made this request; null where nobody edited it.")
    contradictions: list[Contradiction] = Field(description="Where the agent's own words contradict the payload.")
    baseline: Baseline | None = Field(description="The target as people were asked on it; null where none is read.")
    drift: Drift | None = Field(description="What changed since, by the newest reading; null where none was taken.")


class VoteTaken(Answer):
    vote_id: str
    verdict: str
    class_: str = Field(alias="class")
    statement_hash: str
    confirmation_code: str


class CaseRow(Answer):
    case_id: str
    action_id: str | None = Field(description="Null for an effect that nobody gated.")
    state: str
    reason: str
    discrepancy: str | None
    side_effect_class: str
    claimed_by: str | None
    proposed_resolution: str | None
    resolution: str | None
    snoozed_until: datetime | None
    opened_at: datetime


class CaseSleep(Answer):
    case_id: str
    snoozed_until: datetime | None


class BatchItem(Answer):
    case_id: str
    state: str
    code: str | None
    detail: str | None


class Batch(Answer):
    batch_id: str
    kind: str
    state: str
    total: int
    done: int
    refused: int
    left: int
    started_at: datetime
    ended_at: datetime | None
    items: list[BatchItem]


class Allowed(Answer):
    resolution: str
    needs_second: bool
    proof: str = Field(description="The weakest class of proof that is enough: A, B, C, or D for the session alone.")
    meaning: str = Field(description="What whoever settles it so says, as the statement has it.")
    consequence: str = Field(description="What follows from it.")


class Proposal(Answer):
    resolution: str
    reason: str
    evidence: list[str]
    proposed_by: str | None
    proof: str = Field(description="The weakest class of proof that is enough to confirm it.")
    meaning: str
    consequence: str
    may_confirm: bool = Field(description="Whether you may confirm it; `why_not` says why not.")
    why_not: str


class Comment(Answer):
    author: str
    text: str
    at: datetime


class Case(CaseRow):
    allowed: list[Allowed]
    proposal: Proposal | None = Field(description="What waits for a second person.")
    covers: dict[str, Any] = Field(description="What a settlement covers: the case as it stands now.")
    covers_digest: str = Field(description="Send it back as `covers` with a settlement.")
    keys: list[dict[str, str]] = Field(description="Your passkeys that may sign.")
    findings: dict[str, Any] | None
    comments: list[Comment]


class CaseOwner(Answer):
    case_id: str
    claimed_by: str | None


class CommentTaken(Answer):
    comment_id: str


class CaseState(Answer):
    case_id: str
    state: str


class Pointer(Answer):
    pointer: str


class FreezePlaced(Answer):
    freeze_id: str
    scope: str
    value: str


class OpenWork(Answer):
    incidents: list[str]
    cases: list[str]


class Freeze(FreezePlaced):
    reason: str
    still_open: OpenWork


class IncidentRow(Answer):
    incident_id: str
    kind: str
    severity: int
    title: str
    about: str | None
    runbook: str | None
    tag: str | None = Field(description="The part of the taxonomy of five that its runbook names.")
    state: str
    closing_note: str | None
    opened_at: datetime
    closed_at: datetime | None


class IncidentFreeze(Freeze):
    in_force: bool


class IncidentEvent(Answer):
    event: str
    at: datetime
    actor: str


class Incident(IncidentRow):
    actions: list[str]
    cases: list[str]
    freezes: list[IncidentFreeze]
    timeline: list[IncidentEvent]
    comments: list[Comment]


class IncidentState(Answer):
    incident_id: str
    state: str


class Lifted(Answer):
    freeze_id: str
    lifted: bool
    still_open: OpenWork


# Runs and recovery


class RecoveryStep(Answer):
    action_id: str
    relation: str
    tool: str
    state: str


class SilentStep(Answer):
    over: str
    because: str


class RunStep(Answer):
    action_id: str
    tool: str
    target: str
    state: str
    outcome: Outcome
    region: str
    reversed: bool
    depends_on: list[str]
    acknowledges: list[str]
    recovery: list[RecoveryStep]
    silences: list[SilentStep]


class Unwinding(Answer):
    state: str
    reason: str
    since: datetime


class Workflow(Answer):
    run_id: str
    complete: bool
    unwinding: Unwinding | None
    steps: list[RunStep]


class RecoveryDecision(Answer):
    row: str
    action: str
    finding: str
    condition: str | None
    state_paths: list[list[str]]
    effects: list[str]
    table_digest: str
    held_for_a_person: bool


# Ledger and exports


class Inclusion(Answer):
    origin: str
    index: int
    size: int
    leaf_hash: str
    hashes: list[str] = Field(description="The audit path, the leaf's sibling first, in hex (RFC 6962).")


class Growth(Answer):
    origin: str
    since: int = Field(alias="from")
    upto: int = Field(alias="to")
    hashes: list[str] = Field(description="The consistency proof, in hex (RFC 6962).")


class LedgerEvent(Answer):
    index: int
    leaf_hash: str
    envelope: str = Field(description="The canonical bytes that are hashed, as text.")


class LedgerEvents(Answer):
    items: list[LedgerEvent]
    next: int | None = Field(description="The index to go on from; null at the end.")


class Export(Answer):
    export_id: str
    state: Literal["REQUESTED", "FINISHED", "FAILED"]
    requested_at: datetime
    wanted: dict[str, Any]
    log: int | None
    start: int | None = Field(description="The first index of the range, once it is known.")
    end: int | None = Field(description="The index behind the last one.")
    done: int = Field(description="How many entries are written.")
    total: int
    withheld: int
    size: int | None
    sha256: str | None
    reason: str | None = Field(description="Why it came to nothing.")
    finished_at: datetime | None
    expires_at: datetime | None = Field(description="When the bundle is removed.")


# Operations


class Alive(Answer):
    status: str


class Missing(Answer):
    code: str
    detail: str


class Ready(Answer):
    ready: bool
    reasons: list[Missing]


class Jwks(Answer):
    keys: list[dict[str, Any]]


class Erasure(Answer):
    erasure_id: str
    state: str
    legal_basis: str
    reason: str
    subjects: int
    erased: int
    retention_id: str | None
    requested_by: str
    requested_at: datetime
    confirmed_by: str | None
    confirmed_at: datetime | None
    begun_at: datetime | None
    ended_at: datetime | None


class ErasedThing(Answer):
    id: str
    kind: str
    erased: bool


class ErasureDetail(Erasure):
    named: list[ErasedThing]


class WhatStays(Answer):
    kind: str
    id: str
    reason: str


class ErasureAsked(Erasure):
    stays: list[WhatStays]


class Hold(Answer):
    hold_id: str
    scope: str
    value: str
    reason: str
    placed_by: str
    placed_at: datetime
    lifted_at: datetime | None


class HoldLifted(Answer):
    hold_id: str
    lifted: bool


class Retention(Answer):
    retention_id: str
    state: str
    payload_days: int
    envelope_days: int
    floor_days: int
    standing: bool
    proposed_by: str
    proposed_at: datetime
    confirmed_by: str | None
    confirmed_at: datetime | None
