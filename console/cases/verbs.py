"""The writes about a case, short of its settlement, that its page and the API share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import UUID

from console.accounts import queries as directory
from console.cases import schemas
from console.edge.schemas import CommentBody, CommentTaken, ReasonBody
from console.edge.transaction import after_commit
from console.tasks import work_batches
from console.verbs.verb import Ids, Verb
from ledger.record.operations import Actor
from reviews import queries
from reviews.cases.operations import batches, cases, casework

if TYPE_CHECKING:
    from reviews.models import Batch

OPERATOR: Final = ("operator",)


def _assign(*, tenant_id: UUID, case_id: UUID, to: UUID, by: Actor, at: datetime) -> tuple[UUID, str]:
    owners = directory.operators(tenant_id)
    casework.assign(tenant_id=tenant_id, case_id=case_id, to=to, among=owners, by=by, at=at)
    return to, owners[to]


def _snooze(*, tenant_id: UUID, case_id: UUID, until: datetime, reason: str, by: Actor, at: datetime) -> datetime:
    casework.snooze(tenant_id=tenant_id, case_id=case_id, until=until, reason=reason, by=by, at=at)
    return until


def _claim(*, tenant_id: UUID, case_id: UUID, by: Actor, at: datetime) -> UUID:
    casework.claim(tenant_id=tenant_id, case_id=case_id, by=by, at=at)
    return by.id


def _owner(owner: UUID | None, ids: Ids) -> schemas.CaseOwner:
    return schemas.CaseOwner(case_id=ids["case_id"], claimed_by=owner)


CLAIM: Final = Verb(
    name="claim_case",
    operation_id="approvals_claim_case",
    path="/reviews/{case_id}/claim",
    operation=_claim,
    roles=OPERATOR,
    answer=schemas.CaseOwner,
    told=_owner,
    summary="Claim a case",
    done="",
)
RELEASE: Final = Verb(
    name="release_case",
    operation_id="approvals_release_case",
    path="/reviews/{case_id}/release",
    operation=casework.release,
    roles=OPERATOR,
    answer=schemas.CaseOwner,
    told=_owner,
    summary="Release a case",
    done="",
)
COMMENT: Final = Verb(
    name="comment",
    operation_id="approvals_comment",
    path="/reviews/{case_id}/comments",
    operation=casework.comment,
    body=CommentBody,
    roles=("operator", "reviewer", "compliance"),
    answer=CommentTaken,
    status=201,
    summary="Comment on a case",
    done="",
)
ASSIGN: Final = Verb(
    name="assign",
    path="/reviews/{case_id}/assign",
    operation=_assign,
    body=schemas.AssignBody,
    roles=OPERATOR,
    answer=schemas.CaseOwner,
    told=lambda assigned, ids: _owner(assigned[0], ids),
    summary="Assign a case to an operator",
    done=lambda assigned: f"Assigned to {assigned[1]}.",
    incomplete="Not assigned: choose an operator.",
)
SNOOZE: Final = Verb(
    name="snooze",
    path="/reviews/{case_id}/snooze",
    operation=_snooze,
    body=schemas.SnoozeBody,
    roles=OPERATOR,
    answer=schemas.CaseSleep,
    told=lambda until, ids: schemas.CaseSleep(case_id=ids["case_id"], snoozed_until=until),
    summary="Snooze a case until a given time",
    done="Snoozed. It returns automatically.",
    incomplete="Not snoozed: choose how long and enter a reason.",
)
WAKE: Final = Verb(
    name="wake",
    path="/reviews/{case_id}/wake",
    operation=casework.wake,
    roles=OPERATOR,
    answer=schemas.CaseSleep,
    told=lambda _, ids: schemas.CaseSleep(case_id=ids["case_id"], snoozed_until=None),
    summary="End the snooze of a case",
    done="",
)
REOPEN: Final = Verb(
    name="reopen",
    path="/reviews/{case_id}/reopen",
    operation=cases.reopen,
    body=ReasonBody,
    roles=OPERATOR,
    answer=schemas.CaseState,
    told=lambda _, ids: schemas.CaseState(case_id=ids["case_id"], state="OPEN"),
    summary="Reopen a settled case",
    done="Reopened. Until it is resolved again, the action is not reported as completed.",
    incomplete="Not reopened: enter a reason.",
)


def _turn(turn: Callable[..., None], *, tenant_id: UUID, batch_id: UUID, by: Actor, at: datetime) -> Batch:
    turn(tenant_id=tenant_id, batch_id=batch_id, by=by, at=at)
    row = queries.batch(tenant_id, batch_id)
    assert row is not None
    if row.state == "RUNNING":
        after_commit(work_batches)
    return row


def batch_answer(row: Batch) -> schemas.Batch:
    """Describe a batch with its progress, case by case."""
    progress = queries.batch_progress(row.tenant_id, [row.id])[row.id]
    items = list(queries.batch_items(row.tenant_id, row.id))
    return schemas.Batch.of(row, done=progress.done, refused=progress.refused, left=progress.left, items=items)


def _describe_batch(row: Batch, ids: Ids) -> schemas.Batch:
    return batch_answer(row)


PAUSE_BATCH: Final = Verb(
    name="pause",
    path="/batches/{batch_id}/pause",
    operation=partial(_turn, batches.pause),
    roles=OPERATOR,
    answer=schemas.Batch,
    told=_describe_batch,
    summary="Pause a batch after the current item",
    done="",
)
RESUME_BATCH: Final = Verb(
    name="resume",
    path="/batches/{batch_id}/resume",
    operation=partial(_turn, batches.resume),
    roles=OPERATOR,
    answer=schemas.Batch,
    told=_describe_batch,
    summary="Resume a paused batch",
    done="",
)
CANCEL_BATCH: Final = Verb(
    name="cancel",
    path="/batches/{batch_id}/cancel",
    operation=partial(_turn, batches.cancel),
    roles=OPERATOR,
    answer=schemas.Batch,
    told=_describe_batch,
    summary="Cancel the rest of a batch",
    done="",
)
