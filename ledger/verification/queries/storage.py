"""Reads of the stored record for verification. Every one runs inside `tenancy`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.apps import apps
from django.db import connection
from django.db.models import Q

from ledger import keystore
from ledger.db import execute
from ledger.models import (
    ContractVersion,
    Entry,
    Event,
    Evidence,
    IntegrityCheck,
    PolicyVersion,
    Subject,
    SubjectKey,
)
from ledger.record.queries.evidence import open_evidence_row
from ledger.record.rules import envelope as envelopes
from ledger.record.rules.refusals import Refused
from ledger.verification.rules.decisions import PolicyInForce
from ledger.verification.rules.rebuilding import ADOPTED
from ledger.verification.rules.stored_record import StoredDocument, StoredEvent, StoredEvidence, StoredHead

NOTHING_BEFORE, NOTHING_BEHIND = UUID(int=0), UUID(int=2**128 - 1)

# Whole rows for verification, a range of subjects at a time


def subject_ids(tenant_id: UUID, *, after: UUID, limit: int) -> list[UUID]:
    """The next subjects in the order of their ids, which is the order of their time."""
    found = Subject.objects.filter(tenant_id=tenant_id, id__gt=after).order_by("id")
    return list(found.values_list("id", flat=True)[:limit])


def stored_heads(tenant_id: UUID, *, after: UUID, upto: UUID) -> list[StoredHead]:
    """Return the heads of the subjects in (after, upto] with their present views, from one snapshot."""
    names = ("id", "kind", "state", "seq", "head", "created_at", "updated_at")
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {', '.join(f's.{name}' for name in names)}, p.active, a.* FROM ledger_subject s"
            " LEFT JOIN ledger_action a ON a.tenant_id = s.tenant_id AND a.id = s.id AND s.kind = 'action'"
            " LEFT JOIN ledger_policyversion p ON p.tenant_id = s.tenant_id AND p.id = s.id AND s.kind = 'policy'"
            " WHERE s.tenant_id = %s AND s.id > %s AND s.id <= %s ORDER BY s.id",
            [tenant_id, after, upto],
        )
        columns = [column.name for column in cursor.description or ()][len(names) + 1 :]
        rows = [tuple(map(_plain, row)) for row in cursor.fetchall()]
    return [
        _stored_head(
            dict(zip(names, row, strict=False)), row[len(names)], dict(zip(columns, row[len(names) + 1 :], strict=True))
        )
        for row in rows
    ]


def _stored_head(head: dict[str, Any], in_force: bool | None, view: dict[str, Any]) -> StoredHead:
    known = view.pop("id") is not None
    del view["tenant_id"]
    return StoredHead(columns=head, view=view if known else None, in_force=in_force)


def stored_events(tenant_id: UUID, *, after: tuple[UUID, int], upto: UUID, limit: int) -> list[StoredEvent]:
    """Return the next events after (subject, seq), up to and including those of the subject `upto`, in order."""
    place = (tenant_id, *after)
    here = Q(tenant_id=tenant_id, subject_id__gte=after[0], subject_id__lte=upto, pk__gt=place)
    events = list(Event.objects.filter(here).order_by("subject_id", "seq").values()[:limit])
    if not events:
        return []
    last = (tenant_id, events[-1]["subject_id"], events[-1]["seq"])
    kept = {(row.subject_id, row.seq): row for row in Entry.objects.filter(here, pk__lte=last)}
    return [_stored_event(event, kept.get((event["subject_id"], event["seq"]))) for event in events]


def _stored_event(event: Mapping[str, Any], kept: Entry | None) -> StoredEvent:
    columns = {name: _plain(value) for name, value in event.items()}
    return StoredEvent(
        columns=columns,
        envelope=columns.pop("envelope"),
        entry=_plain(kept.entry) if kept else None,
        entry_salt=_plain(kept.entry_salt) if kept else None,
        detail=_plain(kept.detail) if kept else None,
        detail_salt=_plain(kept.detail_salt) if kept else None,
    )


def stray_rows(tenant_id: UUID, *, after: UUID, upto: UUID) -> list[tuple[str, UUID, int | None]]:
    """Return the rows in (after, upto] that belong to no head, as (description, subject, seq), from one snapshot."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT 'event', e.subject_id, e.seq FROM ledger_event e
            WHERE e.tenant_id = %(tenant)s AND e.subject_id > %(low)s AND e.subject_id <= %(high)s AND NOT EXISTS (
                SELECT FROM ledger_subject s WHERE s.tenant_id = %(tenant)s AND s.id = e.subject_id AND s.seq >= e.seq)
            UNION ALL
            SELECT 'entry', n.subject_id, n.seq FROM ledger_entry n
            WHERE n.tenant_id = %(tenant)s AND n.subject_id > %(low)s AND n.subject_id <= %(high)s AND NOT EXISTS (
                SELECT FROM ledger_event e
                WHERE e.tenant_id = %(tenant)s AND e.subject_id = n.subject_id AND e.seq = n.seq)
            UNION ALL
            SELECT 'view', a.id, NULL FROM ledger_action a
            WHERE a.tenant_id = %(tenant)s AND a.id > %(low)s AND a.id <= %(high)s AND NOT EXISTS (
                SELECT FROM ledger_subject s WHERE s.tenant_id = %(tenant)s AND s.id = a.id AND s.kind = 'action')
            """,
            {"tenant": tenant_id, "low": after, "high": upto},
        )
        rows: list[tuple[str, UUID, int | None]] = cursor.fetchall()
    return rows


def evidence_pointers(tenant_id: UUID, *, after: UUID, upto: UUID) -> set[str]:
    """The pointers of all evidence of the subjects in (after, upto]."""
    found = Evidence.objects.filter(tenant_id=tenant_id, subject_id__gt=after, subject_id__lte=upto)
    return {str(pointer) for pointer in found.values_list("id", flat=True)}


def evidence_subjects(tenant_id: UUID, pointers: Iterable[UUID]) -> list[tuple[UUID, UUID]]:
    """(pointer, subject) of these pieces of evidence, subject by subject."""
    found = Evidence.objects.filter(tenant_id=tenant_id, id__in=pointers).order_by("subject_id", "id")
    return list(found.values_list("id", "subject_id"))


def unaccounted_evidence(tenant_id: UUID, pointers: list[str], *, erased: list[str]) -> list[str]:
    """Return those of these pieces of evidence to which no event of their subject commits and which nothing else
    explains.

    Accounted for is what was emptied with its erased subject, and what the tenant has adopted of subjects that never
    came to be.
    """
    adopted = Event.objects.filter(tenant_id=tenant_id, subject_id=tenant_id, kind=ADOPTED)
    known: set[str] = set()
    for envelope in adopted.values_list("envelope", flat=True):
        with suppress(Refused):
            known |= {str(each.pointer) for each in envelopes.parse(bytes(envelope)).commitments}
    rows = Evidence.objects.filter(tenant_id=tenant_id, id__in=pointers).exclude(
        sealed=None, salt=None, subject_id__in=erased
    )
    return sorted({str(pointer) for pointer in rows.values_list("id", flat=True)} - known)


def stored_evidence(tenant_id: UUID, pointers: list[str]) -> dict[str, StoredEvidence]:
    """Return evidence by pointer, decrypted if possible; keep the list short, because all of it is in memory."""
    rows = list(Evidence.objects.filter(tenant_id=tenant_id, id__in=pointers))
    kept = SubjectKey.objects.filter(tenant_id=tenant_id, subject_id__in={row.subject_id for row in rows})
    named = {row.subject_id: row.key_id for row in kept}
    keys = keystore.read_keys(named.values())
    return {
        str(row.id): StoredEvidence(
            columns={
                "subject_id": str(row.subject_id),
                "purpose": row.purpose,
                "length": row.length,
                "commitment": row.commitment,
            },
            salt=bytes(row.salt or b""),
            data=open_evidence_row(row, keys.get(named.get(row.subject_id, row.id))),
            emptied=row.sealed is None and row.salt is None,
        )
        for row in rows
    }


def stored_documents(tenant_id: UUID, ids: list[str]) -> dict[str, StoredDocument]:
    """The documents of contract and policy versions among these subjects."""
    found = {
        str(row.id): StoredDocument(name="contract", digest=row.digest, document=bytes(row.document))
        for row in ContractVersion.objects.filter(tenant_id=tenant_id, id__in=ids)
    }
    for row in PolicyVersion.objects.filter(tenant_id=tenant_id, id__in=ids):
        found[str(row.id)] = StoredDocument(name=row.kind, digest=row.digest, document=bytes(row.document))
    return found


def stored_rows(
    model: str, tenant_id: UUID, place: str, *, after: UUID = NOTHING_BEFORE, upto: UUID = NOTHING_BEHIND
) -> dict[str, list[dict[str, Any]]]:
    """Return a table's rows for the subjects in (after, upto], by subject; the whole table if no range is given."""
    found = apps.get_model(model)._default_manager.filter(tenant_id=tenant_id)
    if place:
        found = found.filter(**{f"{place}__gt": after, f"{place}__lte": upto})
    names = [each.attname for each in found.model._meta.concrete_fields if each.attname != "pk"]
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in found.values(*names):
        rows.setdefault(str(row[place]) if place else "", []).append(row)
    return rows


