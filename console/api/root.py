"""The HTTP API, version 1: one document, one set of errors, two ways to be known."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import URLPattern, re_path
from ninja import NinjaAPI

from console.api import (
    actions,
    agents,
    ballots,
    batches,
    casework,
    document,
    edits,
    emergencies,
    erasures,
    executions,
    exports,
    guarding,
    incidents,
    ledger,
    metrics,
    notices,
    operations,
    people,
    problems,
    quality,
    recordings,
    registry,
    runs,
    sessions,
    staff,
    systems,
    telling,
    voting,
    work,
    workflows,
)
from console.api.caller import Key, Session
from console.api.docs import Docs
from console.api.edge import StrictParser


class Api(NinjaAPI):
    """Ninja's API with our document, and with problems where Django would answer with a page."""

    @property
    def urls(self) -> tuple[list[Any], str, str]:
        patterns, app, namespace = super().urls
        for pattern in patterns:
            assert isinstance(pattern, URLPattern)
            pattern.callback = _answers_with_problems(pattern.callback, pattern.name)
        return [*patterns, re_path("", _answers_with_problems(_nowhere, ""))], app, namespace

    def get_openapi_schema(self, **options: Any) -> Any:
        return document.completed(super().get_openapi_schema(**options))


# Ninja's own pages, which answer to any method.
_READ_ONLY = ("openapi-json", "openapi-view")


def _answers_with_problems(view: Callable[..., HttpResponseBase], name: str | None) -> Callable[..., HttpResponseBase]:
    # The API answers for itself who may call it: neither the sign-in page nor a page about CSRF stands in its place.
    @wraps(view)
    def answered(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if name in _READ_ONLY and request.method != "GET":
            return problems.not_allowed(request, "GET")
        try:
            response = view(request, *args, **kwargs)
        except Http404:
            return problems.problem(404, "NOT_FOUND", "There is nothing at this address.")
        return problems.not_allowed(request, response.headers["Allow"]) if response.status_code == 405 else response

    answered.login_required = False  # type: ignore[attr-defined]
    answered.csrf_exempt = True  # type: ignore[attr-defined]
    return answered


def _nowhere(request: HttpRequest) -> HttpResponse:
    raise Http404


api = Api(
    title="Counterfoil",
    version="1",
    description="Agents propose, people approve, executors run what was approved, and reports say what is verified.",
    docs=Docs(),
    docs_url="/docs",
    openapi_url="/openapi.json",
    # Closed, until an operation says whom it admits.
    auth=[Key(), Session()],
    parser=StrictParser(),
    urls_namespace="api",
)
problems.install(api)
for router in (
    agents,
    registry,
    systems,
    sessions,
    telling,
    guarding,
    recordings,
    actions,
    runs,
    executions,
    quality,
    people,
    staff,
    voting,
    edits,
    work,
    ballots,
    casework,
    batches,
    emergencies,
    incidents,
    workflows,
    erasures,
    ledger,
    exports,
    notices,
    operations,
    metrics,
):
    api.add_router("", router.router)
