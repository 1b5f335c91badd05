"""The data of an incident's page and of its post-mortem, both from the record alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.urls import reverse

from console.accounts.queries import actor_names
from console.actions.action_record import event_rows
from console.cases.checklist import checklist_panel
from console.cases.containment import open_work_panels
from console.edge.auth import Caller
from console.web import labels
from console.web.labels import action_title
from ledger.actions.queries import actions as actions_queries
from ledger.actions.queries import freezes as freezes_queries
from ledger.catalogue.rules.targets import target_text
from ledger.record.queries import events
from reviews import queries as after
from reviews.cases.operations import runbooks as work
from reviews.cases.rules import runbooks
from reviews.incidents.rules import postmortem
from reviews.recovery.rules import recovery_table

if TYPE_CHECKING:
    from ledger.models import Action, Event, Tenant
    from reviews.models import Case, Incident

_SAID_ELSEWHERE = frozenset({"incident_linked", "incident_opened", "case_opened"})


@dataclass(frozen=True, kw_only=True)
class IncidentParts:
    """An incident with everything that belongs to it."""

    row: Any
    slug: str
    actions: dict[UUID, Any]
    cases: dict[UUID, Any]
    freezes: dict[UUID, Any]
    histories: dict[UUID, list[Any]]
    names: dict[UUID, str]


def _gather_parts(tenant: Tenant, row: Any) -> IncidentParts:
    linked: dict[str, list[UUID]] = {"action": [], "case": [], "freeze": []}
    for link in after.links_of(tenant.id, row.id):
        linked[link.kind].append(link.subject_id)
    everything = [row.id, *(subject for kind in linked.values() for subject in kind)]
    return IncidentParts(
        row=row,
        slug=tenant.slug,
        actions=actions_queries.actions_by_id(tenant.id, linked["action"]),
        cases=after.cases_by_id(tenant.id, linked["case"]),
        freezes=freezes_queries.freezes_by_id(tenant.id, linked["freeze"]),
        histories=events.histories(tenant.id, everything),
        names=actor_names(tenant.id),
    )


def incident_context(tenant: Tenant, row: Incident, *, caller: Caller) -> dict[str, Any]:
    """The incident page's context."""
    told = _gather_parts(tenant, row)
    works, is_open = "operator" in caller.roles, row.state == "OPEN"
    held = [each for each in told.freezes.values() if each.lifted_at is None]
    panels = open_work_panels(tenant, held)
    return {
        "row": row,
        "severity": labels.SEVERITIES[row.severity],
        "actions": [_action(told, each) for each in told.actions.values()],
        "cases": [_case(told, each) for each in told.cases.values()],
        "freezes": list(told.freezes.values()),
        "held": [{"freeze": each, "open": panels[each.id]} for each in held],
        "timeline": _timeline(told),
        "comments": [
            {"by": told.names.get(each.author, "somebody"), "at": each.at, "text": each.text}
            for each in after.comments_of(tenant.id, row.id)
        ],
        "checklist": _checklist(told, may_tick=works and is_open),
        "may_work": works and is_open,
        "may_freeze": is_open and bool({"operator", "administrator"} & caller.roles),
        "may_lift": bool({"operator", "administrator"} & caller.roles),
        "may_reopen": works and not is_open,
        "may_comment": bool(caller.roles),
        "page": {name: reverse(f"incident-{name}", args=[tenant.slug, row.id]) for name in _PAGES},
    }


_PAGES = ("join", "contain", "comment", "close", "reopen", "review")


def _action(parts: IncidentParts, action: Action) -> dict[str, Any]:
    found = labels.finding_label(action)
    return {
        "action": action,
        "href": reverse("action", args=[parts.slug, action.id]),
        "title": action_title(action.operation_kind, action.target),
        "sub": f"{action.agent}, {action.tool}" + (f": {found.lower()}" if found else ""),
        "since": action.changed_at,
    }


def _case(parts: IncidentParts, case: Case) -> dict[str, Any]:
    owner = f"owned by {parts.names.get(case.claimed_by, 'somebody')}" if case.claimed_by else "unassigned"
    return {
        "href": reverse("case", args=[parts.slug, case.id]),
        "title": labels.case_label(case),
        "state": labels.CASES[case.state],
        "sub": f"{case.tool} on {target_text(case.target)}, {owner}",
        "since": case.opened_at,
    }


def _checklist(parts: IncidentParts, *, may_tick: bool) -> dict[str, Any] | None:
    book = _book(parts)
    if book is None:
        return None
    href = reverse("incident-step", args=[parts.slug, parts.row.id])
    return checklist_panel(
        book, work.ticks_from_history(parts.histories[parts.row.id]), parts.names, may_tick=may_tick, href=href
    )


def _book(parts: IncidentParts) -> runbooks.Runbook | None:
    """The chosen runbook, else the one for its cause, else the one for the finding of its first action."""
    chosen = runbooks.RUNBOOKS.get(parts.row.runbook) or runbooks.for_cause(parts.row.about)
    if chosen is not None:
        return chosen
    action = next(iter(parts.actions.values()), None)
    if action is None:
        return None
    return runbooks.for_case(
        reason="", discrepancy=action.discrepancy, trigger=recovery_table.trigger_of(action.recovery_row)
    )


