"""Reads of inclusion proofs: the leaf and its audit path, the checkpoints, and the keys that signed them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from counterfoil_tlog import checkpoint as checkpoints
from counterfoil_tlog import notes, tiles
from counterfoil_tlog.checkpoint import BadCheckpoint
from counterfoil_tlog.merkle import HASH_BYTES
from counterfoil_tlog.notes import BadNote
from ledger.db import execute
from ledger.log.queries import log as logs
from ledger.log.queries import log_check
from ledger.log.queries.log import LogHead
from ledger.models import Checkpoint


@dataclass(frozen=True, slots=True)
class LogLeaf:
    """One leaf of a log: whose event it is, and the hash that the tree was built on."""

    log: int
    index: int
    subject_id: UUID
    seq: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class LatestAnchor:
    """The newest evidence of one outsider: a witness's cosignature or a time stamp."""

    kind: str
    name: str
    size: int
    at: datetime


def log_head(tenant_id: UUID, number: int) -> LogHead | None:
    """One log of a tenant."""
    return next((each for each in logs.logs(tenant_id) if each.number == number), None)


def verifier_keys(tenant_id: UUID, log_id: UUID) -> list[str]:
    """The verifier keys that a log has been signed under, as its own events name them, the newest first."""
    return list(dict.fromkeys(reversed(log_check.verifier_keys(tenant_id, log_id))))


def kept_checkpoints(tenant_id: UUID, number: int, *, below: int | None = None, limit: int = 20) -> list[Checkpoint]:
    """Signed checkpoints that are kept for good, the largest first."""
    found = Checkpoint.objects.filter(tenant_id=tenant_id, log=number)
    return list((found.filter(size__lt=below) if below is not None else found).order_by("-size")[:limit])


def kept_checkpoint(tenant_id: UUID, number: int, size: int) -> bytes | None:
    """The kept checkpoint of exactly this size."""
    row = Checkpoint.objects.filter(tenant_id=tenant_id, log=number, size=size).first()
    return bytes(row.note) if row is not None else None


def latest_anchors(tenant_id: UUID, number: int) -> list[LatestAnchor]:
    """The newest evidence of each outsider for this log."""
    rows = execute(
        "SELECT DISTINCT ON (kind, name) kind, name, size, at FROM ledger_anchor"
        " WHERE tenant_id = $1 AND log = $2 ORDER BY kind, name, size DESC",
        *(tenant_id, number),
    )
    return [LatestAnchor(*row) for row in rows]


def leaf_at(tenant_id: UUID, number: int, index: int) -> LogLeaf | None:
    """The leaf at an index of a log, if there is one."""
    rows = execute(
        "SELECT subject_id, seq FROM ledger_leaf WHERE tenant_id = $1 AND log = $2 AND index = $3",
        *(tenant_id, number, index),
    )
    place = tiles.TileAddress(0, index // tiles.WIDTH)
    hashes = logs.tiles(tenant_id, number, [place]).get(place, b"")
    begin = index % tiles.WIDTH * HASH_BYTES
    found = hashes[begin : begin + HASH_BYTES]
    return LogLeaf(number, index, rows[0][0], rows[0][1], found) if rows and found else None


def leaf_by_hash(tenant_id: UUID, number: int, wanted: bytes) -> LogLeaf | None:
    """Return the newest leaf with this hash, searched in the tiles of the log."""
    rows = execute(
        "SELECT index * 256 + (at - 1) / 32 FROM (SELECT index, position($3::bytea IN hashes) AS at FROM ledger_tile"
        " WHERE tenant_id = $1 AND log = $2 AND level = 0) t WHERE at > 0 AND (at - 1) % 32 = 0"
        " ORDER BY index DESC LIMIT 1",
        *(tenant_id, number, wanted),
    )
    return leaf_at(tenant_id, number, int(rows[0][0])) if rows else None


def inclusion_proof(tenant_id: UUID, number: int, index: int, size: int) -> list[bytes]:
    """The audit path of a leaf in the tree of this size."""
    wanted = tiles.tiles_for_inclusion(index, size)
    return tiles.prove_inclusion(index, size, logs.tiles_to_prove(tenant_id, number, wanted))


def consistency_proof(tenant_id: UUID, number: int, old: int, new: int) -> list[bytes]:
    """The proof that the tree of one size continues that of another."""
    wanted = tiles.tiles_for_consistency(old, new)
    return tiles.prove_consistency(old, new, logs.tiles_to_prove(tenant_id, number, wanted))


def signed_root(note: bytes, key: str) -> tuple[str, int, bytes] | None:
    """Origin, size and root in a note with a valid signature of this key; None if it has none."""
    try:
        read = notes.parse(note)
        notes.verify_signatures(read, [notes.read_vkey(key)])
        said = checkpoints.parse(read.text)
    except (BadNote, notes.UntrustedNote, notes.BadVerifierKey, BadCheckpoint):
        return None
    return said.origin, said.size, said.root


class ProvenEvent(NamedTuple):
    """An event in the log: its position, the path from it to the root, its envelope and its detail."""

    index: int  # type: ignore[assignment]  # tuples have a method of this name that nobody calls
    path: list[bytes]
    envelope: bytes
    detail: bytes
    salt: bytes


def proven_events(tenant_id: UUID, subject_id: UUID, saying: str) -> tuple[bytes, list[ProvenEvent]]:
    """The newest signed checkpoint, and a subject's events under it whose detail has this member, oldest first.

    Empty where no checkpoint of the log that is written now covers them, or their details were erased.
    """
    head = logs.current_log(tenant_id)
    if head is None or head.note is None:
        return b"", []
    rows = execute(
        "SELECT l.index, e.envelope, d.detail, d.detail_salt FROM ledger_event e"
        " JOIN ledger_leaf l ON l.tenant_id = $1 AND l.subject_id = $2 AND l.seq = e.seq"
        " JOIN ledger_entry d ON d.tenant_id = $1 AND d.subject_id = $2 AND d.seq = e.seq"
        " WHERE e.tenant_id = $1 AND e.subject_id = $2 AND l.log = $4 AND l.index < $5"
        " AND convert_from(d.detail, 'UTF8')::jsonb ? $3 ORDER BY e.seq",
        *(tenant_id, subject_id, saying, head.number, head.signed_size),
    )
    found = [
        ProvenEvent(
            index,
            inclusion_proof(tenant_id, head.number, index, head.signed_size),
            bytes(envelope),
            bytes(detail),
            bytes(salt),
        )
        for index, envelope, detail, salt in rows
    ]
    return bytes(head.note), found
