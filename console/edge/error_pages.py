"""Error pages, inside the console's frame for signed-in people.

A frame reads counters, so it is drawn inside the tenant of the address, else inside the person's first. If that fails,
the page without a frame says the same.
"""

from __future__ import annotations

import logging
import sys

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import get_template

from console.edge import problems
from console.edge.form_pages import find_page
from console.edge.http import enter_any_tenant
from ledger.db import tenancy

log = logging.getLogger(__name__)


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _render_framed(request, "404.html", 404)


def access_denied(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _render_framed(request, "403.html", 403)


def form_expired(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form without the token of this session; its content was not read."""
    return _render_framed(request, "form_expired.html", 403, sent_to=request.path, form_page=find_page(request.path))


def server_error(request: HttpRequest) -> HttpResponse:
    """An uncaught error, of the page or of its frame; rendered without database or session."""
    error = sys.exception()
    if request.path.startswith("/api/"):
        return problems.fault_response(request, error)
    if refusal := problems.moving_refusal(error):
        return problems.moving_page(refusal)
    detail = problems.unavailability(error)
    if not detail:
        return HttpResponse(get_template("500.html").render(), status=500)
    response = HttpResponse(get_template("503.html").render({"detail": detail}), status=503)
    response["Retry-After"] = str(problems.UNAVAILABLE_FOR_S)
    return response


def _render_framed(request: HttpRequest, name: str, status: int, **shown: str) -> HttpResponse:
    if request.path.startswith(("/api/", "/static/")):
        return render(request, name, shown, status=status)
    try:
        tenant = enter_any_tenant(request)
        if tenant is not None:
            with tenancy(tenant.id, reads_only=True):
                return render(request, name, shown, status=status)
    except Exception:
        log.warning("an error page could not be drawn in its frame", exc_info=True)
        vars(request).pop("caller", None)
    return render(request, name, shown, status=status)
