"""The review of a use of break-glass."""

from __future__ import annotations

from typing import Final

from console.break_glass import operations, schemas
from console.verbs.verb import Verb

REVIEW: Final = Verb(
    name="review",
    path="/emergencies/{emergency_id}/reviews",
    operation=operations.record_review,
    body=schemas.EmergencyReviewBody,
    roles=("reviewer", "operator", "compliance", "administrator"),
    answer=schemas.EmergencyState,
    told=lambda state, ids: schemas.EmergencyState(emergency_id=ids["emergency_id"], state=state),
    status=201,
    summary="Review a use of break-glass",
    done="Recorded: your review of this use of break-glass.",
)
