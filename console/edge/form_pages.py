"""Finds the page of a form, for every address that only accepts its answers.

A refused form is shown at the address that it was sent to. That address has no page of its own, so reading it again
leads to the page with the form. The page is found in the URL table: the nearest address above that can be read, or the
one that `ELSEWHERE` names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import Resolver404, resolve, reverse

from console.edge.http import allowed_methods

ELSEWHERE: Final = {
    "erasure-ask": "holds",
    "erasure-answer": "holds",
    "retention-propose": "holds",
    "retention-answer": "holds",
    "notice-again": "notice-channels",
    "openid_connect_login": "account_login",
}
"""Forms that stand on a page which is not above them, by the names of the two addresses."""


def find_page(path: str) -> str:
    """Return the address that shows the page of `path`: itself if it can be read, otherwise the page with its form."""
    found, above = _page_at(path), path.rstrip("/")
    while not found and above:
        above = above.rpartition("/")[0]
        # Only a tenant's own page has an address that ends with a slash.
        found = _page_at(above) or _page_at(f"{above}/")
    return found or "/"


def _page_at(address: str) -> str:
    try:
        found = resolve(address)
    except Resolver404:
        return ""
    if found.url_name in ELSEWHERE:
        slug = {"slug": found.kwargs["slug"]} if "slug" in found.kwargs else {}
        return reverse(ELSEWHERE[found.url_name], kwargs=slug)
    return address if answers_get(found.func) else ""


def answers_get(view: Callable[..., Any]) -> bool:
    """Return whether a view answers GET; one that names no methods does."""
    page_class = getattr(view, "view_class", None)
    if page_class is not None:
        return "get" in page_class.http_method_names
    return "GET" in (allowed_methods(view) or ["GET"])


def redirect_to_form_page(answer: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware: reading the address of a form leads to the page that holds it. The API keeps its 405."""

    def lead_back(request: HttpRequest) -> HttpResponse:
        response = answer(request)
        if response.status_code != 405 or request.method not in ("GET", "HEAD") or request.path.startswith("/api/"):
            return response
        return redirect(find_page(request.path))

    return lead_back
