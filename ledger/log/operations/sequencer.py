"""The sequencer: assigns log positions to pending events and signs checkpoints.

Writers do not wait: each leaves a row in a queue, in its own transaction. The sequencer takes the rows in order and
extends the log in one transaction, so that a crash leaves the old log or the new one. The signature is a second
transaction, over what the first has committed.

Before anything is built on them, each leaf is hashed again from the stored bytes, and the stored tree must have the
stored root. If they differ, recorded data was changed, and that log stops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction

from counterfoil_tlog import checkpoint as checkpoints
from counterfoil_tlog import notes, tiles
from counterfoil_tlog.merkle import leaf_hash
from ledger.db import execute, tenancy
from ledger.log import epochs
from ledger.log.operations.logs import open_first_log, open_next_log
from ledger.log.queries import log as queries
from ledger.log.queries.log import LogHead
from ledger.log.rules import signing
from ledger.log.rules.epoch import EpochUnknown, check_epoch
from ledger.log.rules.signing import TreeHead
from ledger.log.signer_state import LEASE_S, LogKeys, SignerState, StateInsideRecord
from ledger.record.rules.refusals import Refused

HEARTBEAT = timedelta(hours=1)
"""The interval at which an idle log is compared with what was signed of it, and gets a new signing time."""
KEPT_EVERY = timedelta(seconds=1)
"""The shortest interval between checkpoints that are kept for good; the newest one is always at the tip."""


class LogDamaged(Refused):
    """What is stored is not what was recorded. The log is stopped until somebody has found out why."""

    code = "LOG_DAMAGED"


class TipMoved(Refused):
    """Another sequencer has moved this log on."""

    code = "TIP_MOVED"


@dataclass(frozen=True, slots=True)
class Signer:
    """The keys that sign checkpoints (two while a new one is introduced), and the signer state."""

    keys: LogKeys
    state: SignerState

    def vkey(self, origin: str) -> str:
        """The verifier key of the newest signing key."""
        return notes.vkey(origin, self.keys.current.public_key())


def take_lead(state: SignerState, *, at_once: bool = False) -> bool:
    """Take the lead among the sequencers of this record; False while another leads, unless it is replaced `at_once`."""
    [(system_identifier,)] = execute("SELECT system_identifier FROM pg_control_system()")
    if state.is_on_server(system_identifier):
        raise StateInsideRecord(
            "The signer state is on the record's database server, so a restore would take it back with the record."
            " Use another server, made by an initdb of its own."
        )
    return state.take_lead(at_once=at_once)


def is_epoch_signed(signer: Signer) -> bool:
    """Return whether the epoch of the signer state is signed for the database as it runs now."""
    try:
        number = check_epoch(epochs.read_epoch(execute), signer.keys.public[:1])
    except EpochUnknown:
        return False
    return number == signer.state.epoch


def sign_epoch(signer: Signer) -> None:
    """Sign the epoch for the database as it runs now; only once each of its logs was compared with the signer state.

    Whoever lost the signer state goes on from the epoch that the database has.
    """
    with transaction.atomic():
        row = epochs.read_epoch(execute)
        if row is not None and row.number > signer.state.epoch:
            signer.state.raise_epoch(to=row.number)
        epochs.sign_epoch(signer.state.epoch, signer.keys, execute)
        signer.state.confirm_lead()


def end_pauses_in_transactions() -> None:
    """Have the database end this session when a transaction of it is idle for as long as a lease.

    A leader that is paused inside of a transaction holds rows that the next leader needs.
    """
    execute("SELECT set_config('idle_in_transaction_session_timeout', $1, false)", f"{LEASE_S:.1f}s")


def drain_queue(*, tenant_id: UUID, positions: Sequence[int], signer: Signer, at: datetime) -> int:
    """Append the queued events at these positions to the log and sign it; return their number."""
    with tenancy(tenant_id):
        is_open = queries.current_log(tenant_id) is not None
    if not is_open:
        origin = _origin(tenant_id)
        open_first_log(tenant_id=tenant_id, state=signer.state, key=signer.vkey(origin), at=at)
        accept_epoch(tenant_id=tenant_id, epoch=signer.state.epoch)
    added = integrate_events(tenant_id=tenant_id, positions=positions, state=signer.state, at=at) if positions else 0
    sign_head(tenant_id=tenant_id, signer=signer, at=at)
    return added


def integrate_events(*, tenant_id: UUID, positions: Sequence[int], state: SignerState, at: datetime) -> int:
    """Append events to the tenant's newest log, in queue order; return the number of those still waiting."""
    with tenancy(tenant_id):
        head = _current_head(tenant_id)
        signing.check_stored_head(state.last(head.origin), TreeHead(head.size, head.root))
        taken = _take_pending(tenant_id, positions)
        if taken:
            _append_leaves(tenant_id, head, taken, at=at)
    return len(taken)


