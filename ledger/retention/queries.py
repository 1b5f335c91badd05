"""Queries of erasures, of what may be erased, and of the holds and the policy that decide it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from ledger.db import execute, fetch_one, select
from ledger.models import ErasedSubject, Erasure, LegalHold, Retention
from ledger.record.queries import events
from ledger.record.rules.ids import lower_bound
from ledger.retention.rules import retention as rules
from ledger.retention.rules.retention import RESTING, RetentionPolicy, RetentionSubject

OPEN = ("REQUESTED", "CONFIRMED")


class OffBoarding(NamedTuple):
    """The newest request to off-board a tenant: its state, and the number of its event on the tenant."""

    id: UUID
    state: str
    reason: str
    requested_at: datetime
    seq: int

    @property
    def is_open(self) -> bool:
        """Return whether it waits for a person, for its beginning or for its end."""
        return self.state in ("REQUESTED", "CONFIRMED", "BEGUN")


def off_boarding(tenant_id: UUID) -> OffBoarding | None:
    """The newest request to off-board the tenant, as its events tell it, or None."""
    found = None
    for event, _, detail in events.history(tenant_id, tenant_id):
        kind = event.kind.removeprefix("off_boarding_")
        if kind == event.kind or detail is None or "off_boarding_id" not in detail:
            continue
        if kind == "requested":
            found = OffBoarding(UUID(detail["off_boarding_id"]), "REQUESTED", detail["reason"], event.at, event.seq)
        elif found is not None and found.state != "REFUSED" and str(found.id) == detail["off_boarding_id"]:
            found = found._replace(state=kind.upper())
    return found


def erasure(tenant_id: UUID, erasure_id: UUID) -> Erasure | None:
    return fetch_one(Erasure, "tenant_id = $1 AND id = $2", tenant_id, erasure_id)


def erasures_by_id(tenant_id: UUID, ids: Collection[UUID]) -> list[Erasure]:
    return list(Erasure.objects.filter(tenant_id=tenant_id, id__in=ids))


def erasures(
    tenant_id: UUID, *, states: Iterable[str] = (), after: UUID | None = None, limit: int = 50
) -> list[Erasure]:
    """Return requests to erase, newest first, after the row `after`; in these states, or in any."""
    found = Erasure.objects.filter(tenant_id=tenant_id)
    if wanted := list(states):
        found = found.filter(state__in=wanted)
    return list((found.filter(id__lt=after) if after else found).order_by("-id")[:limit])


def confirmed_erasures(tenant_id: UUID) -> list[UUID]:
    """Confirmed requests, oldest first. The eraser's role may read this much."""
    rows = execute("SELECT id FROM ledger_erasure WHERE tenant_id = $1 AND state = 'CONFIRMED' ORDER BY id", tenant_id)
    return [row[0] for row in rows]


def subjects_of(tenant_id: UUID, erasure_id: UUID) -> list[tuple[UUID, str]]:
    """Return (id, kind) of the subjects that a request names, from its first event."""
    rows = execute(
        "SELECT (each ->> 'id')::uuid, each ->> 'kind' FROM ledger_entry n,"
        " jsonb_array_elements(convert_from(n.detail, 'UTF8')::jsonb -> 'subjects') each"
        " WHERE n.tenant_id = $1 AND n.subject_id = $2 AND n.seq = 1",
        *(tenant_id, erasure_id),
    )
    return [(subject, kind) for subject, kind in rows]


def erased_subject(tenant_id: UUID, subject_id: UUID) -> ErasedSubject | None:
    """The erasure of a subject, if it was erased."""
    return fetch_one(ErasedSubject, "tenant_id = $1 AND subject_id = $2", tenant_id, subject_id)


def erased_subjects(tenant_id: UUID, subject_ids: Iterable[UUID]) -> dict[UUID, ErasedSubject]:
    """Return those of these subjects that were erased."""
    found = select(ErasedSubject, "tenant_id = $1 AND subject_id = ANY($2)", tenant_id, list(subject_ids))
    return {row.subject_id: row for row in found}


