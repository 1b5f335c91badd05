"""The narrative of an action or a case: its history as sentences, each from one event of the ledger.

Every envelope is hashed again while it is told, and held against the hash that is stored and the one that the next
event names; what does not fit is said in the story, in its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.urls import reverse

from approvals.requests.queries import approvals as approvals_queries
from console.accounts.queries import actor_names
from console.web import labels
from console.web.event_labels import LabelledEvent, event_sentence
from ledger.actions.queries import search
from ledger.catalogue.rules.targets import target_text
from ledger.log.queries.log import LogPosition
from ledger.record.queries import events
from ledger.record.rules import envelope as envelopes
from ledger.record.rules.canonical import parse
from ledger.record.rules.refusals import Refused
from reviews import queries as after
from reviews.reporting.operations.reports import report_on

if TYPE_CHECKING:
    from ledger.models import Action, Event, Tenant
    from reviews.models import Case

ERASED = "Its content was erased; its envelope, hash and log position remain."


@dataclass(frozen=True, kw_only=True)
class NarrativeLine:
    """One sentence and its source."""

    at: datetime
    text: str
    who: str
    subject: str
    subject_id: UUID
    seq: int
    state: str
    hash: str
    href: str
    place: LogPosition | None
    evidence: list[dict[str, str]]
    broken: str


@dataclass(frozen=True, kw_only=True)
class Narrative:
    """The narrative of an action, and its events."""

    title: str
    lines: list[NarrativeLine]
    facts: list[tuple[str, str]]
    origin: str
    people: list[tuple[str, str]]
    sealed: int
    unsealed: int
    broken: int


def action_narrative(tenant: Tenant, action: Action, *, title: str) -> Narrative:
    """The narrative of an action: its session's beginning, its own events, and those of its approvals and cases."""
    approvals = [each.id for each in approvals_queries.approvals_of(tenant.id, action.id)]
    cases = [each.id for each in after.cases_of(tenant.id, action.id)]
    histories = [events.history(tenant.id, each) for each in (action.id, *approvals, *cases)]
    begun = events.history(tenant.id, action.session_id)[:1]
    facts = [
        ("Action", str(action.id)),
        ("Current state", labels.outcome_label(action)),
        *_current_report(action),
        ("Tool", f"{action.tool} {action.tool_version}"),
        ("Target", target_text(action.target)),
        ("Agent", action.agent),
        ("Payload, SHA-256", action.payload_hash),
        ("Contract, SHA-256", action.contract_digest),
        ("Run", action.run_id),
    ]
    return _build_narrative(tenant, title, facts, [*begun, *(row for history in histories for row in history)])


def _current_report(action: Action) -> list[tuple[str, str]]:
    """The current report on the action; empty if its entry was erased."""
    entry = events.entry(action.tenant_id, action.id, action.seq)
    return [("Current report", report_on(action, entry).text)] if entry else []


def case_narrative(tenant: Tenant, case: Case, *, title: str) -> Narrative:
    """The story of a case that belongs to no action."""
    facts = [
        ("Case", str(case.id)),
        ("Current state", labels.CASES.get(case.state, case.state)),
        ("Target", target_text(case.target)),
        ("Reason", labels.case_reason_label(case.reason)),
    ]
    return _build_narrative(tenant, title, facts, events.history(tenant.id, case.id))


def _build_narrative(tenant: Tenant, title: str, facts: list[tuple[str, str]], rows: list[Any]) -> Narrative:
    rows = sorted(rows, key=lambda row: row[0].id)
    called = actor_names(tenant.id)
    places = search.log_positions(tenant.id, [(event.subject_id, event.seq) for event, _, _ in rows])
    payloads = {
        event.subject_id: detail["payload_hash"] for event, _, detail in rows if "payload_hash" in (detail or {})
    }
    broken = dict(_breaks(rows))
    lines = [
        _line(
            tenant.slug,
            event,
            LabelledEvent(
                kind=event.kind,
                who=called.get(event.actor_id, event.actor_kind),
                detail=detail or {},
                entry=entry or {},
                payload_hash=payloads.get(event.subject_id, ""),
                given_by=_giver(detail or {}, called),
            ),
            place=places.get((event.subject_id, event.seq)),
            broken=broken.get((event.subject_id, event.seq), ""),
        )
        for event, entry, detail in rows
    ]
    return Narrative(
        title=title,
        lines=lines,
        facts=facts,
        origin=tenant.origin,
        people=_people(rows, called),
        sealed=sum(1 for line in lines if line.place is not None and line.place.sealed),
        unsealed=sum(1 for line in lines if line.place is None or not line.place.sealed),
        broken=len(broken),
    )


def _giver(detail: Mapping[str, Any], called: Mapping[UUID, str]) -> str:
    """The person who gave the time-boxed pass that an event names; empty if it names none."""
    box = detail.get("time_box")
    return called.get(UUID(box["by"]), "somebody") if box else ""


def _line(slug: str, event: Event, said: LabelledEvent, *, place: LogPosition | None, broken: str) -> NarrativeLine:
    moved = event.state != event.from_state
    state = labels.step_label(event.subject_kind, event.kind, event.state, said.detail or None, said.entry or None)
    return NarrativeLine(
        at=event.at,
        text=f"{labels.event_label(event.kind)}. {ERASED}" if _is_emptied(event, said) else event_sentence(said),
        who=said.who,
        subject=labels.SUBJECTS.get(event.subject_kind, labels.sentence_case(event.subject_kind)),
        subject_id=event.subject_id,
        seq=event.seq,
        state=state if moved else "",
        hash=bytes(event.entry_hash).hex(),
        href=reverse("event", args=[slug, event.subject_id, event.seq]),
        place=place,
        evidence=_evidence(slug, event),
        broken=broken,
    )


def _is_emptied(event: Event, said: LabelledEvent) -> bool:
    """Return whether the envelope commits to content that was erased."""
    own = [each for each in _commitments(event) if each["pointer"] is None]
    return bool(own) and not said.detail and not said.entry


def _commitments(event: Event) -> list[dict[str, Any]]:
    try:
        return list(parse(bytes(event.envelope))["commitments"])
    except (Refused, KeyError, TypeError):
        return []


def _evidence(slug: str, event: Event) -> list[dict[str, str]]:
    """The evidence that the envelope commits to, besides its own entry and detail."""
    return [
        {
            "word": labels.EVIDENCE.get(each["purpose"], labels.sentence_case(each["purpose"])),
            "digest": each["digest"],
            "href": reverse("evidence", args=[slug, each["pointer"]]),
        }
        for each in _commitments(event)
        if each["pointer"] is not None
    ]


def _breaks(rows: Iterable[Any]) -> Iterable[tuple[tuple[UUID, int], str]]:
    """The events whose bytes do not match their hash, or the hash in the next event."""
    heads: dict[UUID, bytes] = {}
    for event, _, _ in rows:
        place = (event.subject_id, event.seq)
        stored = bytes(event.entry_hash)
        if envelopes.entry_hash(bytes(event.envelope)) != stored:
            yield place, "The stored envelope does not have the stored hash."
        elif event.seq > 1 and heads.get(event.subject_id) != bytes(event.prev or b""):
            yield place, "It does not continue the event before it."
        heads[event.subject_id] = stored


def _people(rows: Iterable[Any], names: dict[UUID, str]) -> list[tuple[str, str]]:
    """The names in the narrative, by pseudonym."""
    actors = {event.actor_id: event.actor_kind for event, _, _ in rows}
    return sorted((names.get(actor, kind), str(actor)) for actor, kind in actors.items())