def search_fault(tenant_id: UUID) -> UUID | None:
    """An action whose search columns do not match its target, if there is one."""
    [(action_id,)] = execute("SELECT ledger_search_fault($1)", tenant_id)
    found: UUID | None = action_id
    return found


def subjects_of_kind(tenant_id: UUID, kinds: Iterable[str]) -> list[UUID]:
    """The subjects of these kinds; only for kinds with few subjects."""
    found = Subject.objects.filter(tenant_id=tenant_id, kind__in=sorted(kinds)).order_by("id")
    return list(found.values_list("id", flat=True))


def event_count(tenant_id: UUID, subject_id: UUID) -> int:
    """Return the number of events of a subject; 0 if there is none."""
    found = Subject.objects.filter(tenant_id=tenant_id, id=subject_id).values_list("seq", flat=True)
    return next(iter(found), 0)


def policies_in_force(tenant_id: UUID) -> list[PolicyInForce]:
    """The periods in which each version of each policy decided, on canary too; unreadable events are left out.

    The policies' own rows and events are checked where they stand.
    """
    rows = {row.id: row for row in PolicyVersion.objects.filter(tenant_id=tenant_id)}
    found: list[PolicyInForce] = []
    last: dict[UUID, int] = {}
    events = Event.objects.filter(tenant_id=tenant_id, subject_id__in=rows, subject_kind="policy")
    for event in events.order_by("subject_id", "seq"):
        row, at = rows[event.subject_id], event.at
        if event.kind in ("policy_activated", "policy_canary_started", "policy_restored"):
            try:
                named = envelopes.parse(bytes(event.envelope)).digests.get(row.kind, "")
            except Refused:
                continue
            last[row.id] = len(found)
            found.append(
                PolicyInForce(
                    kind=row.kind, version=row.version, digest=named, since=at, until=None, document=bytes(row.document)
                )
            )
        elif event.kind in ("policy_superseded", "policy_canary_ended") and row.id in last:
            found[last[row.id]] = replace(found[last[row.id]], until=at)
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    return bytes(value) if isinstance(value, memoryview) else value


