"""Incidents over HTTP: who opened them, what belongs to them, what is stopped because of them, how they ended."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router

from console.edge.auth import Caller, admits, caller_of
from console.edge.transaction import in_tenancy
from console.incidents import schemas, verbs
from console.incidents.lists import INCIDENTS
from console.verbs.verb import add_verbs
from console.web.list_page import add_lists
from ledger.actions.queries import freezes
from ledger.record.queries import events
from ledger.record.rules.refusals import NotFound
from reviews import queries as after
from reviews.incidents import operations as incidents_operations
from reviews.incidents.rules.incidents import FreezeDecision, IncidentKind, Severity

router = Router(tags=["Cases and incidents"])


add_lists(router, __name__, INCIDENTS)


@router.get(
    "/incidents/{incident_id}", summary="One incident with linked actions, cases and freezes", response=schemas.Incident
)
@admits("person", "oper")
@in_tenancy
def get_incident(request: HttpRequest, incident_id: UUID) -> schemas.Incident:
    return _incident(caller_of(request), incident_id)


@router.post("/incidents", summary="Open an incident", response={201: schemas.IncidentRow})
@admits("operator")
@in_tenancy
def open_incident(request: HttpRequest, body: schemas.IncidentBody) -> schemas.IncidentRow:
    caller = caller_of(request)
    at = timezone.now()
    row = incidents_operations.open_for_cause(
        tenant_id=caller.tenant_id,
        title=body.title,
        kind=IncidentKind(body.kind),
        severity=Severity(body.severity),
        runbook=body.runbook,
        note=body.reason,
        by=caller.actor,
        at=at,
    )
    if body.actions or body.cases:
        incidents_operations.link_subjects(
            tenant_id=caller.tenant_id,
            incident_id=row.id,
            actions=body.actions,
            cases=body.cases,
            by=caller.actor,
            at=at,
        )
    return schemas.IncidentRow.of(row)


@router.post(
    "/incidents/{incident_id}/link", summary="Link actions and cases to an incident", response=schemas.Incident
)
@admits("operator")
@in_tenancy
def link(request: HttpRequest, incident_id: UUID, body: schemas.IncidentLinkBody) -> schemas.Incident:
    caller = caller_of(request)
    incidents_operations.link_subjects(
        tenant_id=caller.tenant_id,
        incident_id=incident_id,
        actions=body.actions,
        cases=body.cases,
        by=caller.actor,
        at=timezone.now(),
    )
    return _incident(caller, incident_id)


add_verbs(router, __name__, [verbs.COMMENT])


@router.post(
    "/incidents/{incident_id}/close",
    summary="Close an incident and lift or keep each of its freezes",
    response=schemas.IncidentState,
)
@admits("operator")
@in_tenancy
def close(request: HttpRequest, incident_id: UUID, body: schemas.CloseBody) -> schemas.IncidentState:
    caller = caller_of(request)
    incidents_operations.close(
        tenant_id=caller.tenant_id,
        incident_id=incident_id,
        note=body.note,
        freezes={each.freeze_id: FreezeDecision(each.decision) for each in body.freezes},
        by=caller.actor,
        at=timezone.now(),
    )
    return schemas.IncidentState(incident_id=incident_id, state="CLOSED")


add_verbs(router, __name__, [verbs.REOPEN])


def _incident(caller: Caller, incident_id: UUID) -> schemas.Incident:
    row = after.incident(caller.tenant_id, incident_id)
    if row is None:
        raise NotFound
    links = after.links_of(row.tenant_id, row.id)
    linked = {kind: [link.subject_id for link in links if link.kind == kind] for kind in ("action", "case", "freeze")}
    stops = freezes.freezes_by_id(row.tenant_id, linked["freeze"]).values()
    history = events.history(row.tenant_id, row.id)
    return schemas.Incident.of(
        row,
        actions=linked["action"],
        cases=linked["case"],
        freezes=[schemas.IncidentFreeze.of(each, in_force=each.lifted_at is None) for each in stops],
        timeline=[schemas.IncidentEvent(event=one.kind, at=one.at, actor=one.actor_id) for one, _, _ in history],
        comments=list(after.comments_of(row.tenant_id, row.id)),
    )
