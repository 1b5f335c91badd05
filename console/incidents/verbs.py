"""The writes about an incident that its page and the API share."""

from __future__ import annotations

from typing import Final

from console.edge.schemas import CommentBody, CommentTaken, ReasonBody
from console.incidents import schemas
from console.verbs.verb import Verb
from reviews.incidents import operations

COMMENT: Final = Verb(
    name="comment",
    path="/incidents/{incident_id}/comments",
    operation=operations.comment,
    body=CommentBody,
    roles=("operator", "reviewer", "compliance", "administrator"),
    answer=CommentTaken,
    status=201,
    summary="Comment on an incident",
    done="",
)
REOPEN: Final = Verb(
    name="reopen",
    path="/incidents/{incident_id}/reopen",
    operation=operations.reopen,
    body=ReasonBody,
    roles=("operator",),
    answer=schemas.IncidentState,
    told=lambda _, ids: schemas.IncidentState(incident_id=ids["incident_id"], state="OPEN"),
    summary="Reopen an incident",
    done="",
    incomplete="Not reopened: enter a reason.",
)
