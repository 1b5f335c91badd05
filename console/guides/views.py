"""The guides of the distribution: the list of them, and each as a page."""

from __future__ import annotations

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.utils.safestring import mark_safe

from console.edge.http import TenantRequest, in_tenant
from console.guides.guides import guide_html, guide_names, guide_title


@in_tenant()
def list_guides(request: TenantRequest) -> HttpResponse:
    guides = [{"name": name, "title": guide_title(name)} for name in guide_names()]
    return render(request, "guides/list.html", {"here": "", "guides": guides})


@in_tenant()
def guide(request: TenantRequest, guide_name: str) -> HttpResponse:
    if guide_name not in guide_names():
        raise Http404
    # Rendered from our own files, with HTML in them as text (`guide_html`).
    context = {"here": "", "title": guide_title(guide_name), "html": mark_safe(guide_html(guide_name))}
    return render(request, "guides/guide.html", context)
