"""Recordings: conversations that agents had elsewhere, as the audit found them, to be browsed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from console.accounts.queries import actor_names
from console.actions.erased_pages import erased_page
from console.agents.views import agent_tabs
from console.edge.http import TenantRequest, in_tenant, record_page_view
from console.recordings import context as recordings_context
from console.recordings import operations as recordings_operations
from console.recordings import queries as recordings_queries
from console.recordings.forms import ConversationFilter, EraseRecordingForm, RecordingFilter
from console.recordings.lists import RECORDINGS
from console.recordings.queries import ConversationPage, PagePosition

if TYPE_CHECKING:
    pass

PAGE = 50
MESSAGES = 40
LARGEST = 2**31 - 1


@in_tenant()
def list_recordings(request: TenantRequest) -> HttpResponse:
    found, frame = RECORDINGS.read_page(request, PAGE)
    context = {
        "here": "agents",
        "tabs": agent_tabs(request, "recordings"),
        "recordings": RECORDINGS.rows_of(request, found),
        "filters": RecordingFilter(request.GET),
        **frame,
    }
    return render(request, "recordings/_list.html" if request.htmx else "recordings/list.html", context)


@in_tenant()
def recording_page(request: TenantRequest, recording_id: UUID) -> HttpResponse:
    if gone := erased_page(request, "recording", recording_id):
        return gone
    return _recording(request, _get_or_404(request, recording_id))


@in_tenant()
def conversation(request: TenantRequest, recording_id: UUID, number: int) -> HttpResponse:
    if gone := erased_page(request, "recording", recording_id):
        return gone
    row, since = _get_or_404(request, recording_id), _number(request.GET.get("from", ""))
    found = recordings_queries.conversation(request.tenant.id, recording_id, number) if number <= LARGEST else None
    if found is None:
        raise Http404
    record_page_view(request, "recording", recording_id)
    where = (request.tenant.id, recording_id, number)
    listed = recordings_queries.messages(*where, since=since, limit=MESSAGES + 1)
    earlier = recordings_queries.previous_page_start(*where, since=since, limit=MESSAGES) if since else None
    context = {
        "here": "agents",
        "recording": row,
        "conversation": found,
        "beside": [each for each in (number - 1, number + 1) if 0 < each <= row.conversations],
        "findings": recordings_context.finding_links(found, request.path),
        "messages_shown": [recordings_context.message_context(each, request.path) for each in listed[:MESSAGES]],
        "earlier": "" if earlier is None else recordings_context.message_url(request.path, earlier),
        "later": recordings_context.message_url(request.path, listed[MESSAGES].number)
        if len(listed) > MESSAGES
        else "",
    }
    name = "recordings/_conversation.html" if request.htmx else "recordings/conversation.html"
    return render(request, name, context)


@in_tenant("compliance")
@require_POST
def request_erasure(request: TenantRequest, recording_id: UUID) -> HttpResponse:
    """Request an erasure; a second person confirms it like every other one."""
    form, row = EraseRecordingForm(request.POST), _get_or_404(request, recording_id)
    if not form.is_valid():
        return _recording(request, row, form=form, status=422)
    recordings_operations.request_erasure(
        tenant_id=request.tenant.id,
        recording_id=recording_id,
        legal_basis=form.cleaned_data["legal_basis"],
        reason=form.cleaned_data["reason"],
        by=request.caller.actor,
        at=request.as_of,
    )
    messages.success(request, "Erasure requested. Another person must confirm it before anything is erased.")
    return redirect("holds", request.tenant.slug)


def _recording(
    request: TenantRequest, row: Any, *, form: EraseRecordingForm | None = None, status: int = 200
) -> HttpResponse:
    slug, given = request.tenant.slug, request.GET
    record_page_view(request, "recording", row.id)
    coded = recordings_context.code_counts(slug, row)
    filters = ConversationFilter(given, codes=sorted(each["code"] for each in coded))
    behind = _place(given.get("after", ""))
    found, sought = ConversationPage([], None), ""
    if filters.is_valid():
        found = recordings_queries.conversations(request.tenant.id, row.id, filters.wanted(), behind=behind, limit=PAGE)
        sought = filters.wanted().words
    said = recordings_queries.representative_messages(
        request.tenant.id, row.id, [each.number for each in found.rows], sought
    )
    context = {
        "here": "agents",
        "recording": row,
        "named": actor_names(request.tenant.id).get(row.named, "") if row.named else "",
        "trust": recordings_context.TRUSTS.get(row.trust, row.trust),
        "record": reverse("event", args=[slug, row.id, 1]),
        "figures": recordings_context.figure_links(slug, row),
        "codes": coded,
        "filters": filters,
        "conversations": recordings_context.conversation_rows(slug, found.rows, said, sought),
        "first": _address(request) if behind else "",
        "further": _address(request, after=str(found.behind)) if found.behind else "",
        "keeping": recordings_operations.retention_status(row),
        "form": (form or EraseRecordingForm()) if "compliance" in request.caller.roles else None,
    }
    name = "recordings/_recording.html" if request.htmx else "recordings/recording.html"
    return render(request, name, context, status=status)


def _get_or_404(request: TenantRequest, recording_id: UUID) -> Any:
    found = recordings_queries.find_recording(request.tenant.id, recording_id)
    if found is None:
        raise Http404
    return found


def _place(asked: str) -> PagePosition | None:
    severity, _, number = asked.partition(".")
    return PagePosition(_number(severity), _number(number)) if severity.isdecimal() and number.isdecimal() else None


def _number(asked: str) -> int:
    return min(int(asked), LARGEST) if asked.isascii() and asked.isdecimal() and len(asked) < 12 else 0


def _address(request: TenantRequest, **place: str) -> str:
    """The address of this list with its filters, from a position on; the default is the beginning."""
    kept = {name: value for name, value in request.GET.items() if value and name not in ("after", "before")}
    asked = urlencode(kept | place)
    return f"{request.path}?{asked}" if asked else request.path
