"""The HTTP API, version 1: one document, one set of errors, two ways to be known."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import URLPattern, re_path
from ninja import NinjaAPI
from ninja.operation import Operation

from console.api import openapi, problems
from console.api.actions import effect_receipts, signed_receipts, verification_runs
from console.api.actions import routes as actions
from console.api.agents import routes as agents
from console.api.approvals import assignment, batch_votes, edits, votes
from console.api.approvals import routes as approvals
from console.api.auth import BrowserSession, Key
from console.api.break_glass import routes as break_glass
from console.api.cases import batches
from console.api.cases import routes as cases
from console.api.docs import Docs
from console.api.event_export import routes as event_export
from console.api.evidence import routes as evidence
from console.api.execution import routes as execution
from console.api.exports import routes as exports
from console.api.freezes import routes as freezes
from console.api.guard import routes as guard
from console.api.handoffs import routes as handoffs
from console.api.inbox import routes as inbox
from console.api.incidents import routes as incidents
from console.api.installation import routes as installation
from console.api.ledger import routes as ledger
from console.api.metrics import alerts as metric_alerts
from console.api.metrics import routes as metrics
from console.api.metrics import summary as metrics_summary
from console.api.notices import routes as notices
from console.api.people import routes as people_routes
from console.api.quality import routes as quality
from console.api.recordings import routes as recordings
from console.api.registry import routes as registry
from console.api.releases import routes as releases
from console.api.retention import routes as retention
from console.api.sessions import routes as sessions
from console.api.sessions import session_reports
from console.api.standing_approvals import routes as standing_approvals
from console.api.systems import routes as systems
from console.api.transaction import StrictParser
from console.api.workflows import routes as workflows


class Api(NinjaAPI):
    """Ninja's API with our document, and with problems where Django would answer with a page."""

    @property
    def urls(self) -> tuple[list[Any], str, str]:
        patterns, app, namespace = super().urls
        for pattern in patterns:
            assert isinstance(pattern, URLPattern)
            pattern.callback = _answers_with_problems(pattern.callback, pattern.name)
        return [*patterns, re_path("", _answers_with_problems(_nowhere, ""))], app, namespace

    def get_openapi_operation_id(self, operation: Operation) -> str:
        """Subject and operation (`execution_start`), wherever in the tree the view stands."""
        _, _, *place = operation.view_func.__module__.split(".")
        return "_".join([*place, operation.view_func.__name__]).replace("routes_", "")

    def get_openapi_schema(self, **options: Any) -> Any:
        return openapi.complete_document(super().get_openapi_schema(**options))


# Ninja's own pages, which answer to any method.
_READ_ONLY = ("openapi-json", "openapi-view")


def _answers_with_problems(view: Callable[..., HttpResponseBase], name: str | None) -> Callable[..., HttpResponseBase]:
    # The API answers for itself who may call it: neither the sign-in page nor a page about CSRF stands in its place.
    @wraps(view)
    def answered(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if name in _READ_ONLY and request.method != "GET":
            return problems.method_not_allowed(request, "GET")
        try:
            response = view(request, *args, **kwargs)
        except Http404:
            return problems.problem_response(404, "NOT_FOUND", "Not found.")
        return (
            problems.method_not_allowed(request, response.headers["Allow"]) if response.status_code == 405 else response
        )

    answered.login_required = False  # type: ignore[attr-defined]
    answered.csrf_exempt = True  # type: ignore[attr-defined]
    return answered


def _nowhere(request: HttpRequest) -> HttpResponse:
    raise Http404


api = Api(
    title="Counterfoil",
    version="1",
    description="Agents propose, people approve, executors run approved actions, and reports state what was verified.",
    docs=Docs(),
    docs_url="/docs",
    openapi_url="/openapi.json",
    # Closed, until an operation says whom it admits.
    auth=[Key(), BrowserSession()],
    parser=StrictParser(),
    urls_namespace="api",
)
problems.install_handlers(api)
for router in (
    agents,
    registry,
    releases,
    systems,
    sessions,
    session_reports,
    guard,
    recordings,
    actions,
    verification_runs,
    effect_receipts,
    signed_receipts,
    execution,
    quality,
    approvals,
    people_routes,
    votes,
    edits,
    assignment,
    batch_votes,
    cases,
    evidence,
    freezes,
    batches,
    break_glass,
    standing_approvals,
    inbox,
    incidents,
    workflows,
    retention,
    ledger,
    exports,
    event_export,
    notices,
    installation,
    metrics,
    metrics_summary,
    handoffs,
    metric_alerts,
):
    api.add_router("", router.router)
