"""Reads tenants, subjects, events and entries. All functions run inside `tenancy`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from django.db.models import Count, F

from ledger.db import RawCall, call_function, columns, execute, load_models, pipeline, select
from ledger.models import (
    Entry,
    Event,
    Subject,
    Tenant,
)
from ledger.record.rules import envelope
from ledger.record.rules.ids import lower_bound

_LOCK_HEAD = b"SELECT state, seq, head, entry FROM ledger_lock($1, $2, $3)"
_LOCK_ONE = b"SELECT $2::uuid, $3::text, state, seq, head, entry FROM ledger_lock($1, $2, $3)"


def head_for_update(tenant_id: UUID, subject_id: UUID, kind: str) -> dict[str, Any] | None:
    """Lock the head of a subject until the transaction ends; return the fields of `operations.SubjectHead`."""
    rows = call_function(_LOCK_HEAD, tenant_id.bytes, subject_id.bytes, kind, prepared=True)
    if not rows:
        return None
    state, seq, head, entry = rows[0]
    assert state is not None
    assert seq is not None
    return read_head(tenant_id, subject_id, kind, state.decode(), int.from_bytes(seq), head, entry)


def lock_call(subject_id: UUID, kind: str) -> RawCall:
    """The call for `heads_for_update` that locks one subject; the tenant, its first value, is added there."""
    return RawCall(_LOCK_ONE, (subject_id.bytes, kind))


def heads_for_update(
    tenant_id: UUID, locks: Sequence[RawCall], reads: Iterable[tuple[Any, ...]] = ()
) -> tuple[list[dict[str, Any]], list[list[tuple[Any, ...]]]]:
    """Lock the heads of subjects by these calls, in their order, and run more statements after the locks, all in one
    message; return the heads of the subjects that exist.

    The first value of each call is the tenant, the others are its own. The rows of a call are a subject's id, kind,
    state, seq, head and entry, the last four as `ledger_lock` returns them.
    """
    calls = (*(RawCall(text, (tenant_id.bytes, *values)) for text, values in locks), *reads)
    results = pipeline(*calls) if calls else []
    heads = [read_head(tenant_id, *row) for rows in results[: len(locks)] for row in rows]
    return heads, results[len(locks) :]


def read_head(
    tenant_id: UUID, subject_id: UUID, kind: str, state: str, seq: int, head: bytes | None, entry: bytes | None
) -> dict[str, Any]:
    """The head in a row of a call of `heads_for_update`."""
    return {
        "tenant_id": tenant_id,
        "id": subject_id,
        "kind": kind,
        "state": state,
        "seq": seq,
        "hash": head,
        "entry": orjson.loads(entry) if entry is not None else None,
    }


def tenant(slug: str) -> Tenant | None:
    return Tenant.objects.filter(slug=slug).first()


def tenant_by_id(tenant_id: UUID) -> Tenant:
    return Tenant.objects.get(id=tenant_id)


def slug_call(tenant_id: UUID) -> tuple[Any, ...]:
    """The call for `pipeline` that reads a tenant's slug."""
    return "SELECT slug FROM ledger_tenant WHERE id = $1", tenant_id


def tenants_by_id(ids: list[UUID]) -> dict[UUID, Tenant]:
    """These tenants, in one query."""
    return {each.id: each for each in select(Tenant, "id = ANY($1::uuid[])", ids)}


def tenants(*, writable: bool = False) -> list[Tenant]:
    """Every tenant, or those that are not held for a move and not at another installation."""
    return select(Tenant, "(moving = '' OR NOT $1) ORDER BY id", writable)


def tenants_being_moved() -> list[Tenant]:
    """The tenants on their way to another installation, or from one; those that are there are not among them."""
    return select(Tenant, "moving NOT IN ('', 'moved') ORDER BY slug")


def subjects_by_kind(tenant_id: UUID, kinds: Iterable[str], *, since: datetime) -> dict[str, int]:
    """Count the subjects with events of these kinds since then, by kind."""
    rows = execute(
        "SELECT kind, count(DISTINCT subject_id) FROM ledger_event"
        " WHERE tenant_id = $1 AND at > $2 AND kind = ANY($3) GROUP BY kind",
        *(tenant_id, since, list(kinds)),
        prepared=False,
    )
    return dict(rows)


