"""Incidents: opens, links, contains and closes problems that concern more than one action.

An incident gathers actions, cases and the freezes that were placed because of it. What happened is in its events;
the rows only say how it stands. Locks are taken in one order: actions first, then the incident.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from django.db import IntegrityError, transaction

from ledger.actions.queries import actions as actions_queries
from ledger.actions.queries import freezes as freezes_queries
from ledger.catalogue.operations import registration
from ledger.catalogue.rules.effects import SideEffectClass
from ledger.record import operations as ledger
from ledger.record.rules.refusals import NotFound, ReasonMissing, Refused
from reviews import queries
from reviews.cases.operations import threads
from reviews.incidents.rules.incidents import (
    FreezeDecision,
    IncidentKind,
    Severity,
    check_freeze_decisions,
    severity_of,
)
from reviews.models import Comment, Incident, IncidentLink

if TYPE_CHECKING:
    from ledger.models import Action

_LINKED = {"action": "action_linked", "case": "case_linked", "freeze": "freeze_linked"}


class IncidentClosed(Refused):
    """This incident is closed; reopen it first."""

    code = "INCIDENT_CLOSED"


def open_for_cause(
    *,
    tenant_id: UUID,
    title: str,
    kind: IncidentKind,
    severity: Severity,
    at: datetime,
    about: str = "",
    runbook: str = "",
    actions: Sequence[UUID] = (),
    cases: Sequence[UUID] = (),
    freezes: Sequence[UUID] = (),
    note: str = "",
    by: ledger.Actor = ledger.SYSTEM,
) -> Incident:
    """Open an incident, or add to the open one about the same lasting cause (`about`, such as `system:shop`).

    One cause has one open incident however many actions it hits, and however many workers notice it at once
    (R-RB-06): the database lets only one of them in, and the others find it.
    """
    for action_id in sorted(actions):
        ledger.lock_subject(tenant_id=tenant_id, subject_id=action_id, kind="action")
    row = _open_now(tenant_id, about) or _begin(
        Incident(
            tenant_id=tenant_id,
            id=ledger.new_id(at),
            kind=str(kind),
            severity=int(severity),
            title=title[:300],
            about=about,
            runbook=runbook,
            action_id=actions[0] if actions else None,
            state="OPEN",
            opened_at=at,
        ),
        note,
        by,
        at=at,
    )
    wanted = [*_as_links("action", actions), *_as_links("case", cases), *_as_links("freeze", freezes)]
    _gather(row, wanted, by, at=at)
    return row


def _open_now(tenant_id: UUID, about: str) -> Incident | None:
    return Incident.objects.filter(tenant_id=tenant_id, about=about, state="OPEN").first() if about else None


def _begin(row: Incident, note: str, by: ledger.Actor, *, at: datetime) -> Incident:
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError:
        known = _open_now(row.tenant_id, row.about)
        if known is None:
            raise
        return known
    detail = {
        "kind": row.kind,
        "title": row.title,
        "severity": row.severity,
        "about": row.about,
        "follows": row.runbook,
        "action_id": str(row.action_id) if row.action_id else None,
    }
    ledger.append(
        ledger.SubjectHead(tenant_id=row.tenant_id, id=row.id, kind="incident"),
        ledger.NewEvent(kind="incident_opened", to="OPEN", detail=detail | ({"reason": note} if note else {})),
        actor=by,
        at=at,
    )
    return row


def _as_links(kind: str, ids: Iterable[UUID]) -> list[tuple[str, UUID]]:
    return [(kind, each) for each in ids]


def _gather(row: Incident, wanted: list[tuple[str, UUID]], by: ledger.Actor, *, at: datetime) -> None:
    """Link the items that are not linked yet, each with an event; an action's own entry names the incident too."""
    known = {(link.kind, link.subject_id) for link in queries.links_of(row.tenant_id, row.id)}
    fresh = [each for each in dict.fromkeys(wanted) if each not in known]
    if not fresh:
        return
    head = ledger.lock_subject(tenant_id=row.tenant_id, subject_id=row.id, kind="incident")
    for kind, subject_id in fresh:
        IncidentLink.objects.create(
            tenant_id=row.tenant_id,
            id=ledger.new_id(at),
            incident_id=row.id,
            kind=kind,
            subject_id=subject_id,
            at=at,
        )
        linked = ledger.NewEvent(kind=_LINKED[kind], detail={"subject_id": str(subject_id)})
        head = ledger.append(head, linked, actor=by, at=at)
        if kind == "action":
            _tell_action(row, subject_id, by, at=at)


def _tell_action(row: Incident, action_id: UUID, by: ledger.Actor, *, at: datetime) -> None:
    head = ledger.lock_subject(tenant_id=row.tenant_id, subject_id=action_id, kind="action")
    happening = ledger.NewEvent(
        kind="incident_opened" if row.action_id == action_id else "incident_linked",
        changes={"recovery": {"incident_id": str(row.id)}},
        detail={"incident_id": str(row.id), "kind": row.kind},
    )
    ledger.append(head, happening, actor=by, at=at)


def open_for_action(
    *, action: Action, kind: IncidentKind, title: str, at: datetime, targets: Iterable[str] = (), runbook: str = ""
) -> Incident:
    """The incident of one action, with the freezes that stop these targets now."""
    stopped = frozenset(targets)
    freezes = [
        each.id
        for each in freezes_queries.freezes_in_force(action.tenant_id)
        if each.scope == "target" and each.value in stopped
    ]
    return open_for_cause(
        tenant_id=action.tenant_id,
        title=title,
        kind=kind,
        severity=severity_of(kind, SideEffectClass(action.side_effect_class)),
        runbook=runbook,
        actions=[action.id],
        freezes=freezes,
        at=at,
    )


