"""Every action: search and filter over millions of rows, and all that is known about one."""

from __future__ import annotations

import csv
import io
from datetime import datetime
from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from uuid import UUID, uuid5

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_POST

from console.pages.actions.action_context import action_context
from console.pages.actions.action_record import (
    actor_names,
    format_json,
    load_action_record,
    parse_arguments,
    payload_of,
    payloads_of,
)
from console.pages.actions.trace_waterfall import waterfall
from console.pages.approvals.views.queue import spreadsheet_cell
from console.pages.runs import context as runs_context
from console.pages.standing_approvals.context import pass_notice
from console.templatetags.console import marked, outcome_badge, stamp
from console.web import labels
from console.web.erased_pages import erased_page
from console.web.forms import ActionFilter
from console.web.http import TenantRequest, in_tenant, record_page_view
from console.web.labels import action_title
from console.web.proofs import proof_panel
from ledger.actions.queries import actions
from ledger.catalogue.rules.money import amount_of
from ledger.record.queries import events as queries
from reviews.readback.operations import schedules
from reviews.tracing import queries as tracing

if TYPE_CHECKING:
    from ledger.models import Action

PAGE = 50
MOST_EXPORTED = 5000
_COLUMNS = (
    *("action", "outcome", "state", "tool", "target", "agent", "class", "discrepancy"),
    *("proposed_at", "changed_at"),
)


@in_tenant()
def list_actions(request: TenantRequest) -> HttpResponse:
    filters = ActionFilter(request.GET)
    wanted = filters.wanted() if filters.is_valid() else {}
    named = _uuid(wanted.get("q", ""))
    if named and actions.action(request.tenant.id, named):
        return redirect("action", request.tenant.slug, named)
    before = _uuid(request.GET.get("before", ""))
    found = actions.actions(request.tenant.id, before=before, limit=PAGE + 1, **wanted)
    context = {
        "here": "actions",
        "filters": filters,
        "rows": _rows(request, found[:PAGE]),
        "live": before is None,
        "older": _page_after(request, found[PAGE - 1].id) if len(found) > PAGE else "",
        "newest": _page_after(request, None) if before else "",
        "empty": "No action matches" if wanted else "No actions yet",
        "export": f"{reverse('actions-export', args=[request.tenant.slug])}?{request.GET.urlencode()}",
    }
    return render(request, "actions/_list.html" if request.htmx else "actions/list.html", context)


