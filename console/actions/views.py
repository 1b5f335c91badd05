"""Every action: search and filter over millions of rows, and the complete record of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_POST

from console.accounts.queries import actor_names
from console.actions import verbs
from console.actions.action_context import action_context
from console.actions.action_record import load_action_record, parse_arguments, payload_of, payloads_of
from console.actions.erased_pages import erased_page
from console.actions.trace_waterfall import waterfall
from console.edge.http import TenantRequest, in_tenant, record_page_view
from console.edge.proofs import proof_panel
from console.runs import context as runs_context
from console.standing_approvals.context import pass_notice
from console.templatetags.console import marked, outcome_badge, stamp
from console.verbs.verb import page_of
from console.web import labels
from console.web.forms import ActionFilter, ReasonForm
from console.web.labels import action_title, format_json
from console.web.list_page import (
    Column,
    FilterNotValid,
    ListPage,
    amount_column,
    list_context,
    pager_context,
    sortable,
)
from console.web.spreadsheets import MOST_EXPORTED
from ledger.actions.queries import actions
from ledger.catalogue.rules.money import amount_of
from ledger.catalogue.rules.targets import target_text
from ledger.record.queries import events as queries
from ledger.record.rules.event_kinds import EVENT_KINDS
from ledger.record.rules.outcomes import Outcome, outcome_of
from reviews import queries as after
from reviews.cases.operations import cases
from reviews.tracing import queries as tracing
from reviews.verification.operations import verification

if TYPE_CHECKING:
    from ledger.models import Action

PAGE = 50
MOST_COUNTED = 1000
ACTIONS_LIST = ListPage(
    "actions",
    tuple(ActionFilter.base_fields),
    "action",
    (
        Column(
            "outcome",
            "Outcome",
            lambda row: labels.outcome_label(row[0]),
            more={
                "Outcome (code)": lambda row: outcome_of(row[0]),
                "State (code)": lambda row: row[0].state,
            },
        ),
        Column("action", "Action", lambda row: target_text(row[0].target), sorts=("target", "-target")),
        amount_column(lambda row: row[1]),
        sortable("agent", "Agent", lambda row: row[0].agent),
        sortable("tool", "Tool", lambda row: row[0].tool, "roomy"),
        Column("class", "Class", lambda row: labels.side_effect_class_label(row[0].side_effect_class), "roomy"),
        Column("discrepancy", "Discrepancy", lambda row: labels.finding_label(row[0], row[2])),
        Column("changed", "Changed", lambda row: row[0].changed_at, "num"),
        Column("proposed", "Proposed", lambda row: row[0].proposed_at, "num", ("oldest", ""), is_usual=False),
        Column("version", "Version", lambda row: row[0].tool_version, is_usual=False),
        Column("run", "Run", lambda row: row[0].run_id, is_usual=False),
        Column("id", "Id", lambda row: row[0].id, is_usual=False),
    ),
)
_IN_WORDS = {"": "newest first", "oldest": "oldest first"}


@in_tenant()
def list_actions(request: TenantRequest) -> HttpResponse:
    filters = ActionFilter(request.GET)
    wanted = filters.wanted() if filters.is_valid() else {}
    named = _parse_uuid(wanted.get("q", ""))
    if named and actions.action(request.tenant.id, named):
        return redirect("action", request.tenant.slug, named)
    before, sort = _parse_uuid(request.GET.get("before", "")), _sort(request.GET, wanted)
    found = _sorted_actions(request, wanted, sort, before=before, limit=PAGE + 1)
    context = {
        "here": "actions",
        "filters": filters,
        "kept": {name: request.GET[name] for name in ("sort",) if request.GET.get(name)},
        "rows": action_rows(request, found[:PAGE], shown=ACTIONS_LIST.shown_columns(request.GET)),
        "live": before is None and not sort,
        "order": _order(sort, asked=request.GET.get("sort", "")),
        "turn": f"{request.path}?{ACTIONS_LIST.address(request.GET, sort='' if sort == 'oldest' else 'oldest')}",
        "turn_word": "newest first" if sort == "oldest" else "oldest first",
        **pager_context(request, ACTIONS_LIST, found, PAGE, place="before"),
        "empty": "No action matches" if wanted else "No actions yet",
        "answer": _waiting_sentence(request) if not wanted and before is None else "",
        **list_context(request, ACTIONS_LIST, sort=sort),
    }
    return render(request, "actions/_list.html" if request.htmx else "actions/list.html", context)


def _waiting_sentence(request: TenantRequest) -> str:
    """The share of the actions of the last 24 hours that waits for a person, as a sentence."""
    counted = actions.count_outcomes(request.tenant.id, since=request.as_of - timedelta(days=1), most=MOST_COUNTED)
    made, waits = counted.total(), counted[Outcome.WAITING_FOR_APPROVAL] + counted[Outcome.NEEDS_REVIEW]
    if not made:
        return "No action was proposed in the last 24 hours."
    newest = f"the newest {made:,} actions" if made == MOST_COUNTED else f"{made:,} action{'s' if made > 1 else ''}"
    verb = "waits" if waits == 1 else "wait"
    return f"{f'{waits:,}' if waits else 'None'} of {newest} of the last 24 hours {verb} for a person."


def _sort(query: QueryDict, wanted: Mapping[str, Any]) -> str:
    """The order in an address, if an index serves it: by a column only without filters."""
    sort = str(query.get("sort", ""))
    if sort not in actions.ORDERS or "q" in wanted:
        return ""
    return sort if sort in _IN_WORDS or not wanted else ""


def _sorted_actions(
    request: TenantRequest, wanted: Mapping[str, Any], sort: str, *, before: UUID | None = None, limit: int
) -> list[Action]:
    if sort not in _IN_WORDS:
        return actions.sorted_actions(request.tenant.id, sort, behind=before, limit=limit)
    return actions.actions(request.tenant.id, before=before, limit=limit, oldest=sort == "oldest", **wanted)


def _order(sort: str, *, asked: str) -> str:
    if sort not in _IN_WORDS:
        return f"by {sort.removeprefix('-')}, {'Z to A' if sort.startswith('-') else 'A to Z'}"
    return _IN_WORDS[sort] + ("; other orders are offered without filters" if asked not in ("", sort) else "")


def exported_rows(request: TenantRequest) -> list[tuple[Action, Mapping[str, Any], str]]:
    """The first actions that the list shows."""
    filters = ActionFilter(request.GET)
    if not filters.is_valid():
        raise FilterNotValid
    wanted = filters.wanted()
    return table_rows(request, _sorted_actions(request, wanted, _sort(request.GET, wanted), limit=MOST_EXPORTED))


def table_rows(request: TenantRequest, found: list[Action]) -> list[tuple[Action, Mapping[str, Any], str]]:
    """Return actions for the columns of their list: with their arguments, if the amount was chosen, and with the
    differences that a person accepted.
    """
    payloads = payloads_of(request.tenant.id, found) if "amount" in request.GET.getlist("columns") else {}
    accepted = after.accepted_differences(request.tenant.id, found)
    return [(each, payloads.get(each.id, {}), accepted.get(each.id, "")) for each in found]


@in_tenant()
def action(request: TenantRequest, action_id: UUID) -> HttpResponse:
    found = _get_or_404(request, action_id)
    record_page_view(request, "action", found.id)
    if gone := erased_page(request, "action", found.id):
        return gone
    record = load_action_record(request.tenant, found)
    context = {
        "here": "actions",
        "actions_href": reverse("actions", args=[request.tenant.slug]),
        "shown": action_context(record, request.tenant, caller=request.caller, at=request.as_of),
        "proof": proof_panel(request.tenant.slug, request.tenant.id, record.history[-1][0], now=True),
        "strip": runs_context.run_strip(request.tenant.id, found),
        "origin": runs_context.recovery_origin(request.tenant.id, found),
        "passed": pass_notice(request.tenant, record.approval),
    }
    return render(request, "actions/_detail.html" if request.htmx else "actions/detail.html", context)


@in_tenant()
def show_entry(request: TenantRequest, action_id: UUID, seq: int) -> HttpResponse:
    found = _get_or_404(request, action_id)
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
        "meaning": EVENT_KINDS[event.kind].meaning if event.kind in EVENT_KINDS else "",
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
    """Show the action's spans; each links to the ledger entry that ended it (R-TR-05)."""
    found = _get_or_404(request, action_id)
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
    verification.order_reading(_get_or_404(request, action_id), by=request.caller.actor, at=request.as_of)
    messages.success(request, "Re-verification started.")
    return redirect("action", request.tenant.slug, action_id)


