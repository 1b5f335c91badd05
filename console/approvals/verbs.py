"""The work on an approval, short of votes and edits, that its page and the API share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import UUID

from approvals.requests.operations import assignment, threads
from approvals.requests.queries import approvals
from console.accounts import queries as directory
from console.accounts.queries import actor_names
from console.approvals import schemas
from console.approvals.queue import eligible_assignees, refuse_no_assignee
from console.verbs.verb import Ids, Verb
from ledger.record.operations import Actor
from ledger.record.rules.refusals import NotFound

if TYPE_CHECKING:
    from approvals.models import Comment
    from approvals.requests.rules.assignments import Claim

WORKERS: Final = ("reviewer", "operator")
NOTHING_WRITTEN: Final = "Nothing was written: say something, in at most 4,000 characters."


def _assign(*, tenant_id: UUID, approval_id: UUID, to: UUID | None, by: Actor, at: datetime) -> tuple[UUID, str]:
    """Assign an approval to a person, or to the one who has the fewest; return who it is, and their name."""
    approval = approvals.approval(tenant_id, approval_id)
    if approval is None:
        raise NotFound
    among = eligible_assignees(approval, at=at)
    to = to or assignment.suggest_assignee(tenant_id, among, at=at) or refuse_no_assignee()
    assignment.assign_approval(tenant_id=tenant_id, approval_id=approval_id, to=to, among=among, by=by, at=at)
    return to, actor_names(tenant_id).get(to, "somebody")


def _add_line(
    add: Callable[..., Comment], *, tenant_id: UUID, approval_id: UUID, text: str, by: Actor, at: datetime
) -> Comment:
    known = directory.mention_names(tenant_id)
    return add(tenant_id=tenant_id, approval_id=approval_id, text=text, known=known, by=by, at=at)


def _describe_claim(claim: Claim | None, ids: Ids) -> schemas.Claimed:
    by, until = (claim.by, claim.until) if claim else (None, None)
    return schemas.Claimed(approval_id=ids["approval_id"], claimed_by=by, claimed_until=until)


CLAIM: Final = Verb(
    name="claim",
    path="/approvals/{approval_id}/claim",
    operation=assignment.claim_approval,
    roles=WORKERS,
    answer=schemas.Claimed,
    told=_describe_claim,
    summary="Claim an approval; others can still vote",
    done="",
)
RELEASE: Final = Verb(
    name="release",
    path="/approvals/{approval_id}/release",
    operation=assignment.release_claim,
    roles=WORKERS,
    answer=schemas.Claimed,
    told=_describe_claim,
    summary="Release a claim",
    done="",
)
ASSIGN: Final = Verb(
    name="assign",
    path="/approvals/{approval_id}/assign",
    operation=_assign,
    body=schemas.AssigneeBody,
    roles=WORKERS,
    answer=schemas.Assigned,
    told=lambda assigned, ids: schemas.Assigned(approval_id=ids["approval_id"], assigned_to=assigned[0]),
    summary="Assign an approval",
    done=lambda assigned: f"Assigned to {assigned[1]}.",
)
COMMENT: Final = Verb(
    name="comment",
    path="/approvals/{approval_id}/comments",
    operation=partial(_add_line, threads.add_comment),
    body=schemas.LineBody,
    roles=("reviewer", "operator", "compliance"),
    answer=schemas.LineTaken,
    status=201,
    summary="Comment on an approval",
    done="",
    incomplete=NOTHING_WRITTEN,
)
ASK: Final = Verb(
    name="ask",
    path="/approvals/{approval_id}/questions",
    operation=partial(_add_line, threads.ask_question),
    body=schemas.LineBody,
    roles=WORKERS,
    answer=schemas.LineTaken,
    status=201,
    summary="Ask the agent a question before deciding",
    done="",
    incomplete=NOTHING_WRITTEN,
)