def _take_pending(tenant_id: UUID, positions: Sequence[int]) -> list[tuple[Any, ...]]:
    return execute(
        "WITH taken AS (DELETE FROM ledger_pending WHERE tenant_id = $1 AND position = ANY($2)"
        " RETURNING position, subject_id, seq)"
        " SELECT t.subject_id, t.seq, e.envelope, e.entry_hash FROM taken t LEFT JOIN LATERAL"
        " (SELECT envelope, entry_hash FROM ledger_event WHERE tenant_id = $1 AND subject_id = t.subject_id"
        " AND seq = t.seq OFFSET 0) e ON true ORDER BY t.position",
        *(tenant_id, list(positions)),
    )


def _pending_positions(tenant_id: UUID, subject_id: UUID) -> list[int]:
    found = execute(
        "SELECT position FROM ledger_pending WHERE tenant_id = $1 AND subject_id = $2", tenant_id, subject_id
    )
    return [position for (position,) in found]


def _append_leaves(tenant_id: UUID, head: LogHead, taken: Sequence[tuple[Any, ...]], *, at: datetime) -> None:
    leaves = [_leaf_hash(*row) for row in taken]
    growth = tiles.extend(head.size, _load_right_edge(tenant_id, head), leaves)
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
    """Open a new log where the old one cannot continue: more was signed than the database has. The new log's origin.

    The record is good again under the epoch of the signer state. The new log's first entry is `restored` and names the
    last head in the database and the last that was signed. Pending events go into the new log. None if the old log is
    sound.

    Either way every action that was open is read before it is granted: the start of a moment ago may be forgotten
    although the log does not show it.
    """
    with tenancy(tenant_id):
        # The head after what was signed: a sequencer that runs meanwhile may move both on.
        last = signer.state.last(_current_head(tenant_id).origin)
        head = _current_head(tenant_id)
        try:
            signing.check_stored_head(last, TreeHead(head.size, head.root))
        except Refused as refusal:
            reasons = {"reason": reason, "because": refusal.detail, "signed_size": last.size if last else None}
        else:
            _accept_restored(tenant_id, signer.state.epoch, at=at)
            return None
        opened = open_next_log(
            tenant_id=tenant_id, before=head, state=signer.state, key=signer.vkey, reasons=reasons, at=at
        )
        following = _current_head(tenant_id)
        _append_leaves(tenant_id, following, _take_pending(tenant_id, _pending_positions(tenant_id, opened)), at=at)
        _accept_restored(tenant_id, signer.state.epoch, at=at)
    try:
        sign_head(tenant_id=tenant_id, signer=signer, at=at)
    except (IntegrityError, signing.HistoryForked):
        # A sequencer that runs meanwhile was faster: then the new log is signed, and further than this.
        if signer.state.last(following.origin) == signing.NOTHING:
            raise
    return following.origin


def _accept_restored(tenant_id: UUID, epoch: int, *, at: datetime) -> None:
    execute("UPDATE ledger_tenant SET epoch = $2, restored_at = $3 WHERE id = $1", tenant_id, epoch, at)


def _leaf_hash(subject_id: UUID, seq: int, envelope: Any, stored: Any) -> bytes:
    if envelope is None:
        raise LogDamaged(f"Event {seq} of {subject_id} waits for its place and does not exist.")
    computed = leaf_hash(bytes(envelope))
    if computed != bytes(stored):
        raise LogDamaged(f"Event {seq} of {subject_id} is not what was recorded: its bytes have another hash.")
    return computed


def _load_right_edge(tenant_id: UUID, head: LogHead) -> dict[tiles.TileAddress, bytes]:
    """Load the tiles that the next leaf needs; refuse those that do not lead to the root at the tip."""
    edge = queries.tiles(tenant_id, head.number, tiles.right_edge(head.size))
    try:
        root = tiles.root_hash(head.size, edge)
    except (Refused, LookupError, ValueError):
        root = b""
    if root != head.root:
        raise LogDamaged(f"The tiles of {head.origin} do not lead to its root at {head.size} entries.")
    return edge


