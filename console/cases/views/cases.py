"""The queue of cases, and the page on which a person settles one."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse, JsonResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from console.accounts import queries as directory
from console.accounts.queries import actor_names
from console.actions.action_record import payloads_of
from console.actions.erased_pages import erased_page
from console.approvals.schemas import Challenge
from console.cases import settlement_signing, verbs
from console.cases.context import case_context
from console.cases.ungated_effects import ungated_context
from console.edge.auth import NotAllowed
from console.edge.http import TenantRequest, in_tenant, record_page_view, undo_if_refused
from console.edge.transaction import json_response
from console.verbs.form import BodyForm
from console.verbs.verb import Ids, page_of
from console.web import labels
from console.web.forms import BatchForm, CaseFilter, ConfirmationForm, ResolutionForm
from console.web.labels import action_title
from console.web.list_page import Column, FilterNotValid, ListPage, amount_column, list_context, pager_context
from console.web.spreadsheets import MOST_EXPORTED
from ledger.actions.queries import actions as actions_queries
from ledger.catalogue.rules.money import amount_of
from ledger.catalogue.rules.targets import target_text
from ledger.record.rules.outcomes import Outcome, outcome_of
from ledger.record.rules.refusals import ProofNeeded, Refused
from reviews import queries
from reviews.cases.operations import cases
from reviews.cases.rules import resolutions
from reviews.cases.rules.batches import MOST
from reviews.reporting.queries import money_differences
from reviews.reporting.rules.at_stake import MoneyDifference, describe_stake

if TYPE_CHECKING:
    from reviews.models import Case

CASES_LIST = ListPage(
    "cases",
    ("tab", *CaseFilter.base_fields),
    "case",
    (
        Column("case", "Case", lambda row: target_text(row["row"].target)),
        amount_column(lambda row: row["payload"]),
        Column(
            "reason",
            "Reason",
            lambda row: row["found"],
            sorts=("discrepancy", "discrepancy"),
            more={"Reason detail": lambda row: row["reason"]},
        ),
        Column("state", "State", lambda row: labels.CASES.get(row["row"].state, row["row"].state)),
        Column(
            "class",
            "Class",
            lambda row: labels.side_effect_class_label(row["row"].side_effect_class),
            "roomy",
            more={"Severity": lambda row: row["row"].severity},
        ),
        Column("owner", "Owner", lambda row: row["owner"], sorts=("owner", "owner")),
        Column(
            "age",
            "Opened",
            lambda row: row["row"].opened_at,
            "num",
            ("oldest", "newest"),
            {"Settled": lambda row: row["row"].resolved_at},
        ),
        Column("tool", "Tool", lambda row: row["row"].tool, is_usual=False),
        Column(
            "id", "Id", lambda row: row["row"].id, more={"Action id": lambda row: row["row"].action_id}, is_usual=False
        ),
    ),
    orders=("reason",),
)
TABS = {"": "Open", "mine": "Mine", "free": "Unassigned", "snoozed": "Snoozed", "settled": "Settled"}
PAGE = 50


@in_tenant()
def list_cases(request: TenantRequest) -> HttpResponse:
    tab = request.GET.get("tab", "")
    if tab not in TABS:
        raise Http404
    filters = case_filter(request)
    after = _parse_uuid(request.GET.get("after", ""))
    found = found_cases(request, tab, filters, after=after, limit=PAGE + 1)
    shown = found[:PAGE]
    concerned = [each.action_id for each in shown if each.action_id]
    known = {} if tab == "settled" else money_differences(request.tenant.id, concerned)
    rows = _rows(request, shown, known)
    context = {
        "here": "cases",
        "at_stake": "" if tab == "settled" else describe_stake((row["payload"], row["known"]) for row in rows),
        "tabs": queue_tabs(request, tab),
        "batch": _batch(request),
        "beside": f"cases?{request.GET.urlencode()}".rstrip("?") if tab in ("", "mine", "free") else "",
        "cases": rows,
        **list_context(request, CASES_LIST, sort="" if tab == "settled" else None),
        "order": "newest first" if tab == "settled" else _order(filters),
        "filters": filters,
        "kept": {"tab": tab} if tab else {},
        **pager_context(request, CASES_LIST, found, PAGE),
        "empty": _EMPTY.get(tab, "No open case here"),
    }
    return render(request, "cases/_list.html" if request.htmx else "cases/list.html", context)


def exported_rows(request: TenantRequest) -> list[dict[str, Any]]:
    """The rows of a tab; of payloads only the amount, if its column was chosen."""
    tab = request.GET.get("tab", "")
    if tab not in TABS:
        raise Http404
    filters = case_filter(request)
    if not filters.is_valid():
        raise FilterNotValid
    found = found_cases(request, tab, filters, limit=MOST_EXPORTED)
    called = actor_names(request.tenant.id)
    concerned = actions_queries.actions_by_id(request.tenant.id, [each.action_id for each in found if each.action_id])
    payloads = payloads_of(request.tenant.id, concerned.values()) if "amount" in request.GET.getlist("columns") else {}
    accepted = queries.accepted_differences(request.tenant.id, concerned.values())
    return [
        {
            "row": each,
            "payload": payloads.get(each.action_id, {}),
            "owner": called.get(each.claimed_by, "") if each.claimed_by else "",
            **_case_title(each, accepted.get(each.action_id, "")),
        }
        for each in found
    ]


_EMPTY = {"settled": "No settled case", "snoozed": "No snoozed case"}


@in_tenant()
def case(request: TenantRequest, case_id: UUID) -> HttpResponse:
    page = erased_page(request, "case", case_id) or render_case(request, case_id)
    found = queries.case(request.tenant.id, case_id)
    record_page_view(request, "case", case_id, found.action_id if found else None)
    return page


@in_tenant("operator")
@require_POST
def resolve(request: TenantRequest, case_id: UUID) -> HttpResponse:
    form = ResolutionForm(request.POST, allowed=resolutions.Resolution)
    if not form.is_valid():
        return render_case(request, case_id, resolution=form, status=422)

    def settle() -> str:
        return cases.resolve(
            tenant_id=request.tenant.id,
            case_id=case_id,
            resolution=resolutions.Resolution(form.cleaned_data["resolution"]),
            reason=form.cleaned_data["reason"],
            evidence=form.pieces(),
            by=request.caller.actor,
            proof=settlement_signing.verified_proof(request, request.caller, case_id, given, at=request.as_of),
            at=request.as_of,
        )

    try:
        given = settlement_signing.verify_identity(request, form.cleaned_data, request.user)
        if not given.evidence_class:
            raise ProofNeeded(WRONG_PROOF)
        with undo_if_refused(request):
            state = settle()
    except Refused as refusal:
        return _render_refusal(request, case_id, refusal, form)
    reads_again = form.cleaned_data["resolution"] in resolutions.LOOKS and state == "RESOLVED"
    messages.success(request, _READ_AGAIN if reads_again else _SAVED.get(state, "Recorded. The case stays open."))
    return redirect("case", request.tenant.slug, case_id)


_READ_AGAIN = "The system of record will be read again. If the difference is still there, a new case opens."
_SAVED = {"RESOLVED": "Case resolved.", "AWAITING_SECOND": "Proposed. A second approver must confirm it."}
WRONG_PROOF = "Wrong password or code. Nothing was saved."


@in_tenant("operator", "reviewer")
@require_POST
def confirm(request: TenantRequest, case_id: UUID) -> HttpResponse:
    form = ConfirmationForm(request.POST)
    if not form.is_valid():
        messages.error(request, "Nothing was saved: choose confirm or return.")
        return render_case(request, case_id, status=422)
    try:
        given = _identify_second(request, form) if form.accepted() else None
        with undo_if_refused(request):
            proof = (
                settlement_signing.verified_proof(request, request.caller, case_id, given, at=request.as_of)
                if given is not None
                else None
            )
            cases.confirm(
                tenant_id=request.tenant.id,
                case_id=case_id,
                accept=form.accepted(),
                by=request.caller.actor,
                proof=proof,
                at=request.as_of,
            )
    except Refused as refusal:
        return _render_refusal(request, case_id, refusal, None)
    messages.success(request, "Confirmed. Case resolved." if form.accepted() else "Returned. The case is open again.")
    return redirect("case", request.tenant.slug, case_id)


def _identify_second(request: TenantRequest, form: ConfirmationForm) -> settlement_signing.GivenProof:
    given = settlement_signing.verify_identity(request, form.cleaned_data, request.user)
    if not given.evidence_class:
        raise ProofNeeded(WRONG_PROOF)
    return given


@in_tenant("operator", "reviewer")
@require_POST
def challenge(request: TenantRequest, case_id: UUID) -> HttpResponse:
    """Create the passkey challenge for the page's script; refusals have the API's form."""
    try:
        with undo_if_refused(request):
            asked = settlement_signing.create_challenge(
                request, request.caller, case_id, _settlement_draft(request), at=request.as_of
            )
    except Refused as refusal:
        return JsonResponse({"code": refusal.code, "detail": refusal.detail}, status=refusal.status)
    return json_response(Challenge.of(asked), 201)


def _settlement_draft(request: TenantRequest) -> settlement_signing.SettlementDraft:
    """Return the settlement to sign: a resolution by an operator, otherwise the confirmation of a proposal."""
    if "resolution" not in request.POST:
        form = ConfirmationForm({**request.POST.dict(), "answer": "confirm"})
        covers = form.cleaned_data["covers"] if form.is_valid() else ""
        return settlement_signing.SettlementDraft(covers=covers, credential_id=request.POST.get("credential_id", ""))
    if "operator" not in request.caller.roles:
        raise NotAllowed
    wish = ResolutionForm(request.POST, allowed=resolutions.Resolution)
    if not wish.is_valid():
        raise resolutions.EvidenceMissing
    held = wish.cleaned_data
    return settlement_signing.SettlementDraft(
        covers=held["covers"],
        resolution=resolutions.Resolution(held["resolution"]),
        reason=held["reason"],
        evidence=wish.pieces(),
        credential_id=held["credential_id"],
    )


def _render_refusal(
    request: TenantRequest, case_id: UUID, refusal: Refused, form: ResolutionForm | None
) -> HttpResponse:
    """The page as it is now, with the typed text and the reason of the refusal."""
    if refusal.status == 404:
        raise refusal
    return render_case(request, case_id, resolution=form, refusal=refusal, status=refusal.status)


def render_case(
    request: TenantRequest,
    /,
    case_id: UUID,
    *,
    resolution: ResolutionForm | None = None,
    forms: Mapping[str, BodyForm] = MappingProxyType({}),
    refusal: Refused | None = None,
    status: int = 200,
) -> HttpResponse:
    """Return the case page, with the incomplete form if there is one."""
    found = queries.case(request.tenant.id, case_id)
    if found is None:
        raise Http404
    tell = case_context if found.action_id else ungated_context
    page = tell(request.tenant, found, caller=request.caller, at=request.as_of)
    context = {
        "here": "cases",
        "cases_href": reverse("cases", args=[request.tenant.slug]),
        "case": page,
        "refusal": refusal,
        "typed": _unoffered_text(page, resolution) if refusal else None,
        "form": resolution or ResolutionForm(allowed=[]),
        "comment_form": forms.get("comment") or verbs.COMMENT.form(),
    }
    return render(request, "cases/_detail.html" if request.htmx else "cases/detail.html", context, status=status)


def _unoffered_text(page: dict[str, Any], form: ResolutionForm | None) -> dict[str, str] | None:
    """Return the text typed into a form that the page no longer offers, so that it is not lost."""
    offered = {each["code"] for group in page["ways"] for each in group["choices"]} if page["may_settle"] else set()
    if form is None or form.data.get("resolution") in offered:
        return None
    return {name: form.data.get(name, "") for name in ("reason", "evidence")}


def case_filter(request: TenantRequest, query: QueryDict | None = None) -> CaseFilter:
    """The filters of an address, over the choices of this tenant."""
    seen = CASES_LIST.without_faults(request.GET) if query is None else query
    return CaseFilter(seen, owners=_owners(request), reasons=queries.open_case_reasons(request.tenant.id))


def _owners(request: TenantRequest) -> list[tuple[str, str]]:
    return [(str(actor), name) for actor, name in directory.operators(request.tenant.id).items()]


def _batch(request: TenantRequest) -> dict[str, Any] | None:
    """The bulk bar for cases; for operators only."""
    if "operator" not in request.caller.roles:
        return None
    return {
        "form": BatchForm(owners=_owners(request), auto_id="batch-%s"),
        "href": reverse("batches", args=[request.tenant.slug]),
        "filter": request.GET.urlencode(),
        "most": MOST,
    }


def found_cases(
    request: TenantRequest, tab: str, filters: CaseFilter, *, after: UUID | None = None, limit: int = PAGE
) -> list[Any]:
    """The cases that a tab shows under its filters."""
    wanted = filters.wanted(as_of=request.as_of) if filters.is_valid() else {}
    if tab in ("mine", "free"):
        wanted["owner"] = request.caller.actor.id if tab == "mine" else None
    name = tab if tab in ("snoozed", "settled") else "open"
    sort = filters.cleaned_data.get("sort", "")
    return queries.cases_on_tab(
        request.tenant.id, name, sort=sort, at=request.as_of, after=after, limit=limit, **wanted
    )


def _order(filters: CaseFilter) -> str:
    chosen = filters.cleaned_data.get("sort", "")
    return "Most severe first, then oldest" if not chosen else dict(filters.fields["sort"].choices)[chosen].lower()  # type: ignore[attr-defined]


def queue_tabs(request: TenantRequest, current: str) -> list[dict[str, Any]]:
    """The tabs of the queue, and the batches."""
    here = reverse("cases", args=[request.tenant.slug])
    tabs = [(name, word, f"{here}?tab={name}" if name else here) for name, word in TABS.items()]
    if "operator" in request.caller.roles:
        tabs.append(("batches", "Batches", reverse("batches", args=[request.tenant.slug])))
    return [{"href": href, "word": word, "current": name == current} for name, word, href in tabs]


def _parse_uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _rows(request: TenantRequest, found: list[Any], known: Mapping[UUID, MoneyDifference]) -> list[dict[str, Any]]:
    actions = actions_queries.actions_by_id(request.tenant.id, [each.action_id for each in found if each.action_id])
    called = actor_names(request.tenant.id)
    payloads = payloads_of(request.tenant.id, actions.values())
    accepted = queries.accepted_differences(request.tenant.id, actions.values())
    return [
        {
            "row": each,
            "href": reverse("case", args=[request.tenant.slug, each.id]),
            "title": action_title(actions[each.action_id].operation_kind, each.target)
            if each.action_id
            else target_text(each.target),
            "payload": payloads.get(each.action_id, {}),
            "known": known.get(each.action_id),
            "damage": describe_stake([(payloads.get(each.action_id, {}), known.get(each.action_id))])
            if each.state != "RESOLVED"
            else "",
            "amount": amount_of(payloads.get(each.action_id)),
            **_case_title(each, accepted.get(each.action_id, "")),
            "action": actions.get(each.action_id),
            "only_waits": each.action_id in actions and outcome_of(actions[each.action_id]) is Outcome.NEEDS_REVIEW,
            "owner": called.get(each.claimed_by, "") if each.claimed_by else "",
            "snoozed": bool(each.snoozed_until and each.snoozed_until > request.as_of),
        }
        for each in found
    ]


def _case_title(case: Case, accepted: str) -> dict[str, str]:
    """The title of a case; for a settled one the settlement (with the accepted difference) and the earlier finding."""
    label = labels.case_label(case)
    if case.state == "RESOLVED":
        return {"found": labels.settled_label(case.resolution, accepted), "reason": f"Earlier: {label.lower()}"}
    return {"found": label, "reason": labels.case_reason_label(case.reason) if case.discrepancy else ""}


def _home(request: TenantRequest, ids: Ids, result: Any) -> str:
    return reverse("case", args=[request.tenant.slug, ids["case_id"]])


claim = page_of(verbs.CLAIM, home=_home)
release = page_of(verbs.RELEASE, home=_home)
assign = page_of(verbs.ASSIGN, home=_home, render=render_case)
snooze = page_of(verbs.SNOOZE, home=_home, render=render_case)
wake = page_of(verbs.WAKE, home=_home)
reopen = page_of(verbs.REOPEN, home=_home, render=render_case)
comment = page_of(verbs.COMMENT, home=_home, render=render_case)
