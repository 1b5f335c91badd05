"""The guides of the distribution: the list of them, and each as a page."""

from __future__ import annotations

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.utils.safestring import mark_safe

from console.edge.http import TenantRequest, in_tenant
from console.guides.guides import guide_html, guide_names, guide_title, listed_guide, start_guides


@in_tenant()
def list_guides(request: TenantRequest) -> HttpResponse:
    starts = start_guides()
    guides = [each for each in map(listed_guide, guide_names()) if each not in starts]
    context = {"here": "", "starts": starts, "guides": guides, "count": len(starts) + len(guides)}
    return render(request, "guides/list.html", context)


@in_tenant()
def guide(request: TenantRequest, guide_name: str) -> HttpResponse:
    if guide_name not in guide_names():
        raise Http404
    # Rendered from our own files, with HTML in them as text (`guide_html`).
    context = {"here": "", "title": guide_title(guide_name), "html": mark_safe(guide_html(guide_name))}
    return render(request, "guides/guide.html", context)
