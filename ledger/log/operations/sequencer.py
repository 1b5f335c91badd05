"""The sequencer: assigns log positions to pending events and signs checkpoints.

Writers wait for nobody: they left a row in the queue, in their own transaction. Here the rows are taken in the order of
the queue and everything that follows from them is one transaction, so that a crash leaves the old log or the new one.
The signature is a second transaction, over what the first has committed.

A leaf is hashed again from the bytes that are read back, and the stored tree must have the stored root, before
anything is built on them. Where they differ, somebody or something has changed what was recorded: that log stops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from ledger.db import execute, tenancy
from ledger.log.operations.logs import open_first_log, open_next_log
from ledger.log.queries import log as queries
from ledger.log.queries.log import LogHead
from ledger.log.rules import checkpoint as checkpoints
from ledger.log.rules import notes, signing, tiles
from ledger.log.rules.merkle import leaf_hash
from ledger.log.rules.signing import TreeHead
from ledger.log.signer_state import LogKeys, SignerState
from ledger.record.rules.refusals import Refused

HEARTBEAT = timedelta(seconds=30)
"""How often a log in which nothing happens is said to be alive."""
KEPT_EVERY = timedelta(seconds=1)
"""How often at most a checkpoint is kept for good; the newest one always stands at the tip."""


class LogDamaged(Refused):
    """What is stored is not what was recorded. The log is stopped until somebody has found out why."""

    code = "LOG_DAMAGED"


class TipMoved(Refused):
    """Another sequencer has moved this log on."""

    code = "TIP_MOVED"


@dataclass(frozen=True, slots=True)
class Signer:
    """The keys under which checkpoints are signed (more than one while a new one is introduced), and the guard."""

    keys: LogKeys
    guard: SignerState

    def vkey(self, origin: str) -> str:
        """What a verifier of the newest key needs to know."""
        return notes.vkey(origin, self.keys.current.public_key())


def drain_queue(*, tenant_id: UUID, positions: Sequence[int], signer: Signer, at: datetime) -> int:
    """Give the events at these positions of the queue their places, and sign the log; how many there were."""
    with tenancy(tenant_id):
        is_open = queries.current_log(tenant_id) is not None
    if not is_open:
        origin = _origin(tenant_id)
        open_first_log(tenant_id=tenant_id, guard=signer.guard, key=signer.vkey(origin), at=at)
    added = integrate_events(tenant_id=tenant_id, positions=positions, guard=signer.guard, at=at) if positions else 0
    sign_head(tenant_id=tenant_id, signer=signer, at=at)
    return added


def integrate_events(*, tenant_id: UUID, positions: Sequence[int], guard: SignerState, at: datetime) -> int:
    """Append events to the tenant's newest log, in the order of the queue; how many were still waiting."""
    with tenancy(tenant_id):
        head = _head(tenant_id)
        signing.check_stored_head(guard.last(head.origin), TreeHead(head.size, head.root))
        taken = _taken(tenant_id, positions)
        if taken:
            _extend(tenant_id, head, taken, at=at)
    return len(taken)


def _taken(tenant_id: UUID, positions: Sequence[int]) -> list[tuple[Any, ...]]:
    return execute(
        "WITH taken AS (DELETE FROM ledger_pending WHERE tenant_id = $1 AND position = ANY($2)"
        " RETURNING position, subject_id, seq)"
        " SELECT t.subject_id, t.seq, e.envelope, e.entry_hash FROM taken t LEFT JOIN LATERAL"
        " (SELECT envelope, entry_hash FROM ledger_event WHERE tenant_id = $1 AND subject_id = t.subject_id"
        " AND seq = t.seq OFFSET 0) e ON true ORDER BY t.position",
        *(tenant_id, list(positions)),
    )


def _position(subject_id: UUID) -> list[int]:
    return [place for (place,) in execute("SELECT position FROM ledger_pending WHERE subject_id = $1", subject_id)]


def _extend(tenant_id: UUID, head: LogHead, taken: Sequence[tuple[Any, ...]], *, at: datetime) -> None:
    leaves = [_leaf(*row) for row in taken]
    growth = tiles.extend(head.size, _edge(tenant_id, head), leaves)
    execute(
        "INSERT INTO ledger_leaf (tenant_id, log, index, subject_id, seq)"
        " SELECT $1, $2, $3 + place - 1, subject_id, seq"
        " FROM unnest($4::uuid[], $5::integer[]) WITH ORDINALITY added(subject_id, seq, place)",
        *(tenant_id, head.number, head.size, [row[0] for row in taken], [row[1] for row in taken]),
    )
    changed = sorted(growth.changed.items())
    execute(
        "INSERT INTO ledger_tile (tenant_id, log, level, index, hashes)"
        " SELECT $1, $2, level, index, hashes FROM unnest($3::smallint[], $4::bigint[], $5::bytea[])"
        " changed(level, index, hashes)"
        " ON CONFLICT (tenant_id, log, level, index) DO UPDATE SET hashes = excluded.hashes",
        *(tenant_id, head.number, [t.level for t, _ in changed], [t.index for t, _ in changed]),
        [hashes for _, hashes in changed],
    )
    moved = execute(
        "UPDATE ledger_tip SET size = $4, root = $5, integrated_at = $6"
        " WHERE tenant_id = $1 AND log = $2 AND size = $3 RETURNING size",
        *(tenant_id, head.number, head.size, growth.size, growth.root, at),
    )
    if not moved:
        raise TipMoved


