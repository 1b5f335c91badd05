"""Metrics: how often what agents did was proved, how long that took, and the actions behind every figure."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.http import HttpResponse
from django.shortcuts import render

from console.api.metrics.summary import summary_table
from console.metrics import figures, queries
from console.metrics.rules.facts import OF_ACTIONS
from console.metrics.rules.filters import MetricFilter
from console.metrics.rules.periods import MetricPeriod, period_named
from console.pages.metrics import context
from console.web import labels
from console.web.http import TenantRequest, in_tenant
from ledger.actions.queries import actions
from ledger.verification.queries import storage

PAGE = 50
COUNT_WORDS = {
    "actions": "All actions",
    "executed": "Executed actions",
    "verified_success": "Verified actions",
    "ended_failed": "Actions that failed without an effect",
    "ended_reversed": "Actions that were compensated or rolled back",
    "ended_by_word": "Actions that a person's word settled",
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
    "duplicated": "Actions that happened more than once",
    "repeats": "Actions that were started again",
    "repeats_absorbed": "Actions that were started again without a second effect",
    "compensations": "Actions whose compensation was begun",
    "compensated": "Actions whose compensation was verified",
    "compensations_failed": "Actions whose compensation failed",
    "false_success": "Actions told as done when they were not",
    "reviewed": "Actions that needed a person",
    "complete_records": "Actions that are complete in the ledger",
    "readings": "Actions that were read",
    "never_ran": "Actions that never ran",
    "answered": "Reads that were answered",
}
"""What the list behind each count is called."""


class FigureFilterForm(forms.Form):
    """What figures are about; every field stands in the address."""

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
        """The filter; what is not known narrows nothing."""
        self.is_valid()
        return MetricFilter(**{name: self.cleaned_data.get(name, "") for name in self.fields})


@in_tenant()
def page(request: TenantRequest) -> HttpResponse:
    period = period_named(request.GET.get("period", ""), at=request.as_of)
    form = _form(request, period)
    report = figures.metric_report(request.tenant.id, period, form.chosen())
    shown = context.metrics_context(request, report) | {
        "here": "metrics",
        "tabs": context.metric_tabs(request, "metrics"),
        "periods": context.period_tabs(request.path, request.GET.dict(), period.name),
        "period": period,
        "filters": form,
        "kept": {"period": period.name},
    }
    return render(request, "metrics/_page.html" if request.htmx else "metrics/page.html", shown)


@in_tenant()
def export(request: TenantRequest) -> HttpResponse:
    """The figures of the page as a table."""
    period = period_named(request.GET.get("period", ""), at=request.as_of)
    report = figures.metric_report(request.tenant.id, period, _form(request, period).chosen())
    answer = HttpResponse(summary_table(report), content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = 'attachment; filename="metrics.csv"'
    return answer


class _BehindForm(forms.Form):
    """The address of a list behind a count, as `figures.query_behind` writes it."""

    count = forms.ChoiceField(choices=[(name, name) for name in OF_ACTIONS])
    start = forms.DateTimeField()
    end = forms.DateTimeField()


@in_tenant()
def list_actions(request: TenantRequest) -> HttpResponse:
    given = request.GET
    form = _BehindForm({"count": given.get("count"), "start": given.get("from"), "end": given.get("to")})
    about = MetricFilter(
        given.get("tool", ""), given.get("agent", ""), given.get("class", ""), given.get("version", "")
    )
    rows: list[Any] = []
    if form.is_valid():
        wanted = form.cleaned_data
        ids = queries.actions_behind(
            request.tenant.id,
            wanted["count"],
            since=wanted["start"],
            until=wanted["end"],
            about=about,
            before=_before(request),
            limit=PAGE + 1,
        )
        found = actions.actions_by_id(request.tenant.id, ids)
        rows = [found[each] for each in ids if each in found]
    shown = {
        "here": "metrics",
        "title": COUNT_WORDS.get(given.get("count", ""), "Actions"),
        "about": form.cleaned_data if form.is_valid() else None,
        "narrowed": list(about.columns().values()),
        "rows": rows[:PAGE],
        "older": _older(request, rows[PAGE - 1].id) if len(rows) > PAGE else "",
    }
    return render(request, "metrics/_actions.html" if request.htmx else "metrics/actions.html", shown)


def _form(request: TenantRequest, period: MetricPeriod) -> FigureFilterForm:
    known = queries.known_values(request.tenant.id, since=period.earlier.since, until=period.until)
    return FigureFilterForm(request.GET, known=known)


def _before(request: TenantRequest) -> UUID | None:
    asked = request.GET.get("before", "")
    return UUID(asked) if storage.is_uuid(asked) else None


def _older(request: TenantRequest, last: UUID) -> str:
    kept = request.GET.copy()
    kept["before"] = str(last)
    return f"{request.path}?{kept.urlencode()}"
