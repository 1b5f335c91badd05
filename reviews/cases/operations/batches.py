"""Batches of cases: started by a person and processed item by item, each item in its own transaction.

An item and what became of it are written together, so a worker that is killed leaves every item either done and
marked, or untouched; another worker goes on with the next one that waits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from ledger.catalogue.operations import registration
from ledger.db import tenancy
from ledger.record import operations as ledger
from ledger.record.rules.refusals import NotFound, Refused
from reviews import queries
from reviews.cases.operations import cases, casework
from reviews.cases.rules.batches import BatchKind, check_selection
from reviews.cases.rules.resolutions import Resolution
from reviews.models import Batch, BatchItem


def start(
    *,
    tenant_id: UUID,
    kind: BatchKind,
    wanted: Mapping[str, Any],
    selected: Sequence[UUID],
    by: ledger.Actor,
    at: datetime,
) -> Batch:
    """Start a batch over these cases; a worker processes it."""
    told, once = check_selection(kind, wanted, selected)
    if len(queries.cases_by_id(tenant_id, list(once))) != len(once):
        raise NotFound("Case")
    row = Batch.objects.create(
        tenant_id=tenant_id,
        id=ledger.new_id(at),
        kind=str(kind),
        wanted=told,
        state="RUNNING",
        total=len(once),
        started_by=by.id,
        started_at=at,
    )
    BatchItem.objects.bulk_create(
        BatchItem(tenant_id=tenant_id, batch_id=row.id, number=number, case_id=case_id, state="WAITING")
        for number, case_id in enumerate(once, 1)
    )
    detail = {"kind": str(kind), "total": len(once), "wanted": told}
    begun = ledger.NewEvent(kind="batch_started", to="RUNNING", detail=detail)
    ledger.append(ledger.SubjectHead(tenant_id=tenant_id, id=row.id, kind="batch"), begun, actor=by, at=at)
    return row


def pause(*, tenant_id: UUID, batch_id: UUID, by: ledger.Actor, at: datetime) -> None:
    """Pause a batch after its current item."""
    _turn(tenant_id, batch_id, "batch_paused", "PAUSED", by, at=at)


def resume(*, tenant_id: UUID, batch_id: UUID, by: ledger.Actor, at: datetime) -> None:
    """Resume at the position where it stopped."""
    _turn(tenant_id, batch_id, "batch_resumed", "RUNNING", by, at=at)


def cancel(*, tenant_id: UUID, batch_id: UUID, by: ledger.Actor, at: datetime, reason: str = "") -> None:
    """Cancel a batch: finished items stay finished, waiting ones are left unchanged."""
    _turn(tenant_id, batch_id, "batch_cancelled", "CANCELLED", by, at=at, reason=reason)
    waiting = BatchItem.objects.filter(tenant_id=tenant_id, batch_id=batch_id, state="WAITING")
    waiting.update(state="LEFT", at=at)


def _turn(
    tenant_id: UUID, batch_id: UUID, kind: str, to: str, by: ledger.Actor, *, at: datetime, reason: str = ""
) -> None:
    if queries.batch(tenant_id, batch_id) is None:
        raise NotFound("Batch")
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=batch_id, kind="batch")
    if head.state == to:
        return
    detail = {"reason": reason} if reason else {}
    ledger.append(head, ledger.NewEvent(kind=kind, to=to, detail=detail), actor=by, at=at)
    ended = at if to in ("CANCELLED", "DONE") else None
    Batch.objects.filter(tenant_id=tenant_id, id=batch_id).update(state=to, ended_at=ended)


def process_next_item(
    *, tenant_id: UUID, batch_id: UUID, operators: Collection[UUID], clock: Callable[[], datetime]
) -> str | None:
    """Process one item; return its result, or None if there is nothing to do now.

    Whoever started the batch must still be one of the `operators`: rights that ended end the batch as well.
    """
    with tenancy(tenant_id):
        at, row = clock(), queries.batch(tenant_id, batch_id)
        if row is None or row.state != "RUNNING":
            return None
        if row.started_by not in operators:
            why = "Whoever started it is no operator any more."
            cancel(tenant_id=tenant_id, batch_id=batch_id, by=ledger.SYSTEM, reason=why, at=at)
            return None
        waiting = BatchItem.objects.filter(tenant_id=tenant_id, batch_id=batch_id, state="WAITING")
        item = waiting.select_for_update(skip_locked=True).order_by("number").first()
        if item is None:
            # None waits, or another worker holds the last ones and will come here after them.
            head = ledger.lock_subject(tenant_id=tenant_id, subject_id=batch_id, kind="batch")
            if head.state == "RUNNING" and not waiting.exists():
                _turn(tenant_id, batch_id, "batch_ended", "DONE", ledger.SYSTEM, at=at)
            return None
        return _work_item(row, item, operators, at=at)


def _work_item(row: Batch, item: BatchItem, operators: Collection[UUID], *, at: datetime) -> str:
    state, code, detail = "DONE", "", ""
    try:
        with transaction.atomic():
            _carry_out(row, item.case_id, operators, at=at)
    except Refused as refused:
        state, code, detail = "REFUSED", refused.code, refused.detail
    _mark(item, state, code, detail, at=at)
    return state


def fail_item(*, tenant_id: UUID, batch_id: UUID, at: datetime) -> None:
    """Mark an item that failed through a fault of the product, so that later items proceed; nothing was done to it."""
    with tenancy(tenant_id):
        waiting = BatchItem.objects.filter(tenant_id=tenant_id, batch_id=batch_id, state="WAITING")
        item = waiting.select_for_update(skip_locked=True).order_by("number").first()
        if item is not None:
            _mark(item, "REFUSED", "FAULT", "A fault of ours; nothing was done to this case.", at=at)


def _mark(item: BatchItem, state: str, code: str, detail: str, *, at: datetime) -> None:
    here = BatchItem.objects.filter(tenant_id=item.tenant_id, batch_id=item.batch_id, number=item.number)
    here.update(state=state, code=code, detail=detail[:500], at=at)


def _carry_out(row: Batch, case_id: UUID, operators: Collection[UUID], *, at: datetime) -> None:
    by = ledger.Actor("person", row.started_by)
    asked: dict[str, Any] = {"tenant_id": row.tenant_id, "case_id": case_id, "by": by, "at": at}
    told = row.wanted
    match BatchKind(row.kind):
        case BatchKind.CLAIM:
            casework.claim(**asked)
        case BatchKind.ASSIGN:
            casework.assign(**asked, to=UUID(told["to"]), among=operators)
        case BatchKind.SNOOZE:
            casework.snooze(**asked, until=datetime.fromisoformat(told["until"]), reason=told["reason"])
        case BatchKind.COMMENT:
            casework.comment(**asked, text=told["text"])
        case BatchKind.VERIFY_AGAIN:
            evidence = [f"Batch {row.id}"]
            cases.resolve(**asked, resolution=Resolution.VERIFY_AGAIN, reason=told["reason"], evidence=evidence)
        case BatchKind.FREEZE_TARGETS:
            _, found = cases.lock_open_case(row.tenant_id, case_id)
            registration.place_freeze(
                tenant_id=row.tenant_id, scope="target", value=found.target, reason=told["reason"], actor=by, at=at
            )