def _subjects(parts: IncidentParts) -> list[tuple[UUID, str]]:
    """The subjects of the timeline, in words."""
    freezes = [(each.id, f"Freeze of {each.scope} {each.value}".strip()) for each in parts.freezes.values()]
    cases = [(each.id, f"Case “{labels.case_label(each)}”") for each in parts.cases.values()]
    actions = [(each.id, action_title(each.operation_kind, each.target)) for each in parts.actions.values()]
    return [(parts.row.id, "Incident"), *cases, *freezes, *actions]


def _timeline(parts: IncidentParts) -> list[dict[str, Any]]:
    """Return every event of the incident and of its related subjects, in time order."""
    called = _subject_names(parts)
    lines = [
        {**line, "detail": _about(about, line["detail"]) if subject != parts.row.id else line["detail"]}
        for subject, about in _subjects(parts)
        for line in event_rows(_telling(parts, subject), parts.names, called)
        if subject == parts.row.id or line["kind"] not in _SAID_ELSEWHERE
    ]
    return sorted(lines, key=lambda line: line["at"])


def _telling(parts: IncidentParts, subject: UUID) -> list[Any]:
    """Return the events for the timeline: of an action only its outcome, because its beginning is on its own page."""
    history = parts.histories[subject]
    if subject not in parts.actions:
        return history
    return [each for each in history if _matters(each[0])]


def _matters(event: Event) -> bool:
    return event.kind in _AFTER or (event.state != event.from_state and event.state not in _ON_THE_WAY)


_AFTER = frozenset(
    {
        *("contradicted", "contradiction_withdrawn", "doubted"),
        *("attested_present", "accepted_as_it_is", "attested_absent"),
    }
)
_ON_THE_WAY = frozenset({"PROPOSED", "VALIDATED", "EXECUTING", "ACCEPTED", "PENDING", "COMMITTED"})


def _subject_names(parts: IncidentParts) -> dict[str, str]:
    return {str(subject): about for subject, about in _subjects(parts)}


def _about(about: str, detail: str) -> str:
    return f"{about}: {detail}" if detail else about


def postmortem_facts(tenant: Tenant, row: Incident, *, as_of: datetime) -> postmortem.PostmortemFacts:
    """The facts of the post-mortem."""
    told = _gather_parts(tenant, row)
    listed = _checklist(told, may_tick=False)
    return postmortem.PostmortemFacts(
        id=str(row.id),
        title=row.title,
        kind=row.kind,
        severity=labels.SEVERITIES[row.severity],
        state=labels.sentence_case(row.state),
        opened_at=row.opened_at,
        closed_at=row.closed_at,
        note=row.closing_note,
        runbook=listed["book"].title if listed else "",
        as_of=as_of.astimezone(UTC),
        actions=_actions(told),
        cases=_cases(told),
        freezes=_stops(told),
        steps=_steps(listed),
        lines=_lines(told),
    )


def _actions(parts: IncidentParts) -> tuple[postmortem.AffectedSubject, ...]:
    return tuple(
        postmortem.AffectedSubject(
            id=str(each.id),
            title=action_title(each.operation_kind, each.target),
            state=labels.outcome_label(each),
            found=labels.finding_label(each),
        )
        for each in parts.actions.values()
    )


def _cases(parts: IncidentParts) -> tuple[postmortem.AffectedSubject, ...]:
    return tuple(
        postmortem.AffectedSubject(
            id=str(each.id),
            title=labels.case_label(each),
            state=labels.CASES[each.state],
            found=labels.RESOLUTIONS[each.resolution][0] if each.resolution else "",
        )
        for each in parts.cases.values()
    )


def _stops(parts: IncidentParts) -> tuple[postmortem.PlacedFreeze, ...]:
    decisions: dict[str, str] = {}
    for event, _, detail in parts.histories[parts.row.id]:
        if event.kind == "incident_closed":
            decisions = (detail or {}).get("freezes", {})
    said = {"lift": "lifted at closing", "keep": "kept at closing"}
    return tuple(
        postmortem.PlacedFreeze(
            what=f"{each.scope} {each.value}".strip(),
            reason=each.reason,
            placed_at=each.placed_at,
            lifted_at=each.lifted_at,
            decision=said.get(decisions.get(str(each.id), ""), ""),
        )
        for each in parts.freezes.values()
    )


def _steps(listed: dict[str, Any] | None) -> tuple[postmortem.CompletedStep, ...]:
    return tuple(
        postmortem.CompletedStep(
            text=step["text"],
            who=step["done"]["by"] if step["done"] else "",
            at=step["done"]["at"] if step["done"] else None,
            evidence=step["done"]["evidence"] if step["done"] else "",
        )
        for step in (listed["steps"] if listed else ())
    )


def _lines(parts: IncidentParts) -> tuple[postmortem.TimelineEvent, ...]:
    lines = []
    for subject, about in _subjects(parts):
        history = parts.histories[subject]
        for (event, _, _), said in zip(history, event_rows(history, parts.names, _subject_names(parts)), strict=True):
            lines.append(
                postmortem.TimelineEvent(
                    at=event.at,
                    about=about,
                    what=said["word"],
                    who=said["actor"],
                    detail=said["detail"],
                    seq=event.seq,
                    hash=bytes(event.entry_hash).hex(),
                )
            )
    return tuple(sorted(lines, key=lambda line: (line.at, line.seq)))
