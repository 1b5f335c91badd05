"""Request and response schemas of claims."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from pydantic import Field, StrictBool, StrictInt

from console.actions.schemas import EffectReceipt
from console.edge.schemas import Answer, Body, Moment, Name, Paged, TextOrNull, Time
from ledger.record.rules.outcomes import Outcome
from reviews.claims.rules.claims import SETTLE_S, ClaimRequest, ClaimState

Value = StrictBool | StrictInt | Annotated[str, Field(max_length=2000)]


class VerifyBody(Body):
    system: Annotated[Name, Field(description="The registered system of record that shows it.")]
    effect: Annotated[
        str,
        Field(pattern="^[a-z][a-z0-9_]{0,63}$", description="What is said to be there, in one word: `refund`."),
    ]
    operation: Annotated[
        str,
        Field(max_length=200, description="The operation: the system's own id of it, or the key it carries there."),
    ] = ""
    target: Annotated[str, Field(max_length=512, description="What it was done to, such as `charge/ch_17`.")] = ""
    expected: Annotated[
        dict[str, Value],
        Field(max_length=50, description="The fields that the system should show, and their values."),
    ] = {}
    said_by: Annotated[str, Field(min_length=1, max_length=200, description="Who says that it was done.")]
    statement: Annotated[str, Field(max_length=2000, description="Their words; kept as evidence.")] = ""
    done_at: Annotated[
        Moment | None,
        Field(description="The earliest time at which it was done; nothing from before counts.", strict=False),
    ] = None
    settle_s: Annotated[
        int, Field(ge=0, le=86_400, description="How long it may take until the system shows it; then it is absent.")
    ] = SETTLE_S
    lookup: Annotated[
        dict[str, Any] | None,
        Field(
            description="One effect of a lookup as in a contract, where `operation` and `target` do not lead there;"
            " its expressions see `sr` (what is expected) and `scope`. For operators."
        ),
    ] = None
    wait_s: Annotated[int, Field(ge=0, le=20, description="How long to wait for a reading that settles it.")] = 10

    def request(self) -> ClaimRequest:
        """The claim of this body."""
        return ClaimRequest(**self.model_dump(exclude={"wait_s"}))


class ClaimsWanted(Paged):
    state: ClaimState | None = None


class ComparedField(Answer):
    name: str
    expected: Any
    shown: Any = Field(description="Null where it was not shown.")
    matches: bool | None = Field(description="Null where it cannot be told.")


class ClaimReading(Answer):
    read_at: Time
    result: str
    discrepancy: TextOrNull
    reason: str
    source: TextOrNull
    consistency: TextOrNull
    freshness: TextOrNull
    fields: list[ComparedField]
    evidence: UUID = Field(description="The sealed evidence of this reading.")


class ClaimRow(Answer):
    claim_id: UUID = Field(validation_alias="id")
    system: str
    effect: str
    operation: TextOrNull
    target: TextOrNull
    said_by: str
    made_at: Time
    state: ClaimState
    outcome: Outcome
    safe_to_claim: bool
    changed_at: Time
    read_at: Time | None
    case_id: UUID | None


class Claim(ClaimRow):
    sentence: str = Field(description="Whether it is safe to claim, and why.")
    reading: ClaimReading | None = Field(description="The reading by which it stands so; null before the first.")
    not_known: list[str] = Field(description="What no reading can say of an action that was not gated.")
    receipt: EffectReceipt | None = Field(
        None, description="The signed receipt for outsiders; left out for agents, and before a reading."
    )