def subject_state(tenant_id: UUID, subject_id: UUID) -> str | None:
    return Subject.objects.filter(tenant_id=tenant_id, id=subject_id).values_list("state", flat=True).first()


def subject_kind(tenant_id: UUID, subject_id: UUID) -> str | None:
    """The kind of a subject; None where there is no such subject."""
    return Subject.objects.filter(tenant_id=tenant_id, id=subject_id).values_list("kind", flat=True).first()


def recorded_digests(tenant_id: UUID, subject_id: UUID, name: str) -> set[tuple[str, str]]:
    """(kind of event, digest) of each digest that a subject's events name `name`."""
    rows = execute(
        "SELECT kind, envelope FROM ledger_event WHERE tenant_id = $1 AND subject_id = $2", tenant_id, subject_id
    )
    named = ((kind, envelope.parse(bytes(data)).digests.get(name)) for kind, data in rows)
    return {(kind, found) for kind, found in named if found}


def entry(tenant_id: UUID, subject_id: UUID, seq: int) -> dict[str, Any] | None:
    """The entry that event `seq` of a subject carries."""
    kept = execute(
        "SELECT entry FROM ledger_entry WHERE tenant_id = $1 AND subject_id = $2 AND seq = $3",
        *(tenant_id, subject_id, seq),
    )
    return load_json(kept[0][0]) if kept else None


def entries(tenant_id: UUID, places: list[tuple[UUID, int]]) -> dict[UUID, dict[str, Any]]:
    """The entries that these events (subject, seq) carry, by subject."""
    kept = execute(
        "SELECT subject_id, entry FROM ledger_entry WHERE tenant_id = $1"
        " AND (subject_id, seq) IN (SELECT * FROM unnest($2::uuid[], $3::integer[]))",
        *(tenant_id, [subject for subject, _ in places], [seq for _, seq in places]),
    )
    return {subject: orjson.loads(data) for subject, data in kept if data is not None}


def entries_at(tenant_id: UUID, places: list[tuple[UUID, int]]) -> dict[tuple[UUID, int], dict[str, Any]]:
    """The entries that these events (subject, seq) carry, by event; several of one subject too."""
    kept = execute(
        "SELECT subject_id, seq, entry FROM ledger_entry WHERE tenant_id = $1"
        " AND (subject_id, seq) IN (SELECT * FROM unnest($2::uuid[], $3::integer[]))",
        *(tenant_id, [subject for subject, _ in places], [seq for _, seq in places]),
    )
    return {(subject, seq): orjson.loads(data) for subject, seq, data in kept if data is not None}


def creator_of(tenant_id: UUID, subject_id: UUID) -> UUID | None:
    """The actor of a subject's first event."""
    found = execute(
        "SELECT actor_id FROM ledger_event WHERE tenant_id = $1 AND subject_id = $2 AND seq = 1", tenant_id, subject_id
    )
    return found[0][0] if found else None


def history(tenant_id: UUID, subject_id: UUID) -> list[tuple[Event, dict[str, Any] | None, dict[str, Any] | None]]:
    """Every event of a subject in order, each with its entry and detail."""
    rows = execute(_HISTORY, tenant_id, subject_id)
    events = (load_models(row, Event) for row in rows)
    return [(event, load_json(entry), load_json(detail)) for (event,), (entry, detail) in events]


_HISTORY = f"""
SELECT {columns(Event, "e")}, n.entry, n.detail FROM ledger_event e
    JOIN ledger_entry n ON n.tenant_id = e.tenant_id AND n.subject_id = e.subject_id AND n.seq = e.seq
    WHERE e.tenant_id = $1 AND e.subject_id = $2 ORDER BY e.seq
"""


def histories(tenant_id: UUID, subjects: list[UUID]) -> dict[UUID, list[tuple[Event, Any, Any]]]:
    """Every event of several subjects, with its detail but without its entry; a missing subject has no events."""
    found: dict[UUID, list[tuple[Event, Any, Any]]] = {subject: [] for subject in subjects}
    for row in execute(_HISTORIES, tenant_id, subjects):
        (event,), (detail,) = load_models(row, Event)
        found[event.subject_id].append((event, None, load_json(detail)))
    return found