def is_uuid(text: str) -> bool:
    """Return whether a text is a UUID."""
    try:
        UUID(text)
    except ValueError:
        return False
    return True


OPEN = ("RUNNING", "PAUSED")


def integrity_check(tenant_id: UUID, check_id: UUID) -> IntegrityCheck | None:
    return IntegrityCheck.objects.filter(tenant_id=tenant_id, id=check_id).first()


def integrity_checks(tenant_id: UUID, *, limit: int = 10) -> list[IntegrityCheck]:
    """The checks of a tenant, newest first."""
    return list(IntegrityCheck.objects.filter(tenant_id=tenant_id).order_by("-id")[:limit])


def running_check(tenant_id: UUID) -> UUID | None:
    """The check that is under way, if one is."""
    found = IntegrityCheck.objects.filter(tenant_id=tenant_id, state="RUNNING")
    return found.values_list("id", flat=True).first()


def checkpoint_notes(tenant_id: UUID, number: int, *, above: int, upto: int) -> list[bytes]:
    """The checkpoints of a log with more than `above` and at most `upto` entries, the smallest first."""
    rows = execute(
        "SELECT size, note FROM ledger_checkpoint WHERE tenant_id = $1 AND log = $2 AND size > $3 AND size <= $4"
        " UNION SELECT signed_size, note FROM ledger_tip WHERE tenant_id = $1 AND log = $2 AND note IS NOT NULL"
        " AND signed_size > $3 AND signed_size <= $4 ORDER BY size",
        *(tenant_id, number, above, upto),
    )
    return [bytes(note) for _, note in rows]