def sign_head(*, tenant_id: UUID, signer: Signer, at: datetime) -> int | None:
    """Sign the head of the newest log if it is new, otherwise refresh its signing time; return the size that was
    signed.
    """
    with tenancy(tenant_id):
        head = _current_head(tenant_id)
        following, last = TreeHead(head.size, head.root), signer.state.last(head.origin)
        signing.check_next_head(last, following, consistency_proof(tenant_id, head, last))
        assert last is not None
        note, is_new = head.note, head.size != head.signed_size
        if head.stopped:
            execute("UPDATE ledger_tip SET stopped = '' WHERE tenant_id = $1 AND log = $2", tenant_id, head.number)
        if is_new:
            # From here on nothing else can be signed for this origin. After a crash before the commit, the same head
            # is signed again, with the same bytes.
            signer.state.advance(head.origin, last, following)
            note = _sign_checkpoint(head, signer.keys)
        if is_new or (head.signed_at is not None and at - head.signed_at >= HEARTBEAT):
            _publish_checkpoint(tenant_id, head, note, at=at)
    return head.size if is_new else None


def stop_log(*, tenant_id: UUID, code: str) -> None:
    """Mark the newest log as stopped, so that nothing starts on its record; the next signature lifts the mark."""
    with tenancy(tenant_id):
        execute(
            "UPDATE ledger_tip SET stopped = $2 WHERE tenant_id = $1 AND stopped <> $2"
            " AND log = (SELECT max(number) FROM ledger_log WHERE tenant_id = $1)",
            *(tenant_id, code),
        )


def accept_epoch(*, tenant_id: UUID, epoch: int) -> None:
    """Note the epoch under which this database's record of a tenant is good."""
    execute("UPDATE ledger_tenant SET epoch = $2 WHERE id = $1 AND epoch IS DISTINCT FROM $2", tenant_id, epoch)


def consistency_proof(tenant_id: UUID, head: LogHead, last: TreeHead | None) -> list[bytes]:
    """The proof, from the stored tiles, that a head continues an earlier one. Inside `tenancy`."""
    if last is None or not 0 < last.size < head.size:
        return []
    wanted = tiles.tiles_for_consistency(last.size, head.size)
    try:
        return tiles.prove_consistency(last.size, head.size, queries.tiles(tenant_id, head.number, wanted))
    except (Refused, LookupError, ValueError):
        raise LogDamaged(f"Tiles of {head.origin} are missing: there is no proof that it continues itself.") from None


def _sign_checkpoint(head: LogHead, keys: LogKeys) -> bytes:
    text = checkpoints.text(checkpoints.CheckpointBody(head.origin, head.size, head.root))
    signatures = tuple(notes.sign(text, name=head.origin, key=key) for key in keys.all)
    return notes.write(notes.Note(text, signatures))


def _publish_checkpoint(tenant_id: UUID, head: LogHead, note: bytes | None, *, at: datetime) -> None:
    """Store the checkpoint at the tip; each permanent one names its predecessor, so that a missing one is noticed.

    Of those before only the newest is read: a log has one for each second in which something happened.
    """
    execute(
        "WITH newest AS (SELECT size, signed_at FROM ledger_checkpoint WHERE tenant_id = $1 AND log = $2"
        " ORDER BY size DESC LIMIT 1),"
        " kept AS (INSERT INTO ledger_checkpoint (tenant_id, log, size, note, signed_at, before)"
        " SELECT $1, $2, $3, $4, $5, coalesce((SELECT size FROM newest), 0)"
        " WHERE NOT EXISTS (SELECT FROM newest WHERE signed_at > $6 OR size >= $3) RETURNING size)"
        " UPDATE ledger_tip SET note = $4, signed_size = $3, signed_at = $5,"
        " kept_size = coalesce((SELECT size FROM kept), kept_size) WHERE tenant_id = $1 AND log = $2",
        *(tenant_id, head.number, head.size, note, at, at - KEPT_EVERY),
    )


def _current_head(tenant_id: UUID) -> LogHead:
    head = queries.current_log(tenant_id)
    if head is None:
        raise LogDamaged("The tenant has no log.")
    return head


def _origin(tenant_id: UUID) -> str:
    [(origin,)] = execute("SELECT origin FROM ledger_tenant WHERE id = $1", tenant_id)
    return str(origin)
