"""Every URL of the product on one screen."""

from __future__ import annotations

from django.contrib.auth.views import LogoutView
from django.urls import URLPattern, URLResolver, include, path

from console import stream
from console.api import operations
from console.api.root import api
from console.views import (
    actions,
    approvals,
    audit,
    batches,
    cases,
    casework,
    entrance,
    evidence,
    freezes,
    home,
    incidents,
    narratives,
    runbooks,
    runs,
    sessions,
    systems,
)

# Pages of one tenant: /t/<slug>/…
pages: list[URLPattern | URLResolver] = [
    path("", home.page, name="home"),
    path("approvals", approvals.inbox, name="approvals"),
    path("approvals/<uuid:approval_id>", approvals.approval, name="approval"),
    path("approvals/<uuid:approval_id>/vote", approvals.vote, name="approval-vote"),
    path("cases", cases.queue, name="cases"),
    path("cases/batches", batches.start, name="batches"),
    path("cases/batches/<uuid:batch_id>", batches.batch, name="batch"),
    path("cases/batches/<uuid:batch_id>/turn", batches.turn, name="batch-turn"),
    path("cases/<uuid:case_id>", cases.case, name="case"),
    path("cases/<uuid:case_id>/claim", casework.claim, name="case-claim"),
    path("cases/<uuid:case_id>/assign", casework.assign, name="case-assign"),
    path("cases/<uuid:case_id>/release", casework.release, name="case-release"),
    path("cases/<uuid:case_id>/snooze", casework.snooze, name="case-snooze"),
    path("cases/<uuid:case_id>/wake", casework.wake, name="case-wake"),
    path("cases/<uuid:case_id>/reopen", casework.reopen, name="case-reopen"),
    path("cases/<uuid:case_id>/comments", casework.comment, name="case-comment"),
    path("cases/<uuid:case_id>/steps", runbooks.case_step, name="case-step"),
    path("cases/<uuid:case_id>/resolve", cases.resolve, name="case-resolve"),
    path("cases/<uuid:case_id>/confirm", cases.confirm, name="case-confirm"),
    path("actions", actions.browse, name="actions"),
    path("actions/<uuid:action_id>", actions.action, name="action"),
    path("actions/<uuid:action_id>/verify", actions.verify, name="action-verify"),
    path("actions/<uuid:action_id>/entries/<int:seq>", actions.entry, name="action-entry"),
    path("actions/<uuid:action_id>/narrative", narratives.action, name="action-narrative"),
    path("actions/<uuid:action_id>/narrative.pdf", narratives.action_pdf, name="action-narrative-pdf"),
    path("cases/<uuid:case_id>/narrative", narratives.case, name="case-narrative"),
    path("cases/<uuid:case_id>/narrative.pdf", narratives.case_pdf, name="case-narrative-pdf"),
    path("evidence/<uuid:pointer>", evidence.evidence, name="evidence"),
    path("sessions/<uuid:session_id>", sessions.session, name="session"),
    path("runs/<path:run_id>/cancel", runs.cancel, name="run-cancel"),
    path("runs/<path:run_id>", runs.run, name="run"),
    path("incidents", incidents.browse, name="incidents"),
    path("incidents/new", incidents.new, name="incident-new"),
    path("incidents/<uuid:incident_id>", incidents.incident, name="incident"),
    path("incidents/<uuid:incident_id>/join", incidents.join, name="incident-join"),
    path("incidents/<uuid:incident_id>/contain", incidents.contain, name="incident-contain"),
    path("incidents/<uuid:incident_id>/comments", incidents.comment, name="incident-comment"),
    path("incidents/<uuid:incident_id>/close", incidents.close, name="incident-close"),
    path("incidents/<uuid:incident_id>/reopen", incidents.reopen, name="incident-reopen"),
    path("incidents/<uuid:incident_id>/steps", runbooks.incident_step, name="incident-step"),
    path("incidents/<uuid:incident_id>/post-mortem", incidents.review, name="incident-review"),
    path("incidents/<uuid:incident_id>/post-mortem/export", incidents.export, name="incident-export"),
    path("runbooks", runbooks.page, name="runbooks"),
    path("systems", systems.page, name="systems"),
    path("systems/<uuid:system_id>/stop", systems.stop, name="system-stop"),
    path("systems/<uuid:system_id>/resume", systems.resume, name="system-resume"),
    path("audit", audit.browse, name="audit"),
    path("audit/sightings", audit.sightings, name="sightings"),
    path("events/<uuid:subject_id>/<int:seq>", audit.event, name="event"),
    path("freezes", freezes.page, name="freezes"),
    path("freezes/place", freezes.place, name="freeze-place"),
    path("freezes/<uuid:freeze_id>/lift", freezes.lift, name="freeze-lift"),
]

urlpatterns: list[URLPattern | URLResolver] = [
    path("", entrance.door, name="door"),
    path("sign-in", entrance.sign_in, name="sign-in"),
    path("sign-out", LogoutView.as_view(), name="sign-out"),
    path("preferences", entrance.preferences, name="preferences"),
    path("t/<slug:slug>/", include(pages)),
    path("api/v1/stream", stream.changes, name="stream"),
    path("api/v1/", api.urls),
    path(".well-known/jwks.json", operations.jwks_page, name="jwks"),
    path("healthz", operations.healthz_page, name="healthz"),
    path("readyz", operations.readyz_page, name="readyz"),
]
