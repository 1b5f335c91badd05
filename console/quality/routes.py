"""Reviewer quality over HTTP: what a page reports of itself, and what came of the decisions."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router

from approvals.requests.queries import approvals
from approvals.voting.operations import attention
from console.actions import target_drift
from console.approvals.displays import record_displays
from console.edge.auth import admits, caller_of
from console.edge.schemas import EARLIEST
from console.edge.transaction import after_commit, in_tenancy
from console.quality import schemas
from console.quality.context import reviewer_quality
from console.tasks import read_before
from ledger.record.rules.refusals import NotFound

router = Router(tags=["Approvals"])
PERIOD = timedelta(days=30)


@router.get(
    "/approvals/quality",
    summary="Approval quality by rule, agent, tool and reviewer",
    response=schemas.Quality,
)
@admits("person")
@in_tenancy
def get_quality(request: HttpRequest, wanted: Query[schemas.QualityWanted]) -> schemas.Quality:
    until = wanted.until or timezone.now()
    found = reviewer_quality(caller_of(request), since=wanted.since or max(until - PERIOD, EARLIEST), until=until)
    return schemas.Quality.of(found)


@router.post(
    "/approvals/{approval_id}/attention",
    summary="Report visible time and opened sections of an approval page",
    response=schemas.AttentionTaken,
)
@admits("person")
@in_tenancy
def report(request: HttpRequest, approval_id: UUID, body: schemas.AttentionBody) -> schemas.AttentionTaken:
    caller = caller_of(request)
    approval, at = approvals.approval(caller.tenant_id, approval_id), timezone.now()
    if approval is None:
        raise NotFound
    if target_drift.request_reading(approval, roles=caller.roles, by=caller.actor, at=at):
        after_commit(read_before)
    record_displays(caller, [approval_id])
    taken = attention.record_page_report(
        tenant_id=caller.tenant_id,
        approval_id=approval_id,
        actor_id=caller.actor.id,
        visible_s=body.visible_s,
        opened=body.opened,
        at=at,
    )
    return schemas.AttentionTaken(taken=taken)