@in_tenant()
def export(request: TenantRequest) -> HttpResponse:
    """The newest actions that the filters leave, as a table; nothing of any payload. Who takes it is noted."""
    filters = ActionFilter(request.GET)
    if not filters.is_valid():
        return redirect(f"{reverse('actions', args=[request.tenant.slug])}?{request.GET.urlencode()}")
    found = actions.actions(request.tenant.id, limit=MOST_EXPORTED, **filters.wanted())
    record_page_view(request, "actions", uuid5(request.tenant.id, "actions"))
    text = io.StringIO()
    written = csv.writer(text)
    written.writerow(_COLUMNS)
    for each in found:
        about = (
            each.id,
            labels.outcome_label(each),
            each.state,
            each.tool,
            each.target,
            each.agent,
            each.side_effect_class,
        )
        times = (each.proposed_at.isoformat(), each.changed_at.isoformat())
        written.writerow([spreadsheet_cell(one) for one in (*about, each.discrepancy, *times)])
    answer = HttpResponse(text.getvalue(), content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = 'attachment; filename="actions.csv"'
    return answer


@in_tenant()
def action(request: TenantRequest, action_id: UUID) -> HttpResponse:
    found = _found(request, action_id)
    record_page_view(request, "action", found.id)
    if gone := erased_page(request, "action", found.id):
        return gone
    told = load_action_record(request.tenant, found)
    context = {
        "here": "actions",
        "actions_href": reverse("actions", args=[request.tenant.slug]),
        "shown": action_context(told, caller=request.caller),
        "proof": proof_panel(request.tenant.slug, request.tenant.id, told.history[-1][0], now=True),
        "strip": runs_context.run_strip(request.tenant.id, found.run_id),
        "origin": runs_context.recovery_origin(request.tenant.id, found),
        "passed": pass_notice(request.tenant, told.approval),
    }
    return render(request, "actions/_detail.html" if request.htmx else "actions/detail.html", context)


@in_tenant()
def show_entry(request: TenantRequest, action_id: UUID, seq: int) -> HttpResponse:
    found = _found(request, action_id)
    history = queries.history(request.tenant.id, found.id)
    if not 1 <= seq <= len(history):
        raise Http404
    event, snapshot, detail = history[seq - 1]
    context = {
        "here": "actions",
        "back": reverse("action", args=[request.tenant.slug, action_id]),
        "title": action_title(found.operation_kind, found.target, parse_arguments(payload_of(found))),
        "event": event,
        "word": labels.event_label(event.kind),
        "actor": actor_names(request.tenant.id).get(event.actor_id, event.actor_kind),
        "proof": (proof := proof_panel(request.tenant.slug, request.tenant.id, event)),
        "place": proof["place"] if proof else None,
        "entry_hash": bytes(event.entry_hash).hex(),
        "prev_hash": bytes(event.prev).hex() if event.prev else "",
        "envelope": bytes(event.envelope).decode(),
        "entry": format_json(snapshot) if snapshot else "",
        "detail": format_json(detail) if detail else "",
    }
    return render(request, "actions/_entry.html" if request.htmx else "actions/entry.html", context)


@in_tenant()
def show_trace(request: TenantRequest, action_id: UUID) -> HttpResponse:
    """Where the action has been, span by span; each leads to the ledger entry that ended it (R-TR-05)."""
    found = _found(request, action_id)
    if gone := erased_page(request, "action", found.id):
        return gone
    trace = tracing.trace_of(found)
    if trace is None:
        raise Http404
    context = {
        "here": "actions",
        "back": reverse("action", args=[request.tenant.slug, action_id]),
        "title": action_title(found.operation_kind, found.target, parse_arguments(payload_of(found))),
        "row": found,
        "trace": trace,
        "spans": waterfall(trace, slug=request.tenant.slug, action_id=action_id, as_of=request.as_of),
    }
    return render(request, "actions/trace.html", context)


@in_tenant("operator")
@require_POST
def verify(request: TenantRequest, action_id: UUID) -> HttpResponse:
    found = _found(request, action_id)
    schedules.schedule(
        tenant_id=request.tenant.id, action_id=found.id, due_at=request.as_of, priority=5, at=request.as_of
    )
    messages.success(request, "Re-verification started.")
    return redirect("action", request.tenant.slug, action_id)


def _found(request: TenantRequest, action_id: UUID) -> Any:
    found = actions.action(request.tenant.id, action_id)
    if found is None:
        raise Http404
    return found


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _page_after(request: TenantRequest, last: UUID | None) -> str:
    kept = {name: value for name, value in request.GET.items() if value and name != "before"}
    return f"{request.path}?{urlencode({**kept, 'before': last} if last else kept)}"


def _rows(request: TenantRequest, found: list[Any]) -> SafeString:
    # The template engine costs more than the query here (performance.md), so rows are written in Python.
    base = reverse("actions", args=[request.tenant.slug])
    payloads = payloads_of(request.tenant.id, found)
    return mark_safe("".join(_row(base, each, amount_of(payloads.get(each.id)), request.as_of) for each in found))


def _row(base: str, action: Action, amount: str, as_of: datetime) -> str:
    found = labels.finding_label(action)
    return (
        f'<tr data-item data-part="{action.id}">'
        f'<td class="fit">{outcome_badge(action)}</td>'
        f'<td class="clip"><a class="open" href="{base}/{action.id}">'
        f"{marked(action_title(action.operation_kind, action.target))}</a></td>"
        f'<td class="num nowrap">{escape(amount)}</td>'
        f'<td class="nowrap">{escape(action.agent)}</td>'
        f'<td class="nowrap mono roomy">{escape(action.tool)}</td>'
        f'<td class="nowrap muted roomy">{labels.side_effect_class_label(action.side_effect_class)}</td>'
        f'<td class="nowrap">{found}</td>'
        f'<td class="num fit">{stamp(action.changed_at, as_of=as_of)}</td></tr>'
    )
