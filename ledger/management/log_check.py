"""The check of a tenant's logs, block by block, in one process or in several (`ledger.log.rules.log_check`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, contextmanager
from multiprocessing import get_context
from uuid import UUID

import django

from counterfoil_tlog import checkpoint, notes
from counterfoil_tlog.notes import Verifier
from ledger.db import tenancy
from ledger.log.queries import log as logs
from ledger.log.queries import log_check as queries
from ledger.log.queries.log import LogHead
from ledger.log.rules import log_check
from ledger.log.rules.log_check import BlockResult, LogBroken, TreeBuilder
from ledger.record.rules.refusals import Refused

BlockTask = tuple[UUID, int, range, tuple[int, ...]]
CHECKPOINTS = 1000
"""How many checkpoints are held in memory at a time."""
BlockRunner = Callable[[Iterable[BlockTask]], Iterator[BlockResult]]


@contextmanager
def block_runner(processes: int) -> Iterator[BlockRunner]:
    """A runner that checks blocks in order, in this process or in several others."""
    if processes == 1:
        yield lambda tasks: map(check_task, tasks)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=django.setup) as pool:
        yield lambda tasks: pool.map(check_task, tasks)
        pool.shutdown(cancel_futures=True)


def check_task(task: BlockTask) -> BlockResult:
    """Run one block in its own transaction; a long transaction would keep the log's queue from being cleaned."""
    tenant_id, log, places, marks = task
    with tenancy(tenant_id):
        tiles = queries.block_tiles(tenant_id, log, places)
        # Closed on a break, too: the connection does nothing else while it streams.
        with closing(queries.leaves(tenant_id, log, places)) as leaves:
            return log_check.check_block(places, leaves, tiles, marks)


def check_logs(tenant_id: UUID, walks: BlockRunner, keys: Sequence[Verifier] = ()) -> tuple[int, int]:
    """Check a tenant's logs and count the entries and signed heads; `LogBroken` names the first that is wrong.

    With `keys` only their signatures count; without them, those of the keys that the log itself names.
    """
    with tenancy(tenant_id):
        heads = logs.logs(tenant_id)
    with tenancy(tenant_id):
        missing = [queries.missing_checkpoint(tenant_id, head.number) for head in heads]
    if any(size is not None for size in missing):
        size = next(size for size in missing if size is not None)
        raise LogBroken(size, f"the checkpoint of {size} entries was kept, and is missing.")
    counts = [_check(tenant_id, head, walks, keys) for head in heads]
    with tenancy(tenant_id):
        lost = queries.unlogged_event(tenant_id)
    if lost is not None:
        raise LogBroken(sum(head.size for head in heads), f"event {lost[1]} of {lost[0]} has no place, and none waits.")
    return sum(entries for entries, _ in counts), sum(signed for _, signed in counts)


def _check(tenant_id: UUID, head: LogHead, walks: BlockRunner, keys: Sequence[Verifier]) -> tuple[int, int]:
    with tenancy(tenant_id):
        trusted = keys or [notes.read_vkey(each) for each in queries.verifier_keys(tenant_id, head.id)]
        signed = signed_heads(head, queries.checkpoint_notes(tenant_id, head.number), trusted)
        summit = TreeBuilder(queries.upper_tiles(tenant_id, head.number), signed)
    tasks = (
        (tenant_id, head.number, places, tuple(size for size in signed if places.start < size <= places.stop))
        for places in log_check.leaf_blocks(head.size)
    )
    try:
        for each in walks(tasks):
            summit.add(each)
        summit.finish(head.root)
    except LogBroken as broken:
        with tenancy(tenant_id):
            raise LogBroken(
                broken.index, broken.what + queries.describe_leaf(tenant_id, head.number, broken.index)
            ) from None
    return head.size, len(signed)


def checkpoint_faults(tenant_id: UUID, head: LogHead) -> Iterator[str]:
    """Describe the faults of a log's kept checkpoints: missing, altered, or without a known signer."""
    missing = queries.missing_checkpoint(tenant_id, head.number)
    if missing is not None:
        yield f"the checkpoint of {missing} entries was kept, and is missing."
    keys = [notes.read_vkey(each) for each in queries.verifier_keys(tenant_id, head.id)]
    after = -1
    while page := queries.checkpoint_notes_after(tenant_id, head.number, after, limit=CHECKPOINTS):
        for size, data in page:
            try:
                note = notes.parse(data)
                point = checkpoint.parse(note.text)
                notes.verify_signatures(note, keys)
            except Refused as refusal:
                yield f"the checkpoint of {size} entries is not good: {refusal.detail}"
                continue
            if (point.origin, point.size) != (head.origin, size):
                yield f"the checkpoint of {size} entries is one of another log or size."
        after = page[-1][0]


def signed_heads(head: LogHead, stored: Iterable[bytes], keys: Sequence[Verifier]) -> dict[int, bytes]:
    """The roots that the log's checkpoints name, by size; each of them must be signed, and be of this log."""
    found: dict[int, bytes] = {}
    for data in stored:
        try:
            note = notes.parse(data)
            point = checkpoint.parse(note.text)
            notes.verify_signatures(note, keys)
        except Refused as refusal:
            raise LogBroken(max(found, default=0), f"the next checkpoint is not good: {refusal.detail}") from None
        if point.origin != head.origin or found.setdefault(point.size, point.root) != point.root:
            raise LogBroken(max(found, default=0), f"a checkpoint of {point.size} entries is of another log.")
        if point.size > head.size:
            raise LogBroken(head.size, f"it is not there, and a log of {point.size} entries was signed.")
    found.pop(0, None)
    return found
