"""Calls at the gate: unknown tools, the trend of their share, and the list behind every number."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse

from approvals.agents import queries as agents_queries
from approvals.agents.rules import acceptance
from approvals.agents.rules.acceptance import CallTally
from approvals.gate import queries as gate_queries
from console.agents.views import agent_tabs
from console.calls import context as calls_context
from console.calls.context import Period
from console.edge.http import TenantRequest, in_tenant
from console.web import charts
from console.web.forms import PlainSelect
from console.web.list_page import (
    Column,
    FilterNotValid,
    ListPage,
    export_address,
    list_context,
    pager_context,
    place_in,
)
from console.web.spreadsheets import MOST_EXPORTED
from reviews.reporting.rules.success_patterns import MEANINGS, PATTERNS

PAGE = 50
OUTCOMES = [
    ("", "Any outcome"),
    ("accepted", "Accepted"),
    ("refused", "Refused"),
    ("phantom", "Tool does not exist"),
    ("argument", "Wrong arguments"),
    ("undisclosed", "Tool not disclosed"),
    ("failed", "Accepted, then the tool failed"),
]
CALLS_LIST = ListPage(
    "calls",
    ("period", "from", "to", "agent", "tool", "outcome", "code", "tier", "least", "most"),
    "tool",
    (
        Column("tool", "Tool", lambda row: row.tool),
        Column("outcome", "Outcome", lambda row: "Accepted" if row.accepted else "Refused"),
        Column("code", "Code", lambda row: "" if row.accepted else row.code, is_usual=False),
        Column("reason", "Reason", lambda row: row.reason),
        Column("agent", "Agent", lambda row: row.agent_id),
        Column("disclosed", "Tools shown", lambda row: row.disclosed, "num roomy"),
        Column("tier", "Model tier", lambda row: row.model_tier, "roomy"),
        Column("at", "When", lambda row: row.at, "num", ("oldest", "")),
        Column("action", "Action id", lambda row: row.action_id, is_usual=False),
        Column("session", "Session id", lambda row: row.session_id, is_usual=False),
        Column("id", "Id", lambda row: row.id, is_usual=False),
    ),
)
WORDS = {"agent": "Agent", "tool": "Tool", "tier": "Model tier", "disclosed": "Tools disclosed"}
HALLUCINATIONS_LIST = ListPage(
    "call-rates",
    page="hallucinations",
    columns=(
        Column("by", "By", lambda row: row["word"]),
        Column("rate", "Unknown-tool rate", lambda row: row["phantom_share"]),
        Column("acceptance", "Accepted", lambda row: row["acceptance"]),
        *(
            Column(name, word, lambda row, place=place: row["doors"][place]["count"])  # type: ignore[misc]
            for place, (name, word) in enumerate(
                {
                    "calls": "Calls",
                    "unknown": "Unknown tool",
                    "arguments": "Wrong arguments",
                    "failed": "Tool failed",
                    "refused": "Refused",
                }.items()
            )
        ),
    ),
)


class CallFilter(forms.Form):
    """The filter of calls; every field is part of the address."""

    agent = forms.CharField(required=False, max_length=128, widget=forms.TextInput(attrs={"type": "search"}))
    tool = forms.CharField(required=False, max_length=200, widget=forms.TextInput(attrs={"type": "search"}))
    outcome = forms.ChoiceField(required=False, choices=OUTCOMES, widget=PlainSelect)
    code = forms.CharField(required=False, max_length=40, widget=forms.HiddenInput)
    tier = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)
    least = forms.IntegerField(required=False, min_value=0, widget=forms.HiddenInput)
    most = forms.IntegerField(required=False, min_value=0, widget=forms.HiddenInput)

    def about(self, tenant_id: UUID, over: Period) -> dict[str, Any]:
        """The requested columns."""
        given = self.cleaned_data
        named = {"agent_id": given["agent"], "tool": given["tool"], "code": given["code"]}
        bounds = {"disclosed__gte": given["least"], "disclosed__lte": given["most"]}
        about = calls_context.outcome_filter(given["outcome"], tenant_id=tenant_id, over=over)
        about |= {name: value for name, value in named.items() if value}
        about |= {name: value for name, value in bounds.items() if value is not None}
        if "tier" in self.data:
            about["model_tier"] = given["tier"]
        return about


@in_tenant()
def list_calls(request: TenantRequest) -> HttpResponse:
    form, over = CallFilter(request.GET), calls_context.chosen_period(request.GET, at=request.as_of)
    found = _find_calls(request, form, over, before=place_in(request, "before"), limit=PAGE + 1)
    context = {
        "here": "agents",
        "tabs": agent_tabs(request, "calls"),
        "periods": calls_context.period_tabs(request.path, request.GET.dict(), over),
        "period": over,
        "filters": form,
        "kept": {"period": over.name},
        "calls": [_call(request, each) for each in found[:PAGE]],
        "answer": _blocked_sentence(request, over) if not form.changed_data else "",
        **pager_context(request, CALLS_LIST, found, PAGE, place="before"),
        **list_context(request, CALLS_LIST),
    }
    return render(request, "calls/_list.html" if request.htmx else "calls/list.html", context)


def _blocked_sentence(request: TenantRequest, over: Period) -> str:
    """The share of the calls of the period that was blocked, as a sentence."""
    made = gate_queries.call_tally(request.tenant.id, since=over.since, until=over.until)
    return _share_sentence(made.made - made.accepted, made.made, over, ("was blocked", "were blocked"))


def _share_sentence(some: int, made: int, over: Period, told: tuple[str, str]) -> str:
    if not made:
        return f"No call was made in the last {over.word}."
    of = f"the newest {made:,} calls" if made >= gate_queries.MOST_CALLS else f"{made:,} call{'s' if made > 1 else ''}"
    return f"{f'{some:,}' if some else 'None'} of {of} of the last {over.word} {told[some != 1 and made != 1]}."


def exported_rows(request: TenantRequest) -> list[Any]:
    """The first calls that the list shows."""
    form = CallFilter(request.GET)
    if not form.is_valid():
        raise FilterNotValid
    return _find_calls(request, form, calls_context.chosen_period(request.GET, at=request.as_of), limit=MOST_EXPORTED)


def _find_calls(
    request: TenantRequest, form: CallFilter, over: Period, *, before: UUID | None = None, limit: int
) -> list[Any]:
    about = form.about(request.tenant.id, over) if form.is_valid() else {}
    return gate_queries.calls_page(
        request.tenant.id,
        since=over.since,
        until=over.until,
        before=before,
        oldest=CALLS_LIST.sort(request.GET) == "oldest",
        limit=limit,
        **about,
    )


@in_tenant()
def hallucinations(request: TenantRequest) -> HttpResponse:
    tenant, slug = request.tenant.id, request.tenant.slug
    by, over, found = _rates(request)
    made, earlier = found.by_step, found.earlier
    now = acceptance.sum_tallies(made.values())
    context = {
        "here": "agents",
        "tabs": agent_tabs(request, "hallucinations"),
        "periods": calls_context.period_tabs(request.path, request.GET.dict(), over),
        "period": over,
        "tally": now,
        "answer": _share_sentence(now.phantom, now.made, over, ("names an unknown tool", "name an unknown tool")),
        "figures": _compare_figures(now, earlier, slug, over),
        "chart": calls_context.rate_charts(made, over),
        "checklist": acceptance.CHECKLIST,
        "patterns": _patterns(tenant, over),
        "flagged": agents_queries.flagged_agents(tenant),
        "slices": [
            {
                "href": f"{request.path}?{urlencode({'period': over.name, 'by': name})}",
                "word": word,
                "current": name == by,
            }
            for name, word in WORDS.items()
        ],
        "by": WORDS[by],
        "lines": _lines(request, by, over, found.by_column),
        "export": export_address(request, HALLUCINATIONS_LIST),
        "cut_off": now.made >= gate_queries.MOST_CALLS,
        "most": gate_queries.MOST_CALLS,
    }
    name = "calls/_hallucinations.html" if request.htmx else "calls/hallucinations.html"
    return render(request, name, context)


def exported_rates(request: TenantRequest) -> list[dict[str, Any]]:
    """The rates of the period, by the labels of the page."""
    by, over, found = _rates(request)
    return _lines(request, by, over, found.by_column)


def _rates(request: TenantRequest) -> tuple[str, Period, Any]:
    over = calls_context.period_ending_at(request.GET.get("period", ""), at=request.as_of)
    by = request.GET.get("by", "") if request.GET.get("by", "") in calls_context.SLICES else "agent"
    found = gate_queries.two_periods(
        request.tenant.id,
        calls_context.SLICES[by],
        before=over.before.since,
        since=over.since,
        until=over.until,
        step=over.step,
    )
    return by, over, found


def _patterns(tenant_id: UUID, over: Period) -> list[dict[str, Any]]:
    """The fourteen patterns of hallucinated success, with how often each was met."""
    met = calls_context.patterns_in_period(tenant_id, since=over.since, until=over.until)
    return [
        {"code": code, "name": PATTERNS[code], "meaning": MEANINGS[code], "times": times} for code, times in met.items()
    ]


def _compare_figures(now: CallTally, earlier: CallTally, slug: str, over: Period) -> list[dict[str, Any]]:
    """Each figure with that of the period before."""
    figures = calls_context.rate_figures(now, lambda **about: calls_context.calls_href(slug, over, **about))
    past = calls_context.rate_figures(earlier, lambda **about: "")
    return [figure | {"before": old["figure"]} for figure, old in zip(figures, past, strict=True)]


def _lines(request: TenantRequest, by: str, over: Period, made: dict[Any, CallTally]) -> list[dict[str, Any]]:
    found = calls_context.tallies_by(by, made)
    # What does worst comes first; a table of invented names has no end.
    order = sorted(found.items(), key=lambda each: (-each[1].phantom, -each[1].made, str(each[0])))
    return [_line(request.tenant.slug, by, key, tally, over) for key, tally in order[: calls_context.MOST_LINES]]


def _line(slug: str, by: str, key: Any, tally: CallTally, over: Period) -> dict[str, Any]:
    about = {"least": key[0], "most": key[1]} if by == "disclosed" else {by: key}
    word = _band(key) if by == "disclosed" else key or "not said"
    return {
        "word": word,
        "phantom_share": charts.format_percent(tally.phantom_share),
        "unhealthy": tally.healthy is False,
        "acceptance": charts.format_percent(tally.acceptance_rate),
        "doors": [
            {"count": count, "href": calls_context.calls_href(slug, over, **about, outcome=outcome)}
            for count, outcome in (
                (tally.made, None),
                (tally.phantom, "phantom"),
                (tally.argument, "argument"),
                (tally.failed, "failed"),
                (tally.refused, "refused"),
            )
        ],
    }


def _band(key: tuple[int, int | None]) -> str:
    low, high = key
    return f"more than {low - 1}" if high is None else f"{low} to {high}"


def _call(request: TenantRequest, call: Any) -> dict[str, Any]:
    slug = request.tenant.slug
    page = ("action", call.action_id) if call.action_id else ("session", call.session_id)
    return {"row": call, "href": reverse(page[0], args=[slug, page[1]])}
