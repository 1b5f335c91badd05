"""One piece of evidence: what it is, where it came from, and its content where this person may read it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import orjson
from django.http import Http404, HttpResponse
from django.shortcuts import render

from console import words
from console.account import pretty
from console.http import Request, in_tenant
from console.operations import open_evidence
from console.story import may_open
from ledger.queries import opening
from ledger.rules.sealing import CannotOpen
from reviews.rules.account import sentences


@in_tenant()
def evidence(request: Request, pointer: UUID) -> HttpResponse:
    found = opening.evidence(request.tenant.id, pointer)
    if found is None:
        raise Http404
    text, answers, withheld = _content(request, found)
    if not withheld:
        open_evidence(tenant_id=request.tenant.id, by=request.caller.actor, evidence=found, at=request.as_of)
    context = {
        "here": "actions",
        "evidence": found,
        "kind": words.EVIDENCE.get(found.purpose, words.sentence(found.purpose)),
        "text": text,
        "answers": answers,
        "withheld": withheld,
    }
    return render(request, "evidence/_detail.html" if request.htmx else "evidence/detail.html", context)


def _content(request: Request, found: Any) -> tuple[str, list[tuple[str, str]], str]:
    """What is in it, what that says to an auditor's five questions, and why it is not shown."""
    if not may_open(found, request.caller):
        return "", [], "Raw tool output is opened by compliance only."
    try:
        data = opening.opened(request.tenant.id, found.id) or b""
    except CannotOpen as gone:
        return "", [], gone.detail
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError:
        return data.decode("utf-8", "replace"), [], ""
    return pretty(document), sentences(document) if isinstance(document, dict) else [], ""