_HISTORIES = f"""
SELECT {columns(Event, "e")}, n.detail FROM ledger_event e
    JOIN ledger_entry n ON n.tenant_id = e.tenant_id AND n.subject_id = e.subject_id AND n.seq = e.seq
    WHERE e.tenant_id = $1 AND e.subject_id = ANY($2) ORDER BY e.seq
"""


def event(tenant_id: UUID, subject_id: UUID, seq: int) -> Event:
    return Event.objects.get(tenant_id=tenant_id, subject_id=subject_id, seq=seq)


def event_with_detail(
    tenant_id: UUID, subject_id: UUID, seq: int
) -> tuple[Event, dict[str, Any] | None, dict[str, Any] | None] | None:
    """One event with its entry and detail."""
    found = Event.objects.filter(tenant_id=tenant_id, subject_id=subject_id, seq=seq).first()
    kept = Entry.objects.filter(tenant_id=tenant_id, subject_id=subject_id, seq=seq).first()
    if found is None or kept is None:
        return None
    return found, load_json(kept.entry), load_json(kept.detail)


def recent_events(tenant_id: UUID, *, after: datetime, limit: int = 500) -> list[tuple[str, str, UUID, UUID, datetime]]:
    """Return (subject kind, kind, subject id, event id, recorded at) of the events recorded after a time,
    oldest first.
    """
    found = Event.objects.filter(tenant_id=tenant_id, recorded_at__gt=after).order_by("recorded_at")[:limit]
    return list(found.values_list("subject_kind", "kind", "subject_id", "id", "recorded_at"))


def end_before_execution(tenant_id: UUID, action_id: UUID) -> dict[str, Any] | None:
    """The detail of the event that ended an action before it ran, if one did."""
    ends = Event.objects.filter(tenant_id=tenant_id, subject_id=action_id, from_state="VALIDATED", state="FAILED")
    seq = ends.order_by("-seq").values_list("seq", flat=True).first()
    kept = Entry.objects.filter(tenant_id=tenant_id, subject_id=action_id, seq=seq) if seq is not None else None
    return load_json(kept.values_list("detail", flat=True).first()) if kept is not None else None


def subject_events(tenant_id: UUID, subjects: Iterable[UUID], *, after: datetime, limit: int = 500) -> list[Event]:
    """Return the events of these subjects that were recorded after a time, oldest first."""
    found = Event.objects.filter(tenant_id=tenant_id, subject_id__in=list(subjects), recorded_at__gt=after)
    return list(found.defer("envelope").order_by("recorded_at", "id")[:limit])


def events_of_kinds(
    tenant_id: UUID, kinds: Iterable[str], *, after: datetime, but: Iterable[UUID] = (), limit: int = 500
) -> list[tuple[Event, dict[str, Any]]]:
    """Return the events of these kinds of subjects that were recorded after a time, oldest first, with their details;
    without the events in `but`.
    """
    found = Event.objects.filter(tenant_id=tenant_id, subject_kind__in=list(kinds), recorded_at__gt=after)
    events = list(found.exclude(id__in=list(but)).defer("envelope").order_by("recorded_at")[:limit])
    subjects = {event.subject_id for event in events}
    kept = Entry.objects.filter(tenant_id=tenant_id, subject_id__in=subjects)
    details = {(subject, seq): data for subject, seq, data in kept.values_list("subject_id", "seq", "detail")}
    return [(event, load_json(details.get((event.subject_id, event.seq))) or {}) for event in events]


def newest_event_of_kind(tenant_id: UUID, subject_id: UUID, kind: str) -> tuple[datetime, dict[str, Any]] | None:
    """The time and the detail of a subject's newest event of a kind."""
    found = Event.objects.filter(tenant_id=tenant_id, subject_id=subject_id, kind=kind)
    newest = found.order_by("-seq").values_list("seq", "recorded_at").first()
    if newest is None:
        return None
    kept = Entry.objects.filter(tenant_id=tenant_id, subject_id=subject_id, seq=newest[0])
    return newest[1], load_json(kept.values_list("detail", flat=True).first()) or {}