cancel = page_of(
    verbs.CANCEL, home=lambda request, ids, result: reverse("action", args=[request.tenant.slug, ids["action_id"]])
)


@in_tenant("operator")
@require_POST
def open_case(request: TenantRequest, action_id: UUID) -> HttpResponse:
    found, form = _get_or_404(request, action_id), ReasonForm(request.POST)
    if not form.is_valid():
        messages.error(request, "No case was opened: enter a reason.")
        return redirect("action", request.tenant.slug, action_id)
    case = cases.take_up(
        tenant_id=request.tenant.id,
        action_id=found.id,
        reason=form.cleaned_data["reason"],
        by=request.caller.actor,
        at=request.as_of,
    )
    messages.success(request, "Case opened.")
    return redirect("case", request.tenant.slug, case.id)


def _get_or_404(request: TenantRequest, action_id: UUID) -> Any:
    found = actions.action(request.tenant.id, action_id)
    if found is None:
        raise Http404
    return found


def _parse_uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def action_rows(
    request: TenantRequest, found: list[Any], *, shown: Sequence[Column] = ACTIONS_LIST.columns[:8]
) -> SafeString:
    # The template engine costs more than the query here, so rows are written in Python.
    base = reverse("actions", args=[request.tenant.slug])
    cells = [_CELLS[each.name] for each in shown]
    payloads = payloads_of(request.tenant.id, found) if _CELLS["amount"] in cells else {}
    accepted = after.accepted_differences(request.tenant.id, found) if _CELLS["discrepancy"] in cells else {}
    beside = {each.id: _Beside(payloads.get(each.id), accepted.get(each.id, "")) for each in found}
    rows = ((each, "".join(cell(base, each, beside[each.id], request.as_of) for cell in cells)) for each in found)
    return mark_safe("".join(f'<tr data-item data-part="{each.id}">{row}</tr>' for each, row in rows))


