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

from console.actions.routes import actions as actions
from console.actions.routes import effect_receipts, signed_receipts, verification_runs
from console.agents import routes as agents
from console.api.docs import Docs
from console.approvals.routes import approvals as approvals
from console.approvals.routes import assignment, batch_votes, edits, votes
from console.break_glass import routes as break_glass
from console.cases.routes import batches
from console.cases.routes import cases as cases
from console.claims import routes as claims
from console.contracts import routes as registry
from console.costs import routes as costs
from console.decisions import routes as decisions
from console.edge import openapi, problems
from console.edge.auth import BrowserSession, Key
from console.edge.transaction import StrictParser
from console.event_export import routes as event_export
from console.evidence import routes as evidence
from console.execution import routes as execution
from console.exports import routes as exports
from console.freezes import routes as freezes
from console.guard import routes as guard
from console.handoffs import routes as handoffs
from console.home import routes as inbox
from console.incidents import routes as incidents
from console.installation import routes as installation
from console.ledger import routes as ledger
from console.metrics.routes import alerts as metric_alerts
from console.metrics.routes import metrics as metrics
from console.metrics.routes import summary as metrics_summary
from console.notifications import routes as notices
from console.people import routes as people_routes
from console.quality import routes as quality
from console.recordings import routes as recordings
from console.releases import routes as releases
from console.retention import routes as retention
from console.runs import routes as workflows
from console.sessions.routes import session_reports
from console.sessions.routes import sessions as sessions
from console.standing_approvals import routes as standing_approvals
from console.systems import routes as systems

# The first part of each operation's id (`execution_start`), and the module of its routes, in the order of the document.
ROUTES = {
    "agents": agents,
    "registry": registry,
    "releases": releases,
    "systems": systems,
    "sessions": sessions,
    "sessions_session_reports": session_reports,
    "guard": guard,
    "claims": claims,
    "recordings": recordings,
    "actions": actions,
    "actions_verification_runs": verification_runs,
    "actions_effect_receipts": effect_receipts,
    "actions_signed_receipts": signed_receipts,
    "execution": execution,
    "decisions": decisions,
    "quality": quality,
    "approvals": approvals,
    "people": people_routes,
    "approvals_votes": votes,
    "approvals_edits": edits,
    "approvals_assignment": assignment,
    "approvals_batch_votes": batch_votes,
    "cases": cases,
    "evidence": evidence,
    "freezes": freezes,
    "cases_batches": batches,
    "break_glass": break_glass,
    "standing_approvals": standing_approvals,
    "inbox": inbox,
    "incidents": incidents,
    "workflows": workflows,
    "retention": retention,
    "ledger": ledger,
    "exports": exports,
    "event_export": event_export,
    "costs": costs,
    "notices": notices,
    "installation": installation,
    "metrics": metrics,
    "metrics_summary": metrics_summary,
    "handoffs": handoffs,
    "metrics_alerts": metric_alerts,
}
_PREFIXES = {module.__name__: prefix for prefix, module in ROUTES.items()}


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
        view = operation.view_func
        return f"{_PREFIXES[view.__module__]}_{view.__name__}"

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
for module in ROUTES.values():
    api.add_router("", module.router)
