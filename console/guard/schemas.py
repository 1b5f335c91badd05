"""Request and response schemas of the guard."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field

from console.edge.schemas import Answer, Body, Page, Paged, Time

LANGUAGE = r"^[A-Za-z]{2,3}(-[A-Za-z]{2,4})?$"


class StatedClaim(Body):
    tool: Annotated[str, Field(min_length=1, max_length=128)]
    statement: Annotated[str, Field(min_length=1, max_length=8000)]
    action_id: Annotated[str, Field(max_length=64)] | None = None
    target: Annotated[str, Field(max_length=512)] | None = None
    span: Annotated[
        tuple[int, int] | None, Field(description="Which part of the message the claim covers: from, to.")
    ] = None


class GuardBody(Body):
    message: Annotated[str, Field(max_length=1024 * 1024)]
    claims: Annotated[
        list[StatedClaim],
        Field(
            max_length=200,
            description="What the message claims of which action. What a claim covers is judged by that action alone:"
            " it is cleared or replaced. In the text itself {{action:call-7}} and {{call-7.amount}} do the same.",
        ),
    ] = []
    output_tags: Annotated[
        list[Annotated[str, Field(max_length=128)]],
        Field(max_length=200, description="The tags of this output; each must be negotiated for the session."),
    ] = []
    language: Annotated[
        str,
        Field(
            pattern=LANGUAGE,
            description="Of the message, for the verbs by which a report is recognised (English; in another language"
            " nothing is concluded from them), and of the receipt, where the contract has a template in it.",
        ),
    ] = "en"


class VerdictsWanted(Paged):
    language: Annotated[str, Field(pattern=LANGUAGE, description="Of the receipt.")] = "en"
    code: Annotated[str, Field(max_length=40)] = ""
    tag: Annotated[str, Field(max_length=40, description="A part of the taxonomy of five.")] = ""


class FieldDifference(Answer):
    name: str
    asked: str
    shown: str = Field(description="Empty where nothing shows it.")


class ReceiptFact(Answer):
    name: str
    value: str
    detail: str = Field(description="What was read of an id, or the value before; empty where there is none.")
    shown: bool = Field(description="Whether the answer shows it; otherwise it was asked for.")


class ReceiptNote(Answer):
    rule: Literal["value", "method", "deed", "promise", "failure"]
    text: str
    span: list[int] = Field(min_length=2, max_length=2, description="Position in the message: from, to.")
    action_id: str | None


class ReceiptLine(Answer):
    action_id: str
    tool: str
    target: str
    outcome: str = Field(description="The outcome of the action, as a code.")
    word: str = Field(description="The outcome in words.")
    text: str = Field(description="The whole line, as shown to a user.")
    differences: list[FieldDifference]
    code: str = Field(description="The confirmation code; empty where there is none.")
    facts: list[ReceiptFact] = Field(
        description="What was asked and what the answer shows anew, at most twelve; empty where a template tells it."
    )
    more_facts: int = Field(description="Number of facts omitted.")


class ToolCounts(Answer):
    tool: str
    calls: int
    targets: int
    failed: int
    repaired: int = Field(description="Failed ones that a later attempt on the same target completed.")
    verified: int = Field(description="Changes that a reading settled as requested.")
    answered: int = Field(description="Reads that were answered; they change nothing.")
    text: str


class Receipt(Answer):
    lines: list[ReceiptLine] = Field(
        description="The changes; for a message, those since the agent's previous message."
    )
    open: list[ReceiptLine] = Field(description="Older actions that are still open.")
    counts: list[ToolCounts] = Field(description="After a run of ten calls and more, and with a long message.")
    never_called: list[str] = Field(description="With the counts of a long message: the tools that were never called.")
    notes: list[ReceiptNote] = Field(
        description="What the message says and the record does not bear out; the message stays as it is."
    )
    more: int = Field(description="Number of lines omitted.")
    language: str
    text: str = Field(description="The whole receipt as plain text; empty if nothing changed.")
    markdown: str
    html: str


class GuardViolation(Answer):
    code: str
    span: list[int] = Field(min_length=2, max_length=2, description="Position of the claim in the message: from, to.")
    claim: str
    action_id: str | None
    detail: str
    rule: str = Field(
        description="What contradicts it: citation, stated, field, saying, value, direction, phantom, all, uncited."
    )
    tag: str = Field(description="The part of the taxonomy of five.")


class GuardAnswer(Answer):
    verdict: Literal["ALLOW", "BLOCK"]
    violations: list[GuardViolation]
    corrected: str | None = Field(description="The message to send instead; null if the original can be sent.")
    receipt: Receipt = Field(description="To be appended to the message.")


class GuardVerdict(Answer):
    verdict_id: UUID = Field(validation_alias="id")
    verdict: Literal["ALLOW", "BLOCK"]
    codes: list[str]
    tags: list[str]
    claims: list[dict[str, Any]]
    records: list[dict[str, Any]]
    message_hash: str = Field(description="SHA-256 of the message; empty where the session was erased.")
    at: Time


class GuardLog(Page[GuardVerdict]):
    receipt: Receipt | None = Field(description="All changes of the session; for its own agent only.")
