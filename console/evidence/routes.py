"""Evidence that people add, as they send it: JSON with a text, or a form with a file."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router
from ninja.errors import ValidationError as Invalid
from pydantic import ValidationError

from console.edge.auth import admits, caller_of
from console.edge.openapi import request_body
from console.edge.transaction import in_tenancy
from console.evidence import schemas
from ledger.actions.queries import actions
from ledger.record.rules.canonical import read
from ledger.record.rules.refusals import NotFound
from reviews.cases.operations import cases

router = Router(tags=["Cases and incidents"])
UNKNOWN_KIND = "application/octet-stream"


@router.post(
    "/evidence",
    summary="Store a piece of evidence about an action",
    openapi_extra=request_body("EvidenceText", file="EvidenceFile"),
    response={201: schemas.Pointer},
    operation_id="approvals_add_evidence",
)
@admits("operator", "reviewer", "compliance")
@in_tenancy
def add_evidence(request: HttpRequest) -> schemas.Pointer:
    caller = caller_of(request)
    action_id, data, media_type = _read_evidence(request)
    if actions.action(caller.tenant_id, action_id) is None:
        raise NotFound
    pointer = cases.attach_evidence(
        tenant_id=caller.tenant_id,
        action_id=action_id,
        data=data,
        media_type=media_type,
        by=caller.actor,
        at=timezone.now(),
    )
    return schemas.Pointer(pointer=pointer)


def _read_evidence(request: HttpRequest) -> tuple[UUID, bytes, str]:
    """The action of a piece of evidence, its bytes, and their media type."""
    is_form = request.content_type == "multipart/form-data"
    given = _form(request) if is_form else read(request.body)
    try:
        body = schemas.EvidenceBody.model_validate(given)
    except ValidationError as faults:
        raise Invalid([dict(each) for each in faults.errors(include_context=False, include_url=False)]) from None
    if body.file is not None:
        return body.action_id, body.file, body.media_type
    return body.action_id, (body.text or "").encode(), body.media_type


def _form(request: HttpRequest) -> dict[str, object]:
    given: dict[str, object] = dict(request.POST.items())
    file = request.FILES.get("file")
    if file is not None:
        given |= {"file": file.read(), "media_type": file.content_type or UNKNOWN_KIND}
    return given
