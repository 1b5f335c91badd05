"""Queries of an export: its own row, the events of a range of leaves, and the signatures and anchors over them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.db.models import Q

from counterfoil_tlog.merkle import HASH_BYTES
from counterfoil_tlog.tiles import WIDTH, TileAddress
from ledger.actions.queries import actions
from ledger.db import execute, page_in_order
from ledger.exports.rules.export_requests import OF_ACTIONS, LeafEvent
from ledger.log.queries import anchors, log
from ledger.models import Action, Export


@dataclass(frozen=True, slots=True)
class EventContent:
    """The stored content of one event."""

    envelope: bytes
    entry_salt: bytes | None
    entry: bytes | None
    detail_salt: bytes | None
    detail: bytes | None


def export(tenant_id: UUID, export_id: UUID) -> Export | None:
    return Export.objects.filter(tenant_id=tenant_id, id=export_id).first()


def exports_by_id(tenant_id: UUID, ids: Collection[UUID]) -> list[Export]:
    return list(Export.objects.filter(tenant_id=tenant_id, id__in=ids))


def exports(tenant_id: UUID, *, order: str = "-id", after: UUID | None = None, limit: int = 50) -> list[Export]:
    """The exports of a tenant, newest first, or in the order of a column; behind the row `after`."""
    return page_in_order(Export.objects.filter(tenant_id=tenant_id), order, behind=after, limit=limit)


def running_exports(tenant_id: UUID) -> list[UUID]:
    """The exports that are not done, oldest first."""
    found = Export.objects.filter(tenant_id=tenant_id, state="REQUESTED")
    return list(found.order_by("id").values_list("id", flat=True))


def ended_exports(tenant_id: UUID, *, at: datetime) -> list[UUID]:
    """The exports that have expired or failed."""
    gone = Q(state="FINISHED", expires_at__lte=at) | Q(state="FAILED")
    return list(Export.objects.filter(gone, tenant_id=tenant_id).order_by("id").values_list("id", flat=True))


def leaf_events(tenant_id: UUID, number: int, start: int, end: int) -> dict[int, LeafEvent]:
    """Return the events at these indexes of a log; missing events are left out."""
    rows = execute(
        "SELECT l.index, l.subject_id, l.seq, e.subject_kind, e.kind, e.actor_id FROM ledger_leaf l"
        " JOIN ledger_event e ON e.tenant_id = l.tenant_id AND e.subject_id = l.subject_id AND e.seq = l.seq"
        " WHERE l.tenant_id = $1 AND l.log = $2 AND l.index >= $3 AND l.index < $4 ORDER BY l.index",
        *(tenant_id, number, start, end),
    )
    return {row[0]: LeafEvent(*row) for row in rows}


def subject_leaf_events(
    tenant_id: UUID, number: int, subject_id: UUID, start: int, end: int, *, limit: int
) -> dict[int, LeafEvent]:
    """The first events of one subject in a range of indexes."""
    rows = execute(
        "SELECT l.index, l.subject_id, l.seq, e.subject_kind, e.kind, e.actor_id FROM ledger_leaf l"
        " JOIN ledger_event e ON e.tenant_id = l.tenant_id AND e.subject_id = l.subject_id AND e.seq = l.seq"
        " WHERE l.tenant_id = $1 AND l.log = $2 AND l.subject_id = $3 AND l.index >= $4 AND l.index < $5"
        " ORDER BY l.index LIMIT $6",
        *(tenant_id, number, subject_id, start, end, limit),
    )
    return {row[0]: LeafEvent(*row) for row in rows}


def event_contents(tenant_id: UUID, events: Sequence[LeafEvent]) -> dict[int, EventContent]:
    """The stored content of these events, by index."""
    rows = execute(
        "SELECT w.index, e.envelope, n.entry_salt, n.entry, n.detail_salt, n.detail"
        " FROM unnest($2::bigint[], $3::uuid[], $4::integer[]) w(index, subject_id, seq)"
        " JOIN ledger_event e ON e.tenant_id = $1 AND e.subject_id = w.subject_id AND e.seq = w.seq"
        " LEFT JOIN ledger_entry n ON n.tenant_id = $1 AND n.subject_id = w.subject_id AND n.seq = w.seq",
        *(tenant_id, [e.index for e in events], [e.subject_id for e in events], [e.seq for e in events]),
    )
    return {index: EventContent(*values) for index, *values in rows}


def matching_subjects(tenant_id: UUID, subjects: Iterable[UUID], filters: Mapping[str, str]) -> set[UUID]:
    """The actions among these subjects that match a filter, and their approvals."""
    wanted = {name: value for name, value in filters.items() if name in OF_ACTIONS}
    if not wanted:
        return set()
    ids = list(set(subjects))
    action = Q(id=wanted.pop("action")) if "action" in wanted else Q()
    found = Action.objects.filter(
        Q(id__in=ids) | Q(approval_id__in=ids), action, actions.filter_condition(wanted), tenant_id=tenant_id
    )
    return {each for pair in found.values_list("id", "approval_id") for each in pair if each is not None}


def leaf_hashes(tenant_id: UUID, number: int, start: int, end: int) -> dict[int, bytes]:
    """Return the leaf hashes of the tree, by index."""
    wanted = [TileAddress(0, place) for place in range(start // WIDTH, (end - 1) // WIDTH + 1)]
    found = log.tiles(tenant_id, number, wanted)
    return {
        tile.index * WIDTH + place: hashes[place * HASH_BYTES : (place + 1) * HASH_BYTES]
        for tile, hashes in found.items()
        for place in range(len(hashes) // HASH_BYTES)
        if start <= tile.index * WIDTH + place < end
    }


def first_index_since(tenant_id: UUID, number: int, at: datetime, *, size: int) -> int:
    """Return the first index whose event happened at `at` or later; the log is nearly in time order."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        rows = execute(
            "SELECT e.at FROM ledger_leaf l"
            " JOIN ledger_event e ON e.tenant_id = l.tenant_id AND e.subject_id = l.subject_id AND e.seq = l.seq"
            " WHERE l.tenant_id = $1 AND l.log = $2 AND l.index >= $3 ORDER BY l.index LIMIT 1",
            *(tenant_id, number, middle),
        )
        if rows and rows[0][0] < at:
            low = middle + 1
        else:
            high = middle
    return low


