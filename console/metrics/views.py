"""Metrics: verified shares, delays, and the actions behind every figure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django import forms
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from console.edge.http import TenantRequest, in_tenant
from console.home.views import present_standing
from console.metrics import context, figures, queries, verbs
from console.metrics.context import summary_table
from console.metrics.rules import alerts as alert_rules
from console.metrics.rules.facts import OF_ACTIONS
from console.metrics.rules.filters import MetricFilter
from console.metrics.rules.periods import MetricPeriod, period_named
from console.verbs.form import BodyForm
from console.verbs.verb import Ids, page_of
from console.web import labels
from console.web.list_page import Column, ListPage, list_context, pager_context, place_in
from console.web.spreadsheets import MOST_EXPORTED
from ledger.actions.queries import actions
from ledger.catalogue.rules.targets import target_text

if TYPE_CHECKING:
    from console.models import AlertRule

PAGE = 50
FIGURE_LIST = ListPage(
    "figure",
    page="metric-actions",
    columns=(
        Column("outcome", "Outcome", labels.outcome_label),
        Column("target", "Target", lambda row: target_text(row.target) or "erased"),
        Column("tool", "Tool", lambda row: row.tool),
        Column("agent", "Agent", lambda row: row.agent),
        Column("discrepancy", "Discrepancy", labels.finding_label),
        Column("changed", "Changed", lambda row: row.changed_at, "num"),
        Column("id", "Id", lambda row: row.id, is_usual=False),
    ),
)
CLEARED = 10
COUNT_WORDS = {
    "actions": "All actions",
    "executed": "Executed actions",
    "verified_success": "Verified actions",
    "unchanged": "Actions that found nothing to change",
    "ended_failed": "Actions that failed without an effect",
    "ended_reversed": "Actions that were compensated or rolled back",
    "ended_by_word": "Actions attested or closed by a person",
    "unsettled": "Executed actions that are not settled",
    "verification_failed": "Actions that a reading disproved",
    "read_back": "Actions that were read back",
    "mismatched": "Actions with a difference",
    "stale_reads": "Actions that were read too early or from a copy",
    "stale_state": "Actions whose target somebody else had changed",
    "partial": "Actions that were applied in part",
    "pending": "Actions that were pending",
    "pending_over_sla": "Actions that were not settled in time",
    "unknown": "Actions whose outcome was unknown",
    "duplicated": "Actions with duplicate effects",
    "repeats": "Actions that were started again",
    "repeats_absorbed": "Actions that were started again without a second effect",
    "compensations": "Actions whose compensation was started",
    "compensated": "Actions whose compensation was verified",
    "compensations_failed": "Actions whose compensation failed",
    "false_success": "Actions reported as done when they were not",
    "reviewed": "Actions that needed a person",
    "complete_records": "Actions that are complete in the ledger",
    "readings": "Actions that were read",
    "never_ran": "Actions not executed",
    "answered": "Reads that were answered",
}
"""What the list behind each count is called."""


class FigureFilterForm(forms.Form):
    """The filter of figures; every field is part of the address."""

    tool = forms.ChoiceField(required=False, label="Tool")
    agent = forms.ChoiceField(required=False, label="Agent")
    side_effect_class = forms.ChoiceField(required=False, label="Side-effect class")
    version = forms.ChoiceField(required=False, label="Verification policy")

    def __init__(self, *args: Any, known: dict[str, list[str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, field in self.fields.items():
            assert isinstance(field, forms.ChoiceField)
            worded = [
                (each, labels.sentence_case(each) if name == "side_effect_class" else each) for each in known[name]
            ]
            field.choices = [("", "Any"), *worded]

    def chosen(self) -> MetricFilter:
        """The filter of the address; unknown values do not restrict it."""
        self.is_valid()
        return MetricFilter(**{name: self.cleaned_data.get(name, "") for name in self.fields})


@in_tenant()
def page(request: TenantRequest) -> HttpResponse:
    return _page(request)


def _rule_in_force(request: TenantRequest, *, alert_rule_id: UUID) -> Ids:
    """The ids of a rule that is in force; a form about another one has no page to stand on."""
    if all(each.id != alert_rule_id for each in queries.alert_rules(request.tenant.id)):
        raise Http404
    return {"alert_rule_id": alert_rule_id}


def _page(
    request: TenantRequest,
    /,
    *,
    forms: Mapping[str, BodyForm] = MappingProxyType({}),
    alert_rule_id: UUID | None = None,
    status: int = 200,
) -> HttpResponse:
    tenant_id, may_watch = request.tenant.id, bool({"operator", "administrator"} & request.caller.roles)
    rules = queries.alert_rules(tenant_id)
    new_rule = forms.get("make_rule") or verbs.MAKE_RULE.form(auto_id="id_rule_%s")
    new_rule.order_fields(("metric", "window_h", "tool", "agent", "side_effect_class"))
    period = period_named(request.GET.get("period", ""), at=request.as_of)
    form = _form(request, period)
    report = figures.metric_report(request.tenant.id, period, form.chosen())
    shown = context.metrics_context(request, report) | {
        "here": "metrics",
        "now": present_standing(request),
        "tabs": context.metric_tabs(request, "metrics"),
        "periods": context.period_tabs(request.path, request.GET.dict(), period.name),
        "period": period,
        "filters": form,
        "kept": {"period": period.name},
        "alerts": queries.alerts(tenant_id, is_open=True, limit=alert_rules.MOST_RULES),
        "cleared_alerts": queries.alerts(tenant_id, is_open=False, limit=CLEARED),
        "alert_rules": [_rule(each, forms if each.id == alert_rule_id else {}) for each in rules],
        "may_watch": may_watch,
        "rules_open": status != 200,
        "new_rule": new_rule,
    }
    name = "metrics/_page.html" if request.htmx else "metrics/page.html"
    return render(request, name, shown, status=status)


def _rule(rule: AlertRule, refused: Mapping[str, BodyForm]) -> dict[str, Any]:
    now = {name: getattr(rule, name) for name in ("raise_at", "clear_at", "least_cases", "hold_min")}
    return {
        "row": rule,
        "said": alert_rules.describe_rule(queries.terms_of(rule)),
        "change": refused.get("change_rule") or verbs.CHANGE_RULE.form(initial=now, auto_id=f"id_{rule.id}_%s"),
        "end": refused.get("end_rule") or verbs.END_RULE.form(auto_id=f"id_{rule.id}_end_%s"),
    }


def _home(request: TenantRequest, ids: Ids, result: Any) -> str:
    return reverse("metrics", args=[request.tenant.slug])


make_alert_rule = page_of(verbs.MAKE_RULE, home=_home, render=_page, keeps=True)
change_alert_rule = page_of(verbs.CHANGE_RULE, home=_home, render=_page, keeps=True, api_ids=_rule_in_force)
end_alert_rule = page_of(verbs.END_RULE, home=_home, render=_page, api_ids=_rule_in_force)


@in_tenant()
def export(request: TenantRequest) -> HttpResponse:
    """The figures of the page as a table."""
    period = period_named(request.GET.get("period", ""), at=request.as_of)
    report = figures.metric_report(request.tenant.id, period, _form(request, period).chosen())
    answer = HttpResponse(summary_table(report), content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = 'attachment; filename="metrics.csv"'
    return answer


class _BehindForm(forms.Form):
    """The address of the list that a count refers to, as `figures.query_behind` writes it."""

    count = forms.ChoiceField(choices=[(name, name) for name in OF_ACTIONS])
    start = forms.DateTimeField()
    end = forms.DateTimeField()


@in_tenant()
def list_actions(request: TenantRequest) -> HttpResponse:
    form, about = _behind_form(request), _behind_filter(request)
    rows = _actions_behind(request, before=place_in(request, "before"), limit=PAGE + 1)
    shown = {
        "here": "metrics",
        "title": COUNT_WORDS.get(request.GET.get("count", ""), "Actions"),
        "about": form.cleaned_data if form.is_valid() else None,
        "narrowed": list(about.columns().values()),
        "rows": rows[:PAGE],
        **list_context(request, FIGURE_LIST),
        **pager_context(request, FIGURE_LIST, rows, PAGE, place="before"),
    }
    return render(request, "metrics/_actions.html" if request.htmx else "metrics/actions.html", shown)


def exported_actions(request: TenantRequest) -> list[Any]:
    """Return the actions that a figure counts."""
    return _actions_behind(request, limit=MOST_EXPORTED)


def _actions_behind(request: TenantRequest, *, before: UUID | None = None, limit: int) -> list[Any]:
    form = _behind_form(request)
    if not form.is_valid():
        return []
    wanted = form.cleaned_data
    ids = queries.actions_behind(
        request.tenant.id,
        wanted["count"],
        since=wanted["start"],
        until=wanted["end"],
        about=_behind_filter(request),
        before=before,
        limit=limit,
    )
    found = actions.actions_by_id(request.tenant.id, ids)
    return [found[each] for each in ids if each in found]


def _behind_form(request: TenantRequest) -> _BehindForm:
    given = request.GET
    return _BehindForm({"count": given.get("count"), "start": given.get("from"), "end": given.get("to")})


def _behind_filter(request: TenantRequest) -> MetricFilter:
    return MetricFilter(*(request.GET.get(name, "") for name in ("tool", "agent", "class", "version")))


def _form(request: TenantRequest, period: MetricPeriod) -> FigureFilterForm:
    known = queries.known_values(request.tenant.id, since=period.earlier.since, until=period.until)
    return FigureFilterForm(request.GET, known=known)
