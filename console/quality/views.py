"""Reviewer quality as a page: the last month in words, as far as the tenant allows this reader to see it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render

from console.edge.http import TenantRequest, in_tenant
from console.metrics.context import metric_tabs
from console.quality.context import reviewer_quality

DAYS = 30


@in_tenant()
def page(request: TenantRequest) -> HttpResponse:
    found = reviewer_quality(request.caller, since=request.as_of - timedelta(days=DAYS), until=request.as_of)
    reports = [
        {
            "by": each["by"],
            "withheld": each["withheld"],
            "rows": [{"name": row["name"], "said": describe_row(row)} for row in each["rows"]],
        }
        for each in found["reports"]
    ]
    context = {
        "here": "approvals",
        "tabs": metric_tabs(request, "quality"),
        "quality": found,
        "reports": reports,
        "days": DAYS,
        "answer": quickest_sentence(found),
    }
    return render(request, "quality/_page.html" if request.htmx else "quality/page.html", context)


def quickest_sentence(found: dict[str, Any]) -> str:
    """The rule, agent, tool or person with the most votes faster than reading, as far as this reader may see."""
    if found["privacy"] == "off":
        return "The approval policy keeps no figures of reviewers."
    rows: list[dict[str, Any]] = next((each["rows"] for each in found["reports"] if each["rows"]), [])
    known = [row for row in rows if row["quick"] is not None]
    if not known:
        return f"No figure of the last {DAYS} days can be shown: there are too few decisions, or you may not see them."
    most = max(known, key=lambda row: row["quick"])
    if not most["quick"]:
        return f"No vote that is shown of the last {DAYS} days was faster than reading."
    return f"Most often faster than reading in the last {DAYS} days: {most['name']}, {most['quick']:.0%} of its votes."


def describe_row(row: dict[str, Any]) -> str:
    """Describe one row in words, without unknown values."""
    people = "1 person" if row["people"] == 1 else f"{row['people']} people"
    votes = "1 vote" if row["votes"] == 1 else f"{row['votes']} votes"
    parts = [
        f"{votes} of {people}",
        _share(row["rejected"], "not approved"),
        f"half of them within {row['served_median_s']:.0f} s" if row["served_median_s"] is not None else "",
        _share(row["quick"], "faster than reading"),
        _share(row["blind"], "with nothing opened"),
        _share(row["wrong"], f"of {row['settled']} settled later proved wrong")
        if row["settled"]
        else "none settled yet",
    ]
    return "; ".join(part for part in parts if part)


def _share(share: float | None, what: str) -> str:
    return "" if share is None else f"{share:.0%} {what}"