def add_case(*, tenant_id: UUID, action_id: UUID, case_id: UUID, at: datetime) -> None:
    """A case that was opened about an action belongs to that action's open incidents; the caller holds the action."""
    for row in queries.incidents_of(tenant_id, action_id):
        if row.state == "OPEN":
            _gather(row, [("case", case_id)], ledger.SYSTEM, at=at)


def link_subjects(
    *,
    tenant_id: UUID,
    incident_id: UUID,
    actions: Sequence[UUID] = (),
    cases: Sequence[UUID] = (),
    by: ledger.Actor,
    at: datetime,
) -> None:
    """Add actions and cases to an open incident; a case brings its action along."""
    found = queries.cases_by_id(tenant_id, list(cases))
    concerned = list(dict.fromkeys([*actions, *(each.action_id for each in found.values() if each.action_id)]))
    if len(found) != len(set(cases)) or len(actions_queries.actions_by_id(tenant_id, concerned)) != len(concerned):
        raise NotFound("Action or case")
    for action_id in sorted(concerned):
        ledger.lock_subject(tenant_id=tenant_id, subject_id=action_id, kind="action")
    _, row = _lock_open(tenant_id, incident_id)
    _gather(row, [*_as_links("action", concerned), *_as_links("case", found)], by, at=at)


def freeze_scope(
    *,
    tenant_id: UUID,
    incident_id: UUID,
    scope: str,
    value: str,
    reason: str,
    by: ledger.Actor,
    at: datetime,
    is_unknown: bool = False,
) -> UUID:
    """Freeze something because of an incident; returns the freeze."""
    _, row = _lock_open(tenant_id, incident_id)
    freeze = registration.place_freeze(
        tenant_id=tenant_id, scope=scope, value=value, reason=reason, actor=by, at=at, is_unknown=is_unknown
    )
    _gather(row, [("freeze", freeze.id)], by, at=at)
    return freeze.id


def close(
    *,
    tenant_id: UUID,
    incident_id: UUID,
    note: str,
    freezes: Mapping[UUID, FreezeDecision] | None = None,
    by: ledger.Actor,
    at: datetime,
) -> None:
    """Close an incident with a note, deciding about every freeze that it holds (R-RB-10)."""
    head, row = _lock_open(tenant_id, incident_id)
    if not note.strip():
        raise ReasonMissing
    decisions = check_freeze_decisions([each.id for each in queries.freezes_held(row)], freezes or {})
    for freeze_id, stop in decisions.items():
        if stop is FreezeDecision.LIFT:
            registration.lift_freeze(tenant_id=tenant_id, freeze_id=freeze_id, reason=note[:1000], actor=by, at=at)
    detail = {"reason": note, "freezes": {str(each): str(stop) for each, stop in decisions.items()}}
    ledger.append(head, ledger.NewEvent(kind="incident_closed", to="CLOSED", detail=detail), actor=by, at=at)
    Incident.objects.filter(tenant_id=tenant_id, id=incident_id).update(state="CLOSED", closing_note=note, closed_at=at)


def reopen(*, tenant_id: UUID, incident_id: UUID, reason: str, by: ledger.Actor, at: datetime) -> None:
    """Reopen a closed incident; if its cause has another open one, that one is used instead."""
    head, row = lock_incident(tenant_id, incident_id)
    if row.state == "OPEN":
        return
    if not reason.strip():
        raise ReasonMissing
    if _open_now(tenant_id, row.about) is not None:
        raise CauseAlreadyOpen
    ledger.append(
        head, ledger.NewEvent(kind="incident_reopened", to="OPEN", detail={"reason": reason}), actor=by, at=at
    )
    Incident.objects.filter(tenant_id=tenant_id, id=incident_id).update(state="OPEN", closing_note="", closed_at=None)


def comment(*, tenant_id: UUID, incident_id: UUID, text: str, by: ledger.Actor, at: datetime) -> Comment:
    """Add a comment to an incident's thread."""
    head, _ = lock_incident(tenant_id, incident_id)
    return threads.add_comment(head, text, by, at=at)


def record_export(*, tenant_id: UUID, incident_id: UUID, form: str, by: ledger.Actor, at: datetime) -> None:
    """Record that the post-mortem of an incident left the console (R-UI-14)."""
    head, _ = lock_incident(tenant_id, incident_id)
    ledger.append(head, ledger.NewEvent(kind="post_mortem_exported", detail={"format": form}), actor=by, at=at)


class CauseAlreadyOpen(Refused):
    """An incident with the same cause is already open."""

    code = "CAUSE_IS_OPEN"


def lock_incident(tenant_id: UUID, incident_id: UUID) -> tuple[ledger.SubjectHead, Incident]:
    """The head of an incident and its row, locked until the transaction ends."""
    if queries.incident(tenant_id, incident_id) is None:
        raise NotFound("Incident")
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=incident_id, kind="incident")
    row = queries.incident(tenant_id, incident_id)
    assert row is not None
    return head, row


def _lock_open(tenant_id: UUID, incident_id: UUID) -> tuple[ledger.SubjectHead, Incident]:
    head, row = lock_incident(tenant_id, incident_id)
    if row.state != "OPEN":
        raise IncidentClosed
    return head, row
