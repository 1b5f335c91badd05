"""Claim receipts: how a claim stands, as a signed in-toto statement for somebody who has no access to this console.

It is the effect receipt's sibling, with a predicate type of its own: nobody knows who allowed a claim or what ran, so
it says neither, and names what it does not know. `docs/claim-receipt.schema.json` is the schema of the predicate.
"""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal
from uuid import UUID

from pydantic import Field

from console.actions.effect_schemas import (
    STATEMENT,
    Absent,
    ReceiptLogPlace,
    ReceiptSource,
    ReceiptStatement,
    Sha256,
    optional,
    receipt_config,
)
from console.actions.routes.effect_receipts import log_place, sign_statement
from console.actions.schemas import LogPlace
from console.claims.answers import NOT_KNOWN, claim_answer
from console.edge.schemas import Answer, Time
from ledger.log.queries import log
from ledger.record.queries import events
from ledger.record.rules.canonical import canonical
from ledger.record.rules.outcomes import Outcome
from reviews.claims import queries

if TYPE_CHECKING:
    from console.actions.schemas import EffectReceipt
    from reviews.models import UngatedClaim

PREDICATE: Final = "urn:counterfoil:claim-receipt:v1"


class ReceiptClaim(Answer):
    id: UUID
    tenant: str = Field(description="The origin of the tenant's log.")
    system: str
    effect: str
    operation: str | Absent = optional("Only where the claim named one.")
    target: str | Absent = optional("Only where the claim named one.")
    said_by: str
    made_at: Time


class ClaimShown(Answer):
    at: Time
    result: str
    discrepancy: str | None
    sources: list[ReceiptSource] = Field(description="The sources that answered.")


class ClaimEnd(Answer):
    model_config = receipt_config(
        {
            "if": {"properties": {"verified": {"const": True}}},
            "then": {"properties": {"outcome": {"const": "VERIFIED"}}},
            "else": {"properties": {"outcome": {"not": {"const": "VERIFIED"}}}},
        }
    )
    state: str
    outcome: Outcome
    verified: bool = Field(description="Whether a reading of the system of record shows it as claimed.")
    text: str = Field(description="The sentence that people read.")
    at: Time


class ClaimPredicate(Answer):
    """A claim as the record had it at `issued_at`: what was claimed, by whom, what was read, and how it stands."""

    claim: ReceiptClaim
    shown: list[ClaimShown] = Field(description="The reading by which it stands as it does; none before the first.")
    ended: ClaimEnd
    not_known: list[str] = Field(description="What no reading can say of an action that was not gated.")
    log: ReceiptLogPlace
    issued_at: Time


class ClaimSubject(Answer):
    name: str
    digest: dict[Literal["sha256"], Sha256] = Field(description="Of the claim as it was made, as canonical JSON.")


class ClaimStatement(ReceiptStatement):
    """An in-toto statement (v1) about one claim."""

    type: Literal["https://in-toto.io/Statement/v1"] = Field(serialization_alias="_type")
    subject: Annotated[list[ClaimSubject], Field(min_length=1, max_length=1)]
    predicate_type: Literal["urn:counterfoil:claim-receipt:v1"] = Field(serialization_alias="predicateType")
    predicate: ClaimPredicate


def claim_receipt(row: UngatedClaim, *, at: datetime) -> EffectReceipt:
    """The signed receipt of a claim, as it is on record now."""
    return sign_statement(claim_statement(row, at=at), at=at)


def claim_statement(row: UngatedClaim, *, at: datetime) -> ClaimStatement:
    """The present record of a claim as an in-toto statement."""
    told, event = claim_answer(row), events.history(row.tenant_id, row.id)[-1][0]
    place = log.event_position(row.tenant_id, row.id, event.seq)
    sealed = None if place is None else LogPlace(number=place.log, index=place.index, sealed=place.sealed)
    named = {name: getattr(row, name) for name in ("operation", "target") if getattr(row, name)}
    return ClaimStatement(
        type=STATEMENT,
        subject=[
            ClaimSubject(
                name=f"{row.effect} in {row.system}",
                digest={"sha256": sha256(canonical(queries.claim_document(row))).hexdigest()},
            )
        ],
        predicate_type=PREDICATE,
        predicate=ClaimPredicate(
            claim=ReceiptClaim(
                id=row.id,
                tenant=events.tenant_by_id(row.tenant_id).origin,
                system=row.system,
                effect=row.effect,
                said_by=row.said_by,
                made_at=row.made_at,
                **named,
            ),
            shown=_newest_reading(row),
            ended=ClaimEnd(
                state=row.state,
                outcome=told.outcome,
                verified=told.safe_to_claim,
                text=told.sentence,
                at=row.changed_at,
            ),
            not_known=list(NOT_KNOWN),
            log=log_place(row.tenant_id, bytes(event.entry_hash).hex(), sealed),
            issued_at=at,
        ),
    )


def _newest_reading(row: UngatedClaim) -> list[ClaimShown]:
    if row.read_at is None:
        return []
    sources = [
        ReceiptSource(
            source=each["source"],
            consistency=each["consistency"],
            freshness=each["freshness"],
            observed_at=each["observed_at"],
        )
        for each in queries.claim_findings(row).get("readings", ())
    ]
    return [ClaimShown(at=row.read_at, result=row.result, discrepancy=row.discrepancy or None, sources=sources)]


def claim_predicate_schema() -> dict[str, Any]:
    """The JSON Schema of the predicate, as it is published."""
    schema = ClaimPredicate.model_json_schema(by_alias=True, mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": PREDICATE, **schema}