def details_of_kinds(tenant_id: UUID, subject_kind: str, kinds: Iterable[str]) -> list[tuple[UUID, dict[str, Any]]]:
    """(subject, detail) of every event of these kinds on subjects of one kind, in the order of each subject's events.

    A detail that cannot be read, which is a finding of its event, is left out.
    """
    rows = execute(
        "SELECT e.subject_id, n.detail FROM ledger_event e JOIN ledger_entry n ON n.tenant_id = e.tenant_id"
        " AND n.subject_id = e.subject_id AND n.seq = e.seq WHERE e.tenant_id = $1 AND e.subject_kind = $2"
        " AND e.kind = ANY($3) ORDER BY e.subject_id, e.seq",
        *(tenant_id, subject_kind, list(kinds)),
    )
    found = []
    for subject_id, detail in rows:
        with suppress(orjson.JSONDecodeError):
            found.append((subject_id, load_json(detail) or {}))
    return found


def ids_recorded_since(tenant_id: UUID, ids: Iterable[UUID], moment: datetime) -> list[UUID]:
    """Return the ids of those of these events that were recorded after a time."""
    found = Event.objects.filter(tenant_id=tenant_id, recorded_at__gt=moment, id__in=list(ids))
    return list(found.values_list("id", flat=True))


def state_entry_events(tenant_id: UUID, subjects: Iterable[UUID], state: str) -> dict[UUID, UUID]:
    """The event by which each of these subjects entered a state."""
    found = Event.objects.filter(tenant_id=tenant_id, subject_id__in=list(subjects), state=state)
    return dict(found.exclude(from_state=state).order_by("seq").values_list("subject_id", "id"))


def load_json(data: bytes | memoryview | None) -> dict[str, Any] | None:
    return orjson.loads(bytes(data)) if data is not None else None


def count_state_entries(tenant_id: UUID, states: Iterable[str], *, since: datetime, until: datetime) -> dict[str, int]:
    """Count the actions of a period that entered each of these states."""
    ids = {"subject_id__gte": lower_bound(since), "subject_id__lt": lower_bound(until)}
    found = Event.objects.filter(tenant_id=tenant_id, subject_kind="action", state__in=list(states), **ids)
    moved = found.exclude(from_state=F("state")).values_list("state")
    return dict(moved.annotate(Count("subject_id", distinct=True)).order_by())


def changed_actions(
    tenant_id: UUID, *, after: datetime, until: datetime | None = None, limit: int | None = None
) -> tuple[dict[UUID, int], datetime | None]:
    """The newest event (its seq) of each action that has events in a period, by action; also the time of the last one.

    Reads at most `limit` events.
    """
    rows = execute(
        "SELECT subject_id, max(seq), max(recorded_at) FROM (SELECT subject_id, seq, recorded_at FROM ledger_event"
        " WHERE tenant_id = $1 AND subject_kind = 'action' AND recorded_at > $2"
        " AND ($3::timestamptz IS NULL OR recorded_at <= $3) ORDER BY recorded_at LIMIT $4) AS recorded"
        " GROUP BY subject_id",
        *(tenant_id, after, until, limit),
    )
    return {subject: seq for subject, seq, _ in rows}, max((reached for _, _, reached in rows), default=None)


def action_steps(tenant_id: UUID, action_ids: list[UUID]) -> dict[UUID, list[tuple[Any, ...]]]:
    """Return each action's events in order, as (id, seq, kind, from, to, at, prev, hash, whether it commits to an
    entry, digest of the verification policy if it names one); none of this is ever erased.
    """
    rows = execute(
        "SELECT subject_id, id, seq, kind, from_state, state, at, prev, entry_hash,"
        " said -> 'commitments' @> '[{\"purpose\": \"entry\"}]', said #>> '{digests,verification}'"
        " FROM ledger_event, LATERAL (SELECT convert_from(envelope, 'UTF8')::jsonb AS said) AS spoken"
        " WHERE tenant_id = $1 AND subject_id = ANY($2) ORDER BY subject_id, seq",
        *(tenant_id, action_ids),
    )
    found: dict[UUID, list[tuple[Any, ...]]] = {}
    for subject, *step in rows:
        found.setdefault(subject, []).append(tuple(step))
    return found


def states_after(tenant_id: UUID, event_ids: Iterable[UUID]) -> dict[UUID, str]:
    """The state of its subject after each of these events."""
    return dict(Event.objects.filter(tenant_id=tenant_id, id__in=list(event_ids)).values_list("id", "state"))