def erased_between(tenant_id: UUID, *, after: UUID, upto: UUID) -> list[ErasedSubject]:
    """The erased subjects in (after, upto]."""
    return select(
        ErasedSubject,
        "tenant_id = $1 AND subject_id > $2 AND subject_id <= $3 ORDER BY subject_id",
        tenant_id,
        after,
        upto,
    )


def recorded_erasures(tenant_id: UUID, erasure_id: UUID) -> dict[UUID, int]:
    """The erasures that the events of a request record: the last erased event by subject."""
    rows = execute(
        "SELECT (each ->> 'id')::uuid, (each ->> 'events')::integer FROM ledger_event e JOIN ledger_entry n"
        " ON n.tenant_id = e.tenant_id AND n.subject_id = e.subject_id AND n.seq = e.seq"
        " CROSS JOIN LATERAL jsonb_array_elements(convert_from(n.detail, 'UTF8')::jsonb -> 'subjects') each"
        " WHERE e.tenant_id = $1 AND e.subject_id = $2 AND e.kind = 'erased'",
        *(tenant_id, erasure_id),
    )
    return dict(rows)


def pruned_leaves(tenant_id: UUID, log: int, indexes: range) -> dict[int, UUID]:
    """The indexes of a log whose events were pruned, each with the policy under which they were."""
    rows = execute(
        "SELECT l.index, e.pruned_by FROM ledger_leaf l JOIN ledger_erased e"
        " ON e.tenant_id = l.tenant_id AND e.subject_id = l.subject_id AND e.pruned_by IS NOT NULL"
        " WHERE l.tenant_id = $1 AND l.log = $2 AND l.index >= $3 AND l.index < $4",
        *(tenant_id, log, indexes.start, indexes.stop),
    )
    return dict(rows)


def is_pruned(tenant_id: UUID, subject_id: UUID) -> bool:
    """Return whether the events of a subject were pruned."""
    return ErasedSubject.objects.filter(tenant_id=tenant_id, subject_id=subject_id, pruned_by__isnull=False).exists()


def pruned_counts(tenant_id: UUID) -> list[tuple[UUID, int, int]]:
    """Return for each policy the number of subjects listed as pruned under it, and the number in its events."""
    rows = execute(
        "SELECT p.id, p.listed, coalesce((SELECT sum((convert_from(n.detail, 'UTF8')::jsonb ->> 'subjects')::integer)"
        " FROM ledger_event e JOIN ledger_entry n ON n.tenant_id = e.tenant_id AND n.subject_id = e.subject_id"
        " AND n.seq = e.seq WHERE e.tenant_id = $1 AND e.subject_id = p.id AND e.kind = 'pruned'), 0)::integer"
        " FROM (SELECT pruned_by AS id, count(*)::integer AS listed FROM ledger_erased WHERE tenant_id = $1"
        " AND pruned_by IS NOT NULL GROUP BY pruned_by) p",
        tenant_id,
    )
    return [(policy, listed, told) for policy, listed, told in rows]


def subjects_in_open_requests(tenant_id: UUID, subject_ids: Iterable[UUID]) -> set[UUID]:
    """Return those of these subjects that an open erasure request names."""
    rows = execute(
        "SELECT DISTINCT (each ->> 'id')::uuid FROM ledger_erasure x JOIN ledger_entry n"
        " ON n.tenant_id = x.tenant_id AND n.subject_id = x.id AND n.seq = 1"
        " CROSS JOIN LATERAL jsonb_array_elements(convert_from(n.detail, 'UTF8')::jsonb -> 'subjects') each"
        " WHERE x.tenant_id = $1 AND x.state = ANY($2) AND (each ->> 'id')::uuid = ANY($3)",
        *(tenant_id, list(OPEN), list(subject_ids)),
    )
    return {row[0] for row in rows}


