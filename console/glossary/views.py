"""The glossary: the meanings of the words on the pages, and the codes behind them."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render

from console.edge.http import TenantRequest, in_tenant
from console.glossary.codes import code_groups
from console.glossary.terms import TERMS
from console.guides.guides import start_guides


@in_tenant()
def page(request: TenantRequest) -> HttpResponse:
    return render(request, "glossary/page.html", {"here": "", "terms": TERMS, "groups": code_groups()})


@in_tenant()
def help_page(request: TenantRequest) -> HttpResponse:
    return render(request, "help/page.html", {"here": "", "starts": start_guides()})
