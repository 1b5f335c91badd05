"""The write about a claim that its page and the API share."""

from __future__ import annotations

from typing import Final

from console.claims import schemas
from console.claims.answers import claim_answer
from console.verbs.verb import Verb
from reviews.claims import operations

READ_AGAIN: Final = Verb(
    name="read_again",
    path="/claims/{claim_id}/verify",
    operation=operations.order_reading,
    roles=("agent", "oper", "operator"),
    answer=schemas.Claim,
    told=lambda row, _: claim_answer(row),
    summary="Read the system of record again for a claim, however it stands",
    done="The claim is read again now.",
)
