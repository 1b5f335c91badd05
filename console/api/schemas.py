"""Request bodies. Types are strict and unknown fields refused, so that nothing a client says is silently dropped."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from ninja import Schema
from pydantic import AwareDatetime, ConfigDict, Field, model_validator

from approvals.gate.rules import agent_evidence
from ledger.record.rules.outcomes import Outcome

Name = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@-]*$")]
Text = Annotated[str, Field(min_length=1, max_length=8000)]
Reason = Annotated[str, Field(min_length=1, max_length=4000)]


# Ids begin with their time, so these are the times that a list can be cut at.
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
Moment = Annotated[AwareDatetime, Field(ge=EARLIEST)]


class Body(Schema):
    model_config = ConfigDict(extra="forbid", strict=True)


class Paged(Schema):
    limit: Annotated[int, Field(ge=1, le=500)] = 50
    cursor: str | None = None


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


class ApprovalsWanted(Paged):
    state: Literal["REQUESTED", "APPROVED", "REJECTED", "EXPIRED", "VOIDED", "CONSUMED"] = "REQUESTED"
    risk: Annotated[Literal["LOW", "NORMAL", "HIGH"] | None, Field(description="Of those that wait for a vote.")] = None
    tool: str | None = None
    agent: str | None = None
    group: Annotated[str | None, Field(description="Whose votes are asked.")] = None
    holder: Annotated[UUID | None, Field(description="Who was given it or has claimed it.")] = None
    sort: Literal["risk", "deadline", "oldest", "newest"] = "risk"

    @property
    def order(self) -> str:
        return "" if self.sort == "risk" else self.sort

    def filters(self) -> dict[str, Any]:
        """What is asked of those that wait."""
        return self.model_dump(include={"risk", "tool", "agent", "group", "holder"}, exclude_none=True)


class CasesWanted(Paged):
    resolved: bool = False


class OrdersWanted(Paged):
    tools: Annotated[
        list[str], Field(description="Names of tools, each in a `tools` of its own or with commas between.")
    ]

    def names(self) -> list[str]:
        return [name for given in self.tools for name in given.split(",") if name]


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
    registered_by: Annotated[str, Field(max_length=200)] | None = None
    owner: Annotated[str, Field(max_length=150, description="The member who answers for the agent.")] | None = None


class ReasonBody(Body):
    reason: Reason


class ActionWanted(Schema):
    wait_s: Annotated[int, Field(ge=0, le=30, description="How long to wait for people to decide.")] = 0


class CancelBody(Body):
    reason: Annotated[str, Field(max_length=4000)] = ""


class SystemBody(Body):
    name: Annotated[Name, Field(max_length=64)]
    pattern: Annotated[Name, Field(max_length=32)]
    settings: dict[str, Any] = {}


Secret = Annotated[
    str,
    Field(max_length=128, description="`whsec_` and 24 to 64 bytes in Base64; it is kept as a file and never shown."),
]


class HookBody(Body):
    secret: Secret


class HookSecretBody(Body):
    secret: Secret
    keep_old: Annotated[bool, Field(description="Whether the last secret stays good beside the new one.")] = True


class PolicyBody(Body):
    version: Annotated[str, Field(min_length=1, max_length=64)]
    document: dict[str, Any]


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


class GoalBody(Body):
    goal: Text


class WithheldToolBody(Body):
    tool: Annotated[str, Field(min_length=1, max_length=256)]
    fate: Annotated[Literal["changed", "unregistered"], Field(description="changed: it differs from its contract.")]
    why: Annotated[str, Field(max_length=500)] = ""


class SurfaceBody(Body):
    withheld: Annotated[
        list[WithheldToolBody],
        Field(max_length=200, description="All that is held back now; an empty list when nothing is any more."),
    ]


def _texts(most: int, description: str) -> dict[str, Any]:
    return {"type": "array", "maxItems": most, "items": {"type": "string"}, "description": description}


_CALL: dict[str, Any] = {
    "type": "object",
    "description": "One call. The gate reads it; a shape that is wrong is answered for this call alone.",
    "required": ["call_id", "tool", "arguments"],
    "properties": {
        "call_id": {"type": "string", "maxLength": 128, "description": "The same id and body get the first answer."},
        "tool": {"type": "string"},
        "arguments": {"description": "An object, or the text of one as a model wrote it."},
        "goal": {"type": "string", "description": "The pinned goal in the same words; or send `pin_hash`."},
        "pin_hash": {"type": "string"},
        "target_resource": {"type": "string", "description": "Refused unless the arguments name the same target."},
        "intended_outcome": {
            "type": "object",
            "properties": {
                "target_resource": {"type": "string"},
                "expected_predicates": _texts(100, "Predicates to check besides those of the contract."),
            },
        },
        "depends_on": _texts(100, "Actions that must have succeeded."),
        "acknowledges": _texts(100, "Failed actions that the agent knows of and goes on from."),
        "based_on": {
            "type": "array",
            "maxItems": 50,
            "description": "Reads that the call rests on; refused where one is stale.",
            "items": {
                "type": "object",
                "required": ["resource", "read_at"],
                "properties": {
                    "resource": {"type": "string"},
                    "read_at": {"type": "string", "format": "date-time"},
                    "version": {},
                },
            },
        },
        "evidence": {
            "type": "array",
            "maxItems": agent_evidence.MAX_ITEMS,
            "description": "What the agent says that its call rests on. Shown to the approver as the agent's unverified"
            " statement; it changes no check and is never executed.",
            "items": {
                "type": "object",
                "minProperties": 1,
                "additionalProperties": False,
                "properties": {
                    name: {"type": "string", "minLength": 1, "maxLength": most}
                    for name, most in agent_evidence.LONGEST.items()
                },
            },
        },
        "dry_run": {"type": "boolean", "description": "Judge and note it, and make no action."},
        "supersedes": {"type": "string", "description": "The ended action that this call stands in for."},
    },
}


class CallsBody(Body):
    calls: Annotated[list[Any], Field(min_length=1, max_length=100, json_schema_extra={"items": _CALL})]


class ExecutorBody(Body):
    executor_id: Name
    public_jwk: dict[str, Any]
    tools: Annotated[list[Name], Field(max_length=1000)]


class ClaimBody(Body):
    executor_id: Name
    tools: Annotated[list[Name], Field(max_length=1000)] | None = None
    limit: Annotated[int, Field(ge=1, le=50)] = 1
    wait_s: Annotated[int, Field(ge=0, le=30)] = 0
    proof: bool = False
    actions: Annotated[list[Annotated[UUID, Field(strict=False)]], Field(max_length=50)] | None = None


class StartBody(Body):
    grant: Annotated[str, Field(min_length=1, max_length=16_384)]
    executor_id: Name
    wrapper_version: Annotated[str, Field(min_length=1, max_length=64)]
    timeout_s: Annotated[int, Field(ge=1, le=86_400)]
    payload_hash: Annotated[str, Field(max_length=64)] | None = None


class HeartbeatBody(Body):
    executor_id: Name


class VoteBody(Body):
    verdict: Literal["approve", "reject", "request_changes", "break_glass"]
    payload_hash: str
    rendering_digest: str
    reason: Annotated[str, Field(max_length=4000)] = ""
    password: Annotated[str, Field(max_length=1000)] | None = None
    otp: Annotated[str, Field(max_length=16)] | None = None
    covers: Annotated[str, Field(max_length=64)] = Field("", description="The `covers_digest` that was read.")
    challenge_id: Annotated[UUID, Field(strict=False)] | None = Field(
        None, description="The challenge that `assertion` answers."
    )
    assertion: dict[str, Any] | None = Field(None, description="`PublicKeyCredential.toJSON()` of a passkey's answer.")


class ChallengeBody(Body):
    verdict: Literal["approve", "reject", "request_changes", "break_glass"]
    payload_hash: str
    rendering_digest: str
    covers: Annotated[str, Field(max_length=64)] = ""
    reason: Annotated[str, Field(max_length=4000)] = ""
    credential_id: Annotated[str, Field(max_length=2000)] = Field("", description="Of your keys, the one to sign with.")


class CommentBody(Body):
    text: Text


class SignatureBody(Body):
    covers: Annotated[str, Field(max_length=64)] = Field(
        "", description="The `covers_digest` that was read. Needed where `proof` asks for more than the session (D)."
    )
    password: Annotated[str, Field(max_length=1000)] | None = None
    otp: Annotated[str, Field(max_length=16)] | None = None
    challenge_id: Annotated[UUID, Field(strict=False)] | None = Field(
        None, description="The challenge that `assertion` answers."
    )
    assertion: dict[str, Any] | None = Field(None, description="`PublicKeyCredential.toJSON()` of a passkey's answer.")


ResolutionName = Literal[
    "VERIFY_AGAIN",
    "STRONG_READ",
    "ATTEST_PRESENT",
    "ATTEST_ABSENT",
    "COMPENSATE",
    "FORWARD_RECOVER",
    "ROLL_BACK",
    "FAIL",
    "ABANDON",
    "ACKNOWLEDGE",
]


class ResolveBody(SignatureBody):
    resolution: ResolutionName
    reason: Reason
    evidence: Annotated[list[Annotated[str, Field(max_length=4000)]], Field(min_length=1, max_length=50)]


class ConfirmBody(SignatureBody):
    accept: bool = True


class SettlementChallengeBody(Body):
    resolution: ResolutionName | None = Field(
        None, description="What is to be signed; null for the confirmation of what was proposed."
    )
    reason: Annotated[str, Field(max_length=4000)] = ""
    evidence: Annotated[list[Annotated[str, Field(max_length=4000)]], Field(max_length=50)] = []
    covers: Annotated[str, Field(max_length=64)] = ""
    credential_id: Annotated[str, Field(max_length=2000)] = Field("", description="Of your keys, the one to sign with.")


class AssignBody(Body):
    to: Annotated[UUID, Field(strict=False, description="The pseudonym of an operator, as `claimed_by` has it.")]


class SnoozeBody(Body):
    until: Annotated[AwareDatetime, Field(strict=False)]
    reason: Reason


class IncidentsWanted(Paged):
    state: Literal["OPEN", "CLOSED"] = "OPEN"
    tag: Annotated[str, Field(max_length=40, description="A part of the taxonomy of five.")] = ""


Ids = Annotated[list[Annotated[UUID, Field(strict=False)]], Field(max_length=100)]


class IncidentBody(Body):
    title: Annotated[str, Field(min_length=1, max_length=300)]
    kind: Literal["operations", "security"]
    severity: Annotated[int, Field(ge=1, le=4, description="1 is low, 4 is critical.")] = 2
    runbook: Annotated[str, Field(max_length=48)] = ""
    reason: Reason
    actions: Ids = []
    cases: Ids = []


class BatchBody(Body):
    kind: Literal["CLAIM", "ASSIGN", "SNOOZE", "VERIFY_AGAIN", "COMMENT", "FREEZE_TARGETS"]
    cases: Annotated[list[Annotated[UUID, Field(strict=False)]], Field(min_length=1, max_length=500)]
    to: Annotated[UUID, Field(strict=False)] | None = None
    until: Annotated[AwareDatetime, Field(strict=False)] | None = None
    reason: Annotated[str, Field(max_length=1000)] = ""
    text: Annotated[str, Field(max_length=4000)] = ""


class IncidentLinkBody(Body):
    actions: Ids = []
    cases: Ids = []


class StopDecision(Body):
    freeze_id: Annotated[UUID, Field(strict=False)]
    decision: Literal["lift", "keep"]


class CloseBody(Body):
    note: Reason
    freezes: Annotated[list[StopDecision], Field(max_length=100)] = []


class FreezeBody(Body):
    scope: Literal["agent", "tool", "target", "tenant", "all"]
    value: Annotated[str, Field(max_length=512)] = ""
    reason: Reason
    unknown_ok: Annotated[bool, Field(description="Freeze a target that no action and no case has named yet.")] = False


class EvidenceBody(Body):
    action_id: Annotated[UUID, Field(strict=False)]
    text: Annotated[str, Field(min_length=1, max_length=500_000)] | None = None
    file: Annotated[bytes, Field(min_length=1)] | None = None
    media_type: Annotated[str, Field(max_length=100, pattern=r"^[a-z]+/[a-z0-9.+-]+$")] = "text/plain"

    @model_validator(mode="after")
    def _holds_one(self) -> Self:
        if (self.text is None) == (self.file is None):
            raise ValueError("Evidence is either a text or a file.")
        return self


class SituationBody(Body):
    """The recovery table's inputs (R-RP-22); what is left out is the table's usual case."""

    triggers: Annotated[list[Annotated[str, Field(max_length=64)]], Field(min_length=1, max_length=20)]
    side_effect_class: Literal[
        "READ_ONLY",
        "EPHEMERAL_WRITE",
        "LOW_RISK_INTERNAL",
        "MEDIUM_RISK_WRITE",
        "HIGH_RISK_EXTERNAL",
        "CRITICAL_MUTATION",
    ]
    reversibility: Literal["REVERSIBLE", "COMPENSABLE", "IRREVERSIBLE"]
    transaction_boundary: Literal[
        "LOCAL_TRANSACTION", "COMPENSABLE_PRE_PIVOT", "PIVOT_COMMITTED", "UNKNOWN_BOUNDARY"
    ] = "UNKNOWN_BOUNDARY"
    read_consistency: Literal["PRIMARY", "STRONG", "REPLICA", "CACHE", "STALE_ENDPOINT", "UNDECLARED"] | None = None
    idempotency_status: (
        Literal["PENDING", "COMPLETED", "FAILED_RETRYABLE", "FAILED_FINAL", "COMPENSATED", "EXPIRED"] | None
    ) = None
    execution_phase: Literal["NOT_EXECUTED", "EXECUTED", "PENDING"] = "PENDING"
    effect_domain: Literal["FINANCIAL", "SECURITY", "EXTERNAL_COMMUNICATION", "OTHER"] = "OTHER"
    within_consistency_window: bool = False
    within_sla: bool = True
    pivot_committed: bool = False
    mutating: bool = True
    externally_visible: bool = False
    equivalent_and_allowed: bool = False
    no_op_success_allowed: bool = False
    retry_safe: bool = False
    effect_committed: bool = False
    compensation_available: bool = False


class PasswordBody(Body):
    password: Annotated[str, Field(max_length=1000)] | None = None


class ErasuresWanted(Paged):
    state: Literal["REQUESTED", "CONFIRMED", "DONE", "REFUSED", "WITHDRAWN"] | None = None


class ErasureBody(Body):
    actions: Annotated[list[Annotated[UUID, Field(strict=False)]], Field(min_length=1, max_length=500)]
    legal_basis: Annotated[str, Field(min_length=1, max_length=300)]
    reason: Annotated[Reason, Field(description="Why; in words that name nobody, because it stays on record.")]


class HoldsWanted(Paged):
    lifted: bool = False


class HoldBody(Body):
    scope: Literal["action", "target", "agent", "recording", "all"]
    value: Annotated[str, Field(max_length=512)] = ""
    reason: Reason

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if (self.scope == "all") != (self.value == ""):
            raise ValueError("a hold on everything has no value, and every other hold has one")
        return self


class RetentionBody(Body):
    payload_days: Annotated[int, Field(ge=1, le=36_500)] = 395
    envelope_days: Annotated[int, Field(ge=1, le=36_500)] = 2557
    floor_days: Annotated[int, Field(ge=0, le=36_500)] = 0
    standing: Annotated[
        bool, Field(description="Whether what has run out is erased without two people asking each time.")
    ] = False


# Ledger and exports

Index = Annotated[int, Field(ge=0, le=2**53 - 1)]


class InclusionWanted(Schema):
    index: Index
    size: Annotated[int | None, Field(ge=1, le=2**53 - 1)] = None


class ConsistencyWanted(Schema):
    since: Annotated[int, Field(alias="from", ge=0, le=2**53 - 1)]
    upto: Annotated[int | None, Field(alias="to", ge=0, le=2**53 - 1)] = None


class EventsWanted(Schema):
    since: Annotated[int, Field(alias="from", ge=0, le=2**53 - 1)] = 0
    upto: Annotated[int | None, Field(alias="to", ge=0, le=2**53 - 1)] = None
    action: UUID | None = None
    limit: Annotated[int, Field(ge=1, le=500)] = 50


class ExportBody(Body):
    """`from` and `to` are indexes of the log or times; `since` is the size of a checkpoint that you kept."""

    start: Annotated[
        Index | Annotated[str, Field(max_length=40)] | None, Field(alias="from", description="An index, or a time.")
    ] = None
    end: Annotated[
        Index | Annotated[str, Field(max_length=40)] | None, Field(alias="to", description="An index, or a time.")
    ] = None
    filters: dict[Annotated[str, Field(max_length=40)], Annotated[str, Field(min_length=1, max_length=512)]] = {}
    format: Literal["jsonl", "csv", "parquet"] = "jsonl"
    payloads: bool = True
    since: Annotated[int | None, Field(ge=1, le=2**53 - 1)] = None
    log: Annotated[int | None, Field(ge=1, le=1_000_000)] = None

    def wanted(self) -> dict[str, Any]:
        return self.model_dump(by_alias=True)