def reopen_log(*, tenant_id: UUID, signer: Signer, reason: str, at: datetime) -> str | None:
    """Open a new log where the old one cannot go on: its guard knows more than the database; the new log's origin.

    Its first entry is `restored` and names the last head that the database has and the last that was signed. What
    still waits goes into the new log. None where the old log is sound.
    """
    with tenancy(tenant_id):
        head = _head(tenant_id)
        last = signer.guard.last(head.origin)
        try:
            signing.check_stored_head(last, TreeHead(head.size, head.root))
        except Refused as refusal:
            told = {"reason": reason, "because": refusal.detail, "signed_size": last.size if last else None}
        else:
            return None
        opened = open_next_log(tenant_id=tenant_id, before=head, guard=signer.guard, key=signer.vkey, told=told, at=at)
        following = _head(tenant_id)
        _extend(tenant_id, following, _taken(tenant_id, _position(opened)), at=at)
    sign_head(tenant_id=tenant_id, signer=signer, at=at)
    return following.origin


def _leaf(subject_id: UUID, seq: int, envelope: Any, stored: Any) -> bytes:
    if envelope is None:
        raise LogDamaged(f"Event {seq} of {subject_id} waits for its place and does not exist.")
    computed = leaf_hash(bytes(envelope))
    if computed != bytes(stored):
        raise LogDamaged(f"Event {seq} of {subject_id} is not what was recorded: its bytes have another hash.")
    return computed


def _edge(tenant_id: UUID, head: LogHead) -> dict[tiles.TileAddress, bytes]:
    """The tiles that the next leaf needs, if they lead to the root that the tip names."""
    edge = queries.tiles(tenant_id, head.number, tiles.right_edge(head.size))
    try:
        root = tiles.root_hash(head.size, edge)
    except (Refused, LookupError, ValueError):
        root = b""
    if root != head.root:
        raise LogDamaged(f"The tiles of {head.origin} do not lead to its root at {head.size} entries.")
    return edge


def sign_head(*, tenant_id: UUID, signer: Signer, at: datetime) -> int | None:
    """Sign the head of the newest log if it is new, or say that the log is alive; the size that was signed."""
    with tenancy(tenant_id):
        head = _head(tenant_id)
        following, last = TreeHead(head.size, head.root), signer.guard.last(head.origin)
        signing.check_next_head(last, following, _consistency(tenant_id, head, last))
        assert last is not None
        if head.size == head.signed_size:
            if head.signed_at is not None and at - head.signed_at >= HEARTBEAT:
                _publish(tenant_id, head, head.note, at=at)
            return None
        # From here on nothing else can be signed for this origin. If we die before the commit, this same head is
        # signed again, with the same bytes.
        signer.guard.advance(head.origin, last, following)
        _publish(tenant_id, head, _signed(head, signer.keys), at=at)
    return head.size


def _consistency(tenant_id: UUID, head: LogHead, last: TreeHead | None) -> list[bytes]:
    if last is None or not 0 < last.size < head.size:
        return []
    wanted = tiles.tiles_for_consistency(last.size, head.size)
    try:
        return tiles.prove_consistency(last.size, head.size, queries.tiles(tenant_id, head.number, wanted))
    except (Refused, LookupError, ValueError):
        raise LogDamaged(f"Tiles of {head.origin} are missing: there is no proof that it continues itself.") from None


def _signed(head: LogHead, keys: LogKeys) -> bytes:
    text = checkpoints.text(checkpoints.CheckpointBody(head.origin, head.size, head.root))
    signatures = tuple(notes.sign(text, name=head.origin, key=key) for key in keys.all)
    return notes.write(notes.Note(text, signatures))


def _publish(tenant_id: UUID, head: LogHead, note: bytes | None, *, at: datetime) -> None:
    """The checkpoint stands at the tip; what is kept for good names the one before it, so that none can be missing."""
    execute(
        "WITH kept AS (INSERT INTO ledger_checkpoint (tenant_id, log, size, note, signed_at, before)"
        " SELECT $1, $2, $3, $4, $5,"
        " coalesce((SELECT max(size) FROM ledger_checkpoint WHERE tenant_id = $1 AND log = $2), 0) WHERE NOT EXISTS"
        " (SELECT 1 FROM ledger_checkpoint WHERE tenant_id = $1 AND log = $2 AND (signed_at > $6 OR size = $3))"
        " RETURNING size)"
        " UPDATE ledger_tip SET note = $4, signed_size = $3, signed_at = $5,"
        " kept_size = coalesce((SELECT size FROM kept), kept_size) WHERE tenant_id = $1 AND log = $2",
        *(tenant_id, head.number, head.size, note, at, at - KEPT_EVERY),
    )


def _head(tenant_id: UUID) -> LogHead:
    head = queries.current_log(tenant_id)
    if head is None:
        raise LogDamaged("The tenant has no log.")
    return head


def _origin(tenant_id: UUID) -> str:
    [(origin,)] = execute("SELECT origin FROM ledger_tenant WHERE id = $1", tenant_id)
    return str(origin)
