"""One piece of evidence: its kind, its source, and its content if this person may read it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import orjson
from django.http import Http404, HttpResponse
from django.shortcuts import render

from console.accounts.operations import record_evidence_access
from console.actions.action_context import may_open_evidence
from console.edge.http import TenantRequest, in_tenant
from console.edge.transaction import note_access
from console.web import labels
from console.web.labels import format_json
from ledger.record.queries import evidence as evidence_queries
from ledger.record.rules.encryption import CannotOpen
from reviews.reporting.rules.evidence_summary import summary_lines


@in_tenant()
def evidence(request: TenantRequest, pointer: UUID) -> HttpResponse:
    found = evidence_queries.evidence(request.tenant.id, pointer)
    if found is None:
        raise Http404
    text, answers, withheld = _read_content(request, found)
    if not withheld:
        of = {"tenant_id": request.tenant.id, "by": request.caller.actor, "at": request.as_of}
        note_access(request, record_evidence_access, evidence=found, **of)
    context = {
        "here": "actions",
        "evidence": found,
        "kind": labels.EVIDENCE.get(found.purpose, labels.sentence_case(found.purpose)),
        "text": text,
        "answers": answers,
        "withheld": withheld,
    }
    return render(request, "evidence/_detail.html" if request.htmx else "evidence/detail.html", context)


def _read_content(request: TenantRequest, found: Any) -> tuple[str, list[tuple[str, str]], str]:
    """The content, its answers to an auditor's five questions, and the reason if it is not shown."""
    if not may_open_evidence(found, request.caller):
        return "", [], "Only compliance can open raw tool output."
    try:
        data = evidence_queries.open_evidence(request.tenant.id, found.id) or b""
    except CannotOpen as gone:
        return "", [], gone.detail
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError:
        return data.decode("utf-8", "replace"), [], ""
    return format_json(document), summary_lines(document) if isinstance(document, dict) else [], ""
