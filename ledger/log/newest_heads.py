"""The newest signed head of a tenant's log, and the epoch, as this process has seen them.

Each process keeps, for each tenant, the newest checkpoint that it has read and the latest head that it has ever read.
The first goes out with answers (`Counterfoil-Checkpoint`); the second is one of the heads that a record must not be
behind of when something starts (`ledger.log.rules.recency`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from time import monotonic
from uuid import UUID

from counterfoil_tlog import checkpoint as checkpoints
from counterfoil_tlog.checkpoint import CheckpointBody
from ledger.db import execute
from ledger.log.queries.log import CURRENT_CHECKPOINT
from ledger.log.rules.recency import RecordBehind, is_later

KEPT_S = 0.5
"""How old the checkpoint of an answer may be."""


@dataclass(slots=True)
class _Memory:
    """This process's knowledge of a tenant's log."""

    note: bytes | None = None
    read_at: float = -KEPT_S
    latest: CheckpointBody | None = None
    epoch: int = 0


KnownHeads = tuple[CheckpointBody, ...]
"""The heads seen so far; a record must not be behind them."""


def known_heads(tenant_id: UUID, seen: CheckpointBody | None = None) -> KnownHeads:
    """The heads that this process and its caller have seen.

    Call it before reading the record that it is compared with, because the log grows meanwhile.
    """
    return tuple(each for each in (_memory(tenant_id).latest, seen) if each is not None)


def note_epoch(tenant_id: UUID, epoch: int) -> None:
    """Keep the epoch that was just read; `RecordBehind` if this process has read a later one."""
    memory = _memory(tenant_id)
    if epoch < memory.epoch:
        raise RecordBehind(f"This database is of epoch {epoch}, and epoch {memory.epoch} was seen before.")
    memory.epoch = epoch


def note_checkpoint(tenant_id: UUID, note: bytes | None) -> CheckpointBody | None:
    """Keep the checkpoint that was just read from this database; return its head."""
    memory, head = _memory(tenant_id), _head_of(note)
    if head is not None and (memory.latest is None or is_later(head, memory.latest)):
        memory.latest = head
    memory.note, memory.read_at = note, monotonic()
    return head


def newest_checkpoint(tenant_id: UUID) -> bytes | None:
    """Return the newest signed checkpoint in this database, read again if it is older than `KEPT_S`."""
    memory = _memory(tenant_id)
    if monotonic() - memory.read_at >= KEPT_S:
        rows = execute(CURRENT_CHECKPOINT, tenant_id)
        note_checkpoint(tenant_id, bytes(rows[0][1]) if rows and rows[0][1] is not None else None)
    return memory.note


def _head_of(note: bytes | None) -> CheckpointBody | None:
    return None if note is None else checkpoints.parse(note.decode().partition("\n\n")[0] + "\n")


@lru_cache(maxsize=4096)
def _memory(tenant_id: UUID) -> _Memory:
    return _Memory()
