"""The writes about notices that their page and the API share."""

from __future__ import annotations

from datetime import datetime
from typing import Final
from uuid import UUID

from console.notifications import operations, schemas
from console.verbs.verb import Verb
from ledger.record.operations import Actor


def _mark_read(*, tenant_id: UUID, upto: UUID | None, by: Actor, at: datetime) -> int:
    return operations.mark_seen(tenant_id=tenant_id, actor_id=by.id, upto=upto, at=at)


def _send_again(*, tenant_id: UUID, notice_id: UUID, by: Actor, at: datetime) -> schemas.SentAgain:
    row = operations.retry_notice(tenant_id=tenant_id, notice_id=notice_id, by=by, at=at)
    return schemas.SentAgain(notice_id=row.id, due_at=at)


READ: Final = Verb(
    name="read",
    path="/notices/read",
    operation=_mark_read,
    body=schemas.SeenBody,
    roles=("person",),
    answer=schemas.Seen,
    told=lambda count, _: schemas.Seen(read=count),
    summary="Mark notifications as seen",
    done="",
    incomplete="Nothing was marked: open the page again.",
)
AGAIN: Final = Verb(
    name="again",
    path="/notices/undelivered/{notice_id}/again",
    operation=_send_again,
    roles=("administrator",),
    answer=schemas.SentAgain,
    summary="Retry an undelivered message",
    done="Resent.",
)
