"""Incidents over HTTP: who opened them, what belongs to them, what is stopped because of them, how they ended."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Query, Router

from console.api import answers, paging
from console.api.auth import Caller, admits, caller_of
from console.api.schemas import CloseBody, CommentBody, IncidentBody, IncidentLinkBody, IncidentsWanted, ReasonBody
from console.api.transaction import NotFound, in_tenancy, json_response
from ledger.actions.queries import freezes as freezes_queries
from ledger.record.queries import events
from ledger.record.rules.envelope import instant
from reviews import queries as after
from reviews.cases.rules.runbooks import tag_of
from reviews.incidents import operations as incidents_operations
from reviews.incidents.rules.incidents import FreezeDecision, IncidentKind, Severity

router = Router(tags=["People's work"])


@router.get(
    "/incidents",
    summary="Incidents: open ones, the gravest first, or closed ones",
    response=answers.Page[answers.IncidentRow],
)
@admits("person", "oper")
@in_tenancy
def list_incidents(request: HttpRequest, wanted: Query[IncidentsWanted]) -> HttpResponse:
    caller = caller_of(request)
    found = after.incidents(
        caller.tenant_id,
        state=wanted.state,
        tag=wanted.tag,
        after=paging.decode_cursor(wanted.cursor),
        limit=wanted.limit + 1,
    )
    return paging.page_response(found, wanted.limit, _row)


@router.get(
    "/incidents/{incident_id}", summary="One incident with everything that belongs to it", response=answers.Incident
)
@admits("person", "oper")
@in_tenancy
def get_incident(request: HttpRequest, incident_id: UUID) -> HttpResponse:
    caller = caller_of(request)
    row = after.incident(caller.tenant_id, incident_id)
    if row is None:
        raise NotFound
    return json_response(_whole(row))


@router.post("/incidents", summary="Open an incident by hand", response={201: answers.IncidentRow})
@admits("operator")
@in_tenancy
def open_incident(request: HttpRequest, body: IncidentBody) -> HttpResponse:
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
    return json_response(_row(row), 201)


@router.post("/incidents/{incident_id}/link", summary="Add actions and cases to it", response=answers.Incident)
@admits("operator")
@in_tenancy
def link(request: HttpRequest, incident_id: UUID, body: IncidentLinkBody) -> HttpResponse:
    caller = caller_of(request)
    incidents_operations.link_subjects(
        tenant_id=caller.tenant_id,
        incident_id=incident_id,
        actions=body.actions,
        cases=body.cases,
        by=caller.actor,
        at=timezone.now(),
    )
    return json_response(_whole(_known(caller, incident_id)))


@router.post(
    "/incidents/{incident_id}/comments", summary="Add to an incident's thread", response={201: answers.CommentTaken}
)
@admits("operator", "reviewer", "compliance", "administrator")
@in_tenancy
def comment(request: HttpRequest, incident_id: UUID, body: CommentBody) -> HttpResponse:
    caller = caller_of(request)
    row = incidents_operations.comment(
        tenant_id=caller.tenant_id, incident_id=incident_id, text=body.text, by=caller.actor, at=timezone.now()
    )
    return json_response({"comment_id": str(row.id)}, 201)


@router.post(
    "/incidents/{incident_id}/close",
    summary="Close it, saying of each freeze that it holds whether it is lifted or kept",
    response=answers.IncidentState,
)
@admits("operator")
@in_tenancy
def close(request: HttpRequest, incident_id: UUID, body: CloseBody) -> HttpResponse:
    caller = caller_of(request)
    incidents_operations.close(
        tenant_id=caller.tenant_id,
        incident_id=incident_id,
        note=body.note,
        freezes={each.freeze_id: FreezeDecision(each.decision) for each in body.freezes},
        by=caller.actor,
        at=timezone.now(),
    )
    return json_response({"incident_id": str(incident_id), "state": "CLOSED"})


@router.post("/incidents/{incident_id}/reopen", summary="Take it up again", response=answers.IncidentState)
@admits("operator")
@in_tenancy
def reopen(request: HttpRequest, incident_id: UUID, body: ReasonBody) -> HttpResponse:
    caller = caller_of(request)
    incidents_operations.reopen(
        tenant_id=caller.tenant_id, incident_id=incident_id, reason=body.reason, by=caller.actor, at=timezone.now()
    )
    return json_response({"incident_id": str(incident_id), "state": "OPEN"})


def _known(caller: Caller, incident_id: UUID) -> Any:
    return after.incident(caller.tenant_id, incident_id)


def _row(row: Any) -> dict[str, Any]:
    return {
        "incident_id": str(row.id),
        "kind": row.kind,
        "severity": row.severity,
        "title": row.title,
        "about": row.about or None,
        "runbook": row.runbook or None,
        "tag": tag_of(row.runbook, row.about) or None,
        "state": row.state,
        "closing_note": row.closing_note or None,
        "opened_at": instant(row.opened_at),
        "closed_at": instant(row.closed_at) if row.closed_at else None,
    }


def _whole(row: Any) -> dict[str, Any]:
    links = after.links_of(row.tenant_id, row.id)
    linked = {kind: [str(link.subject_id) for link in links if link.kind == kind] for kind in ("action", "case")}
    freezes = freezes_queries.freezes_by_id(row.tenant_id, [link.subject_id for link in links if link.kind == "freeze"])
    return _row(row) | {
        "actions": linked["action"],
        "cases": linked["case"],
        "freezes": [
            {
                "freeze_id": str(each.id),
                "scope": each.scope,
                "value": each.value,
                "reason": each.reason,
                "in_force": each.lifted_at is None,
            }
            for each in freezes.values()
        ],
        "timeline": [
            {"event": event.kind, "at": instant(event.at), "actor": str(event.actor_id)}
            for event, _, _ in events.history(row.tenant_id, row.id)
        ],
        "comments": [
            {"author": str(each.author), "text": each.text, "at": instant(each.at)}
            for each in after.comments_of(row.tenant_id, row.id)
        ],
    }
