"""Search: everything that a typed text can mean, and the pages that it names."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import redirect, render

from console.edge.http import TenantRequest, in_tenant
from console.search import queries
from console.search.context import groups_of, pages_named
from ledger.verification.queries.storage import is_uuid

LONGEST = 200
SEE_PEOPLE = frozenset({"reviewer", "compliance", "administrator"})


@in_tenant()
def page(request: TenantRequest) -> HttpResponse:
    """Search for `q`; a full id that is found leads straight to its page."""
    typed = request.GET.get("q", "").strip()[:LONGEST]
    found = queries.search(request.tenant.id, typed, with_people=bool(request.caller.roles & SEE_PEOPLE))
    groups = groups_of(request, found, typed)
    if is_uuid(typed) and len(found.subjects) == 1 and groups and not request.htmx:
        return redirect(groups[0].items[0].href)
    in_palette = request.htmx.target == "palette-found"
    context = {"typed": typed, "in_palette": in_palette, "pages": pages_named(request, typed), "groups": groups}
    sizes = [len(each.items) for each in groups]
    # Of a name, only half as many actions are followed.
    context |= {"found": sum(sizes), "most": queries.MOST, "is_cut_off": max(sizes, default=0) >= queries.MOST // 2}
    return render(request, "search/_results.html" if request.htmx else "search/page.html", context)
