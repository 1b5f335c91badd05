"""Edits over HTTP: a reviewer sees what another payload would change, and then puts it in the place of the first."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router

from approvals.requests.operations import edits
from console.actions import predicates
from console.approvals import schemas
from console.edge.auth import admits, caller_of
from console.edge.transaction import after_commit, in_tenancy
from console.tasks import read_before

router = Router(tags=["Approvals"])


@router.post(
    "/approvals/{approval_id}/edit-preview",
    summary="Preview an edited payload through the whole gate; nothing is written",
    response=schemas.Edited,
)
@admits("reviewer")
@in_tenancy
def preview(request: HttpRequest, approval_id: UUID, body: schemas.PreviewBody) -> schemas.Edited:
    caller = caller_of(request)
    wanted = edits.Edit(arguments=body.payload, reason="", payload_hash=body.payload_hash)
    seen = edits.preview_edit(
        tenant_id=caller.tenant_id,
        approval_id=approval_id,
        edit=wanted,
        editor=caller.actor.id,
        compile_predicate=predicates.agent_predicate_fault,
        at=timezone.now(),
    )
    return schemas.Edited.of(seen)


@router.post(
    "/approvals/{approval_id}/edit",
    summary="Replace the payload: a new action with a new approval",
    response={201: schemas.Edited},
)
@admits("reviewer")
@in_tenancy
def edit(request: HttpRequest, approval_id: UUID, body: schemas.EditBody) -> schemas.Edited:
    caller = caller_of(request)
    wanted = edits.Edit(arguments=body.payload, reason=body.reason, payload_hash=body.payload_hash)
    made = edits.apply_edit(
        tenant_id=caller.tenant_id,
        approval_id=approval_id,
        edit=wanted,
        editor=caller.actor.id,
        compile_predicate=predicates.agent_predicate_fault,
        at=timezone.now(),
    )
    after_commit(read_before)
    return schemas.Edited.of(made)