class _Beside(NamedTuple):
    """The further data for an action's row: its arguments, and the difference that a person accepted."""

    payload: Any
    accepted: str


_Cell = Callable[[str, "Action", _Beside, datetime], str]


def _title_cell(base: str, action: Action, beside: _Beside, as_of: datetime) -> str:
    title = marked(action_title(action.operation_kind, action.target))
    return f'<td class="clip"><a class="open" href="{base}/{action.id}">{title}</a></td>'


def _finding_cell(base: str, action: Action, beside: _Beside, as_of: datetime) -> str:
    kind = "" if beside.accepted else ' class="nowrap"'
    return f"<td{kind}>{escape(labels.finding_label(action, beside.accepted))}</td>"


_CELLS: dict[str, _Cell] = {
    "outcome": lambda base, each, beside, as_of: f'<td class="fit">{outcome_badge(each)}</td>',
    "action": _title_cell,
    "amount": lambda base, each, beside, as_of: f'<td class="num nowrap">{escape(amount_of(beside.payload))}</td>',
    "agent": lambda base, each, beside, as_of: f'<td class="nowrap">{escape(each.agent)}</td>',
    "tool": lambda base, each, beside, as_of: f'<td class="nowrap mono roomy">{escape(each.tool)}</td>',
    "class": lambda base, each, beside, as_of: (
        f'<td class="nowrap muted roomy">{labels.side_effect_class_label(each.side_effect_class)}</td>'
    ),
    "discrepancy": _finding_cell,
    "changed": lambda base, each, beside, as_of: f'<td class="num fit">{stamp(each.changed_at, as_of=as_of)}</td>',
    "proposed": lambda base, each, beside, as_of: f'<td class="num fit">{stamp(each.proposed_at, as_of=as_of)}</td>',
    "version": lambda base, each, beside, as_of: f'<td class="nowrap mono">{escape(each.tool_version)}</td>',
    "run": lambda base, each, beside, as_of: f'<td class="clip mono">{escape(each.run_id)}</td>',
    "id": lambda base, each, beside, as_of: f'<td class="nowrap mono">{each.id}</td>',
}
