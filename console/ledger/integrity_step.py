"""One step of an integrity check: a range of subjects of the record, or a block of a log."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from counterfoil_tlog import notes
from counterfoil_tlog.merkle import LARGEST_SIZE
from ledger.db import tenancy
from ledger.log.queries import log, log_check, proofs
from ledger.log.rules.log_check import LogBroken, TreeBuilder, leaf_blocks
from ledger.management import log_check as walks
from ledger.management.commands.verify_ledger import (
    FIRST,
    LAST,
    SUBJECTS,
    check_whole,
    pruned_findings,
    verify_range,
)
from ledger.verification import operations as verification_operations
from ledger.verification.queries import storage
from ledger.verification.rules.stored_record import RecordBroken, RecordLocation

if TYPE_CHECKING:
    from ledger.models import Tenant


def advance_check(tenant: Tenant, check_id: UUID, *, clock: Callable[[], datetime]) -> bool:
    """Advance a check; return True if more remains."""
    with tenancy(tenant.id):
        row = verification_operations.claim_check(tenant.id, check_id)
        if row is None:
            return False
        return _record(tenant, row) if row.phase == "RECORD" else _logs(tenant.id, row, clock)


def _record(tenant: Tenant, row: Any) -> bool:
    page = storage.subject_ids(tenant.id, after=row.place, limit=SUBJECTS)
    upto = page[-1] if len(page) == SUBJECTS else LAST
    seen, found = verify_range(tenant.id, tenant.origin, row.place, upto)
    if row.place == FIRST:
        found += pruned_findings(tenant.id)
    if upto == LAST:
        found += check_whole(tenant.id)
    counted = {name: seen[name] for name in ("subjects", "events", "evidence", "erased")}
    verification_operations.record_progress(
        row, seen=counted, found=found, place=upto, phase="LOG" if upto == LAST else "RECORD"
    )
    return True


def _logs(tenant_id: UUID, row: Any, clock: Callable[[], datetime]) -> bool:
    head = proofs.log_head(tenant_id, row.log)
    if head is not None:
        try:
            _log(tenant_id, row, head)
        except LogBroken as broken:
            # What is behind it in this log cannot be told; the next log can.
            found = [RecordBroken(RecordLocation("log", str(head.id)), "log", broken.detail)]
            verification_operations.record_progress(row, seen={}, found=found, block=0, carried={}, log=row.log + 1)
        return True
    lost = log_check.unlogged_event(tenant_id)
    found = [] if lost is None else [_missing_leaf(*lost)]
    verification_operations.finish_check(row, found=found, at=clock())
    return False


def _missing_leaf(subject_id: UUID, seq: int) -> RecordBroken:
    place = RecordLocation("subject", str(subject_id), seq)
    return RecordBroken(place, "log", "it has no place in the log, and does not wait for one.")


def _log(tenant_id: UUID, row: Any, head: log.LogHead) -> None:
    """Check one block of a log, or finish it. The size read at the beginning stays the limit, since the log grows
    meanwhile.
    """
    carried = row.carried or _pin_head(tenant_id, head)
    whole = leaf_blocks(carried["size"])
    places = whole[row.block] if row.block < len(whole) else range(carried["size"], carried["size"])
    try:
        signed = _signed_roots(tenant_id, head, above=places.start, upto=places.stop)
        summit = TreeBuilder(log_check.upper_tiles(tenant_id, head.number), signed)
        if carried["summit"]:
            summit.go_on(carried["summit"])
        if not places:
            summit.finish(bytes.fromhex(carried["root"]))
            verification_operations.record_progress(row, seen={}, block=0, carried={}, log=row.log + 1)
            return
        summit.add(walks.check_task((tenant_id, head.number, places, tuple(signed))))
    except LogBroken as broken:
        where = log_check.describe_leaf(tenant_id, head.number, broken.index)
        raise LogBroken(broken.index, broken.what + where) from None
    following = carried | {"summit": summit.kept()}
    verification_operations.record_progress(row, seen={"leaves": len(places)}, block=row.block + 1, carried=following)


def _pin_head(tenant_id: UUID, head: log.LogHead) -> dict[str, Any]:
    """Pin the head that a log is compared with; nothing larger may have been signed."""
    _signed_roots(tenant_id, head, above=head.size, upto=LARGEST_SIZE)
    return {"size": head.size, "root": head.root.hex(), "summit": None}


def _signed_roots(tenant_id: UUID, head: log.LogHead, *, above: int, upto: int) -> dict[int, bytes]:
    """The roots that the checkpoints between two sizes name."""
    keys = [notes.read_vkey(each) for each in log_check.verifier_keys(tenant_id, head.id)]
    return walks.signed_heads(head, storage.checkpoint_notes(tenant_id, head.number, above=above, upto=upto), keys)
