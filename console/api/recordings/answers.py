"""What the API answers about recordings, by the names of the report (`console/transcripts/report.schema.json`)."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from console.api.answers import Answer

Counts = dict[str, int]
Kind = Literal[
    "valid",
    "valid_execution_failed",
    "argument_hallucination",
    "phantom",
    "gate_rejection",
    "value_mismatch",
    "predicate_false",
    "silent_step",
    "repeated_change",
]
Category = Literal["valid", "valid_execution_failed", "argument_hallucination", "phantom", "gate_rejection"]
Where = Literal["answer", "read"]
Basis = Literal["read", "answer", "nothing"]


class AuditedTotals(Answer):
    conversations: int
    with_findings: int
    messages: int
    spoken: int
    with_false_claims: int
    calls: int
    changes: int
    open_conversations: int
    faults: int
    phantom_share: float | None
    formats: Counts
    categories: Counts
    refusals: Counts
    answers: Counts
    claims: Counts
    false_claims: Counts
    basis: Counts
    taxonomy: Counts
    patterns: Counts
    further: Counts


class AuditedTool(Answer):
    calls: int
    refused: int
    failed: int
    mismatched: int
    false_claims: int


class AllAuditedTotals(AuditedTotals):
    tools: dict[str, AuditedTool] = Field(description="Those that were called most, at most 200.")


class AuditedFault(Answer):
    file: str
    conversation: str
    path: str
    reason: str


class RecordingRow(Answer):
    recording_id: str
    file: str = Field(description="The file's name; empty where the recording was erased.")
    digest: str = Field(description="SHA-256 of the file's bytes; empty where the recording was erased.")
    size: int
    trust: Literal["answers", "reads"]
    version: int = Field(description="Of the audit and its report.")
    contracts: str = Field(description="SHA-256 of the contracts that were given; empty: the recording's own tools.")
    imported_at: datetime
    named: str | None = Field(description="In whose name it was imported.")
    erased: bool
    totals: AuditedTotals | None = Field(description="As in the report; null where the recording was erased.")


class RecordingRetention(Answer):
    payload_days: int
    kept_until: datetime = Field(description="When its time runs out under the retention policy in force.")
    standing: bool = Field(description="Whether the policy then erases it; else two people decide.")
    holds: list[str] = Field(description="The legal holds that keep it, whatever its time.")
    erasure_requested: bool


class RecordingAnswer(RecordingRow):
    totals: AllAuditedTotals
    retention: RecordingRetention
    faults: list[AuditedFault] = Field(description="What of the file could not be read, at most 100 places.")


class AuditedConversationRow(Answer):
    recording_id: str
    number: int = Field(description="Its place in the file, from 1.")
    id: str = Field(description="Its id in the file, or a name made of its place.")
    path: str
    format: str
    messages: int
    tools_known: bool
    severity: int
    kinds: list[Kind] = Field(description="Categories of its calls, and what else was found of them.")
    codes: list[str] = Field(description="Codes of refused calls and of claims that nothing bears out.")


class AuditedGate(Answer):
    accepted: bool
    code: str
    message: str
    hint: str
    suggestion: str | None
    errors: list[dict[str, str]]


class AuditedAnswer(Answer):
    turn: int
    status: Literal["success", "failed", "partial", "pending", "accepted", "timeout", "malformed"]
    typed: bool
    reason: str


class AuditedDifference(Answer):
    field: str
    asked: str = Field(description="As text: a text itself, any other value as JSON.")
    shown: str
    where: Where


class AuditedPredicate(Answer):
    text: str
    holds: Literal["TRUE", "FALSE", "UNDECIDABLE", "NOT_APPLICABLE"]
    where: Where
    reason: str


class AuditedSilence(Answer):
    call: int
    because: str


class AuditedCall(Answer):
    number: int
    turn: int
    tool: str
    arguments: str = Field(description="As the agent sent them, at most 4,000 characters.")
    target: str
    mutating: bool
    category: Category
    gate: AuditedGate
    answer: AuditedAnswer | None
    state: str | None
    basis: Basis
    differences: list[AuditedDifference]
    predicates: list[AuditedPredicate]
    seen_by: list[int]
    contradicted: bool
    repeats: int | None
    depends_on: list[int]
    silent_over: list[AuditedSilence]
    notes: list[str]


class AuditedClaim(Answer):
    turn: int
    span: list[int] = Field(description="Where the claim stands in the whole message: from, to.")
    quote: str
    sentence: str
    kind: Literal["done", "ongoing", "promised", "failed"]
    verdict: Literal["ALLOW", "BLOCK"]
    code: str = Field(description="Empty where the claim stands.")
    detail: str
    calls: list[int]
    basis: Basis
    rule: str


class AuditedCorrection(Answer):
    turn: int
    text: str


class AuditedContent(Answer):
    call: int | None = Field(description="The call that it answers; null where it fits none.")
    tool: str
    content: str = Field(description="At most 4,000 characters.")


class AuditedTurn(Answer):
    turn: int
    role: str
    text: str = Field(description="At most 10,000 characters.")
    length: int = Field(description="Of the whole text in the file.")
    answers: list[AuditedContent]


class AuditedConversation(AuditedConversationRow):
    file: str
    categories: Counts = Field(description="Calls of the whole conversation by category.")
    calls: list[AuditedCall] = Field(description="Of the messages in `turns`, like claims and corrected texts.")
    claims: list[AuditedClaim]
    corrected: list[AuditedCorrection]
    faults: list[AuditedFault]
    turns: list[AuditedTurn]
    next: str | None = Field(description="The cursor of the next messages; null where these are the last.")