def retention_subjects(tenant_id: UUID, subject_ids: Iterable[UUID]) -> list[RetentionSubject]:
    """Kind and state of these subjects, with target and agent of the actions among them."""
    rows = execute(
        "SELECT s.id, s.kind, s.state, s.created_at, coalesce(a.target, ''), coalesce(a.agent, '')"
        " FROM ledger_subject s LEFT JOIN ledger_action a ON a.tenant_id = s.tenant_id AND a.id = s.id"
        " WHERE s.tenant_id = $1 AND s.id = ANY($2) ORDER BY s.id",
        *(tenant_id, list(subject_ids)),
    )
    return [
        RetentionSubject(id=row[0], kind=row[1], state=row[2], created_at=row[3], target=row[4], agent=row[5])
        for row in rows
    ]


def expired_actions(tenant_id: UUID, *, before: datetime, limit: int) -> list[UUID]:
    """Return actions at rest since before a time that were not erased and are not being erased, oldest first."""
    rows = execute(
        "SELECT a.id FROM ledger_action a WHERE a.tenant_id = $1 AND a.id < $2 AND a.state = ANY($3)"
        " AND NOT EXISTS (SELECT FROM ledger_erased e WHERE e.tenant_id = a.tenant_id AND e.subject_id = a.id)"
        " ORDER BY a.id LIMIT $4",
        *(tenant_id, lower_bound(before), sorted(RESTING["action"]), limit),
    )
    ids = [row[0] for row in rows]
    waiting = subjects_in_open_requests(tenant_id, ids) if ids else set()
    return [each for each in ids if each not in waiting]


def hold(tenant_id: UUID, hold_id: UUID) -> LegalHold | None:
    return fetch_one(LegalHold, "tenant_id = $1 AND id = $2", tenant_id, hold_id)


def holds(tenant_id: UUID, *, lifted: bool = False, after: UUID | None = None, limit: int = 50) -> list[LegalHold]:
    """Return holds in force, or lifted ones, newest first, after the row `after`."""
    found = LegalHold.objects.filter(tenant_id=tenant_id, lifted_at__isnull=not lifted)
    return list((found.filter(id__lt=after) if after else found).order_by("-id")[:limit])


def holds_on(tenant_id: UUID, subjects: Iterable[RetentionSubject]) -> list[LegalHold]:
    """The holds in force that cover one of these subjects."""
    found = list(subjects)
    standing = LegalHold.objects.filter(tenant_id=tenant_id, lifted_at__isnull=True).order_by("id")
    return [each for each in standing if rules.covers(each.scope, each.value, found)]


def retention(tenant_id: UUID) -> Retention | None:
    """Return the policy that two people put in force, if there is one."""
    return fetch_one(Retention, "tenant_id = $1 AND state = 'ACTIVE'", tenant_id)


def retentions(tenant_id: UUID, *, after: UUID | None = None, limit: int = 50) -> list[Retention]:
    """Every policy that was proposed, newest first."""
    found = Retention.objects.filter(tenant_id=tenant_id)
    return list((found.filter(id__lt=after) if after else found).order_by("-id")[:limit])


def policy(tenant_id: UUID) -> RetentionPolicy:
    """The retention policy that applies to a tenant: the one in force, or the defaults."""
    row = retention(tenant_id)
    return policy_from_row(row) if row else RetentionPolicy()


def policy_from_row(row: Retention) -> RetentionPolicy:
    return RetentionPolicy(
        payload_days=row.payload_days,
        envelope_days=row.envelope_days,
        floor_days=row.floor_days,
        standing=row.standing,
    )


def keys_to_destroy(tenant_id: UUID, erasure_id: UUID) -> list[UUID]:
    """Return the keys of erased subjects that are still in the key database. For the eraser's role."""
    return [row[0] for row in execute("SELECT key_id FROM ledger_keys_to_destroy($1, $2)", tenant_id, erasure_id)]
