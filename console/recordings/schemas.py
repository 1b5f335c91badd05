"""Response schemas of recordings, by the names of the report (report.schema.json in counterfoil_transcripts.reports).

Values and texts are those that the console kept (`console.recordings.operations.AuditedFile`), cut where it cut
them. What earlier imports did not keep is empty or null.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import Field

from console.edge.schemas import Answer, Moment, Paged
from console.recordings.queries import RecordingQuery

if TYPE_CHECKING:
    from console import models

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


Words = Annotated[str, Field(max_length=200, description="Words that must all occur in one conversation.")]
Failures = Annotated[bool | None, Field(description="With or without calls that the tool failed.")]
Blocked = Annotated[bool | None, Field(description="With or without unsupported claims.")]


class RecordingsWanted(Paged):
    since: Annotated[Moment | None, Field(alias="from", description="Imported at or after this time.")] = None
    until: Annotated[Moment | None, Field(alias="to")] = None
    file: Annotated[str, Field(max_length=300, description="Part of the file name.")] = ""
    failures: Failures = None
    blocked: Blocked = None
    q: Words = ""

    def filters(self) -> dict[str, Any]:
        sought = RecordingQuery(
            since=self.since,
            until=self.until,
            file=self.file,
            failures=self.failures,
            blocked=self.blocked,
            words=self.q,
        )
        return {"sought": sought}


class ConversationsWanted(Paged):
    kind: Annotated[Kind | None, Field(description="A finding about a call.")] = None
    code: Annotated[str, Field(max_length=64, description="Code of a refused call or of an unsupported claim.")] = ""
    findings: Annotated[bool | None, Field(description="With or without findings.")] = None
    failures: Failures = None
    blocked: Blocked = None
    q: Words = ""
    order: Annotated[Literal["gravest", "file"], Field(description="Most severe first, or as in the file.")] = "gravest"


class TurnsWanted(Paged):
    limit: Annotated[int, Field(ge=1, le=500, description="Number of messages.")] = 100


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
    tools: dict[str, AuditedTool] = Field(description="The most called tools, at most 200.")


class AuditedFault(Answer):
    file: str
    conversation: str
    path: str
    reason: str


class RecordingRow(Answer):
    recording_id: UUID = Field(validation_alias="id")
    file: str = Field(
        validation_alias="file_name", description="The file's name; empty where the recording was erased."
    )
    digest: str = Field(description="SHA-256 of the file's bytes; empty where the recording was erased.")
    size: int
    trust: Literal["answers", "reads"]
    version: int = Field(description="Version of the audit and its report.")
    contracts: str = Field(description="SHA-256 of the contracts used; empty if the recording's own tools were used.")
    imported_at: datetime = Field(validation_alias="at")
    named: str | None = Field(description="Name of the person who imported it.")
    erased: bool
    totals: AuditedTotals | None = Field(description="As in the report; null where the recording was erased.")

    @classmethod
    def of(cls, row: models.Recording, /, **more: Any) -> Self:
        """Build the answer; for an erased recording only numbers remain."""
        totals = {name: value for name, value in row.totals.items() if name != "tools"}
        named = str(row.named) if row.named else None
        return super().of(row, **{"named": named, "erased": not row.digest, "totals": totals or None} | more)


class RecordingRetention(Answer):
    payload_days: int = Field(validation_alias="days")
    kept_until: datetime = Field(
        validation_alias="until", description="When retention expires under the policy in force."
    )
    standing: bool = Field(description="Whether the policy erases it then; otherwise two people decide.")
    holds: list[UUID] = Field(description="The legal holds that keep it, regardless of retention.")
    erasure_requested: bool = Field(validation_alias="waiting")


class RecordingAnswer(RecordingRow):
    totals: AllAuditedTotals
    retention: RecordingRetention
    faults: list[AuditedFault] = Field(description="Parts of the file that could not be read, at most 100.")

    @classmethod
    def of(cls, row: models.Recording, /, **more: Any) -> Self:
        tools = {each["name"]: {name: each[name] for name in each if name != "name"} for each in row.totals["tools"]}
        return super().of(row, totals=row.totals | {"tools": tools}, faults=_faults(row, "", row.unread), **more)


class AuditedConversationRow(Answer):
    recording_id: UUID
    number: int = Field(description="Its position in the file, from 1.")
    id: str = Field(validation_alias="label", description="Its id in the file, or a name made from its position.")
    path: str
    format: str
    messages: int
    tools_known: bool
    severity: int
    kinds: list[Kind] = Field(description="Categories of its calls, and further findings.")
    codes: list[str] = Field(description="Codes of refused calls and of unsupported claims.")


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
    asked: str = Field(description="Text as it is, any other value as JSON.")
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
    arguments: str = Field(description="As sent by the agent, at most 4,000 characters.")
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
    span: list[int] = Field(description="Position of the claim in the whole message: from, to.")
    quote: str
    sentence: str
    kind: Literal["done", "ongoing", "promised", "failed"]
    verdict: Literal["ALLOW", "BLOCK"]
    code: str = Field(description="Empty if the claim is supported.")
    detail: str
    calls: list[int]
    basis: Basis
    rule: str


class AuditedCorrection(Answer):
    turn: int
    text: str


class AuditedContent(Answer):
    call: int | None = Field(description="The call that it answers; null if none.")
    tool: str
    content: str = Field(description="At most 4,000 characters.")


class AuditedTurn(Answer):
    turn: int = Field(validation_alias="number")
    role: str
    text: str = Field(description="At most 10,000 characters.")
    length: int = Field(description="Length of the whole text in the file.")
    answers: list[AuditedContent]


class AuditedConversation(AuditedConversationRow):
    file: str
    categories: Counts = Field(description="Calls of the whole conversation by category.")
    calls: list[AuditedCall] = Field(
        description="Calls of the messages in `turns`; claims and corrected texts likewise."
    )
    claims: list[AuditedClaim]
    corrected: list[AuditedCorrection]
    faults: list[AuditedFault]
    turns: list[AuditedTurn]
    next: str | None = Field(description="The cursor of the next messages; null if there are none.")

    @classmethod
    def of_messages(
        cls,
        one: models.RecordedConversation,
        recording: models.Recording,
        read: Sequence[models.RecordedMessage],
        **more: Any,
    ) -> Self:
        """A conversation with the messages that were read of it, and all that was found of them."""
        return cls.of(
            one,
            file=recording.file_name,
            calls=[_call(call, each.number) for each in read for call in each.calls],
            claims=[_claim(claim, each.number) for each in read for claim in each.claims],
            corrected=[AuditedCorrection(turn=each.number, text=each.corrected) for each in read if each.corrected],
            faults=_faults(recording, one.label, one.unread),
            turns=list(read),
            **more,
        )


def _call(call: Mapping[str, Any], turn: int) -> dict[str, Any]:
    because = [*call.get("because", []), *[""] * len(call["silent_over"])]
    return {
        **{name: call[name] for name in ("number", "tool", "arguments", "mutating", "category", "basis")},
        **{name: call[name] for name in ("differences", "seen_by", "contradicted", "repeats")},
        "turn": turn,
        "target": call.get("target", ""),
        "gate": {
            **{name: call[name] for name in ("accepted", "code", "message", "hint")},
            "suggestion": call.get("suggestion"),
            "errors": call.get("errors", []),
        },
        "answer": _answer(call),
        "state": call.get("state"),
        "predicates": [{"holds": "FALSE"} | each for each in call["predicates"]],
        "depends_on": call.get("depends_on", []),
        "silent_over": [
            {"call": number, "because": said} for number, said in zip(call["silent_over"], because, strict=False)
        ],
        "notes": call.get("notes", []),
    }


def _answer(call: Mapping[str, Any]) -> dict[str, Any] | None:
    if call["answered"] is None:
        return None
    return {
        "turn": call["answered"],
        "status": call["status"],
        "typed": call.get("typed", False),
        "reason": call["reason"],
    }


def _claim(claim: Mapping[str, Any], turn: int) -> dict[str, Any]:
    return {
        **claim,
        "turn": turn,
        "sentence": claim.get("sentence", claim["quote"]),
        "verdict": "BLOCK" if claim["code"] else "ALLOW",
    }


def _faults(row: models.Recording, conversation: str, unread: Iterable[Mapping[str, str]]) -> list[dict[str, str]]:
    return [{"file": row.file_name, "conversation": conversation, **each} for each in unread]
