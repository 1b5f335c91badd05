"""Reading a piece of evidence as people send it: JSON with a text, or a form with a file."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest
from ninja.errors import ValidationError as Invalid
from pydantic import ValidationError

from console.api.schemas import EvidenceBody
from ledger.record.rules.canonical import read

UNKNOWN_KIND = "application/octet-stream"


def read_evidence(request: HttpRequest) -> tuple[UUID, bytes, str]:
    """The action that it is about, the bytes, and what kind they are."""
    is_form = request.content_type == "multipart/form-data"
    given = _form(request) if is_form else read(request.body)
    try:
        body = EvidenceBody.model_validate(given)
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