def cosigned_note(tenant_id: UUID, head: log.LogHead, size: int) -> bytes | None:
    """The signed checkpoint of one size with all its cosignatures; None if none was kept."""
    rows = execute(
        "SELECT note FROM ledger_checkpoint WHERE tenant_id = $1 AND log = $2 AND size = $3",
        *(tenant_id, head.number, size),
    )
    signed = rows[0][0] if rows else head.note if size == head.signed_size else None
    if signed is None:
        return None
    lines = execute(
        "SELECT evidence FROM ledger_anchor WHERE tenant_id = $1 AND log = $2 AND size = $3 AND kind = 'witness'"
        " ORDER BY name",
        *(tenant_id, head.number, size),
    )
    return bytes(signed) + b"".join(line for (line,) in lines)


def anchored_size(tenant_id: UUID, number: int, *, least: int = 0) -> int | None:
    """The size of the newest checkpoint that counts as anchored, if it has at least `least` entries.

    Where this installation names witnesses, their quorum counts; otherwise whoever signed or stamped one.
    """
    if settings.COUNTERFOIL_WITNESSES is not None:
        held = anchors.quorum_anchor(tenant_id, number, settings.COUNTERFOIL_WITNESSES)
        return held[0] if held and held[0] >= least else None
    rows = execute(
        "SELECT max(size) FROM ledger_anchor WHERE tenant_id = $1 AND log = $2 AND size >= $3",
        *(tenant_id, number, least),
    )
    return None if rows[0][0] is None else int(rows[0][0])


def last_signed_size(tenant_id: UUID, number: int, size: int) -> int | None:
    """The size of the newest checkpoint on record with at most `size` entries."""
    rows = execute(
        "SELECT max(size) FROM ledger_checkpoint WHERE tenant_id = $1 AND log = $2 AND size <= $3 AND size > 0",
        *(tenant_id, number, size),
    )
    return None if rows[0][0] is None else int(rows[0][0])


def time_stamps(tenant_id: UUID, number: int, sizes: Iterable[int]) -> list[tuple[int, bytes]]:
    """(size, response) of the time stamps of these checkpoints."""
    rows = execute(
        "SELECT size, evidence FROM ledger_anchor WHERE tenant_id = $1 AND log = $2 AND kind = 'tsa'"
        " AND size = ANY($3::bigint[]) ORDER BY size, name",
        *(tenant_id, number, list(sizes)),
    )
    return [(size, bytes(evidence)) for size, evidence in rows]
