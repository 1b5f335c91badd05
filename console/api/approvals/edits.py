"""Edits over HTTP: a reviewer sees what another payload would change, and then puts it in the place of the first."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Router
from pydantic import Field

from approvals.requests.operations import edits
from console.api.actions import predicates
from console.api.answers import Answer, DroppedExpectation
from console.api.auth import admits, caller_of
from console.api.schemas import Body
from console.api.transaction import after_commit, in_tenancy, json_response
from console.tasks import read_before

router = Router(tags=["People's work"])


class PreviewBody(Body):
    payload: Annotated[dict[str, Any], Field(description="All arguments of the call, the unchanged ones too.")]
    payload_hash: Annotated[str, Field(pattern="^[0-9a-f]{64}$", description="Of the payload that was shown.")]


class EditBody(PreviewBody):
    reason: Annotated[str, Field(max_length=2000, description="The agent is told, word for word.")] = ""


class ChangedField(Answer):
    path: str
    label: str
    old: str | None
    new: str | None


class Edited(Answer):
    supersedes: str
    action_id: str | None = Field(description="The action that stands in its place; null in a preview.")
    approval_id: str | None
    payload_hash: str
    changed: list[ChangedField]
    expectations_dropped: list[DroppedExpectation] = Field(
        description="Predicates of the agent that name an edited field: they are not checked any more."
    )
    expectations_kept: list[str] = Field(description="Predicates of the agent that are still checked.")


@router.post(
    "/approvals/{approval_id}/edit-preview",
    summary="What another payload would change, after the whole gate; nothing is written",
    response=Edited,
)
@admits("reviewer")
@in_tenancy
def preview(request: HttpRequest, approval_id: UUID, body: PreviewBody) -> HttpResponse:
    wanted = edits.Edit(arguments=body.payload, reason="", payload_hash=body.payload_hash)
    seen = edits.preview_edit(
        tenant_id=caller_of(request).tenant_id,
        approval_id=approval_id,
        edit=wanted,
        compile_predicate=predicates.agent_predicate_fault,
        at=timezone.now(),
    )
    return json_response(_edited(seen))


@router.post(
    "/approvals/{approval_id}/edit",
    summary="Put another payload in the place of this one: a new action, with a new approval",
    response={201: Edited},
)
@admits("reviewer")
@in_tenancy
def edit(request: HttpRequest, approval_id: UUID, body: EditBody) -> HttpResponse:
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
    return json_response(_edited(made), 201)


def _edited(made: edits.EditResult) -> dict[str, Any]:
    return {
        "supersedes": str(made.supersedes),
        "action_id": str(made.action_id) if made.action_id else None,
        "approval_id": str(made.approval_id) if made.approval_id else None,
        "payload_hash": made.payload_hash,
        "changed": [each.document() for each in made.changes],
        "expectations_dropped": [each.document() for each in made.dropped],
        "expectations_kept": list(made.kept),
    }
