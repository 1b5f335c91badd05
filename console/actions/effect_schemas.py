"""The in-toto statement of an effect receipt, member by member; its JSON Schema is made from these classes.

`docs/outcome-receipt.schema.json` is the schema of `EffectPredicate` as published. Any change of a name, a type or a
meaning is another predicate type.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal
from uuid import UUID

from pydantic import ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from approvals.voting.rules.binding import VoteChoice
from console.edge.schemas import Answer, SpeltTime, Time
from ledger.record.rules.outcomes import AS_REQUESTED, Outcome

STATEMENT: Final = "https://in-toto.io/Statement/v1"
PREDICATE: Final = "urn:counterfoil:effect-receipt:v1"
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


Absent = SkipJsonSchema[None]
"""A member that is left out where it has no value; it is never null."""


def receipt_config(schema: dict[str, Any]) -> ConfigDict:
    return ConfigDict(json_schema_extra={"additionalProperties": False, **schema})


def optional(description: str, **limits: Any) -> Any:
    return Field(default=None, description=description, json_schema_extra=_leave_default_out, **limits)


def _leave_default_out(schema: dict[str, Any]) -> None:
    del schema["default"]


class ReceiptAction(Answer):
    id: UUID
    tenant: str = Field(description="The origin of the tenant's log.")
    tool: str
    version: str = Field(description="The version of the tool's contract.")
    side_effect_class: str
    agent: str
    proposed_at: Time


class ReceiptVote(Answer):
    voter: UUID = Field(description="A pseudonym.")
    verdict: VoteChoice
    assurance: str = Field(
        pattern="^[A-D]$",
        description="How the voter proved who they are: passkey, one-time code, password, session alone.",
    )
    statement_sha256: Sha256 = Field(description="The statement that the vote is bound to.")
    at: Time


class ReceiptStandingApproval(Answer):
    id: UUID
    time_boxed: bool = Field(description="Given by one person for an hour at most.")
    by: list[UUID] = Field(description="Pseudonyms of those who gave it.")
    until: Time
    number: int = Field(description="Which pass of it this action is.")
    max_count: int = Field(serialization_alias="of", description="How many passes it allows.")


class Authorisation(Answer):
    model_config = receipt_config(
        {
            "if": {"properties": {"by": {"const": "policy"}}},
            "then": {"properties": {"votes": {"maxItems": 0}}},
            "else": {"required": ["decision"]},
            "dependentSchemas": {"standing_approval": {"properties": {"by": {"const": "standing_approval"}}}},
        }
    )
    by: Literal["policy", "people", "standing_approval"]
    standing_approval: ReceiptStandingApproval | Absent = optional("Only where that allowed it.")
    decision: str | Absent = optional("The state of the request; absent where policy alone decided.")
    votes: list[ReceiptVote]


class ReceiptStart(Answer):
    at: Time
    executor: UUID = Field(description="The pseudonym of the executor's key.")
    attempt: int | Absent = optional("Absent once the start's details are erased.")
    executor_id: str | Absent = optional("Absent once the start's details are erased.")


class ReceiptSource(Answer):
    source: str
    consistency: str
    freshness: str
    observed_at: SpeltTime | Absent = optional("Absent where the source gave no time.")


class ReceiptReading(Answer):
    at: Time
    result: str
    discrepancy: str | None
    sources: list[ReceiptSource] = Field(description="The sources that answered.")
    silent: list[str] = Field(description="The sources that did not.")
    independence: str | Absent = optional("How many of several sources are independent, in a sentence.")


class ReceiptEnd(Answer):
    model_config = receipt_config(
        {
            "if": {"properties": {"verified": {"const": True}}},
            "then": {"properties": {"outcome": {"enum": sorted(AS_REQUESTED)}}},
            "else": {"properties": {"outcome": {"not": {"enum": sorted(AS_REQUESTED)}}}},
        }
    )
    state: str
    outcome: Outcome
    verified: bool = Field(description="Whether a reading of the system of record settled it as requested.")
    contradicted: bool = Field(description="Whether a later reading contradicted the end.")
    trust_level: int = Field(ge=0, le=4)
    text: str = Field(description="The sentence that people read.")
    at: Time


class ReceiptLogPlace(Answer):
    """The newest event's place in the log; where it is not yet sealed, its hash alone."""

    model_config = receipt_config(
        {
            "dependentRequired": {
                name: sorted({"origin", "index", "size", "path", "checkpoint"} - {name})
                for name in ("origin", "index", "size", "path", "checkpoint")
            }
        }
    )
    entry_hash: Sha256 = Field(description="The hash of the newest event: a leaf of the log.")
    sealed: bool
    origin: str | Absent = optional("The name of the log.")
    index: int | Absent = optional("The place of that event, from 0.", ge=0)
    size: int | Absent = optional("The size of the log that the checkpoint signs.", ge=1)
    path: list[Sha256] | Absent = optional("The inclusion proof (RFC 6962), the leaf's sibling first.")
    checkpoint: str | Absent = optional("The signed checkpoint, a C2SP signed note.")


class EffectPredicate(Answer):
    """An action as the record had it at `issued_at`: who allowed it, what ran, what was read, how it ended."""

    action: ReceiptAction
    allowed: Authorisation
    ran: list[ReceiptStart] = Field(description="Each start, the first one first.")
    shown: list[ReceiptReading] = Field(description="Each verification run, the newest first.")
    ended: ReceiptEnd
    log: ReceiptLogPlace
    issued_at: Time


class ReceiptSubject(Answer):
    name: str
    digest: dict[Literal["sha256"], Sha256] = Field(description="Of the approved arguments, as canonical JSON.")


class ReceiptStatement(Answer):
    """An in-toto statement."""

    def document(self) -> dict[str, Any]:
        """The statement as JSON; members without a value are left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class EffectStatement(ReceiptStatement):
    """An in-toto statement (v1) about the approved arguments of one action."""

    type: Literal["https://in-toto.io/Statement/v1"] = Field(serialization_alias="_type")
    subject: Annotated[list[ReceiptSubject], Field(min_length=1, max_length=1)]
    predicate_type: Literal["urn:counterfoil:effect-receipt:v1"] = Field(serialization_alias="predicateType")
    predicate: EffectPredicate


def predicate_schema() -> dict[str, Any]:
    """The JSON Schema of the predicate, as it is published."""
    schema = EffectPredicate.model_json_schema(by_alias=True, mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": PREDICATE, **schema}
