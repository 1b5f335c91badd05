"""Hands a tenant's log over to another installation, and takes it over there, so that it never forks.

The signer state of the first bars the log before the statement leaves the process; the second goes on from the head
that the statement names and from no other. Both run where the log key and the signer state are, and may be repeated
after a crash.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from counterfoil_tlog import notes
from ledger.catalogue.operations.installation import record_move
from ledger.catalogue.rules.moving import FROZEN, HERE, MOVED, VERIFIED
from ledger.db import execute, tenancy
from ledger.log.operations import logs
from ledger.log.operations.sequencer import Signer, consistency_proof
from ledger.log.queries import log as queries
from ledger.log.queries.log import LogHead
from ledger.log.rules import signing
from ledger.log.rules.hand_over import HandOver, read_statement, write_statement
from ledger.log.rules.signing import HistoryForked, TreeHead
from ledger.record.queries import events
from ledger.record.rules.canonical import digest
from ledger.record.rules.refusals import Refused


class NotFrozen(Refused):
    """The tenant is not frozen for a move, so its log is not handed over. Run `move_tenant freeze` first."""

    code = "NOT_FROZEN"


class NotVerified(Refused):
    """The tenant was not verified here after its import. Run `move_tenant verify` first; its log is not taken over."""

    code = "NOT_VERIFIED"


class OtherHead(Refused):
    """The statement is about another log, head or key than those here."""

    code = "OTHER_HEAD"


def hand_over(*, tenant_id: UUID, signer: Signer) -> bytes:
    """Sign nothing more for the tenant's log here, and return the statement that lets the other installation go on."""
    tenant = events.tenant_by_id(tenant_id)
    statement = signer.state.handed_over(tenant.origin)
    if statement is None:
        if tenant.moving not in (FROZEN, MOVED):
            raise NotFrozen
        with tenancy(tenant_id):
            head = _log_of(tenant_id)
            waiting = execute("SELECT 1 FROM ledger_pending WHERE tenant_id = $1 LIMIT 1", tenant_id)
        last = TreeHead(head.size, head.root)
        if waiting or head.signed_size != head.size or signer.state.last(head.origin) != last:
            raise NotFrozen("The log has entries that are not signed. Run `move_tenant freeze` again.")
        new = Ed25519PublicKey.from_public_bytes(bytes.fromhex((tenant.move or {})["key"]))
        drafted = write_statement(head.origin, last, signer.keys.current, new)
        # From here on nobody can give the move up.
        if not execute(
            "UPDATE ledger_tenant SET moving = $2 WHERE id = $1 AND moving IN ($2, $3) RETURNING id",
            *(tenant_id, MOVED, FROZEN),
        ):
            raise NotFrozen
        # And from here on nothing can be signed for this log, whatever becomes of the rest.
        statement = signer.state.hand_over(head.origin, last, drafted)
    elif tenant.moving != MOVED:
        # The database went back to before.
        execute("UPDATE ledger_tenant SET moving = $2 WHERE id = $1", tenant_id, MOVED)
    return statement


def take_over(*, tenant_id: UUID, statement: bytes, signer: Signer, at: datetime) -> None:
    """Go on with the log of a tenant that was moved here, under our key; from here on the tenant is open."""
    tenant = events.tenant_by_id(tenant_id)
    handed = read_statement(statement)
    if tenant.moving not in (VERIFIED, HERE):
        raise NotVerified
    with tenancy(tenant_id):
        head = _log_of(tenant_id)
        if tenant.moving == HERE:
            if signer.state.last(handed.origin) is None or head.origin != handed.origin:
                raise NotVerified
            return
        _check(tenant_id, head, handed, signer)
        known = signer.state.known_head(head.origin)
        if known is not None:
            signing.check_next_head(known, handed.head, consistency_proof(tenant_id, head, known))
        signer.state.take_over(head.origin, handed.head)
        execute("UPDATE ledger_tenant SET moving = $2, epoch = $3 WHERE id = $1", tenant_id, HERE, signer.state.epoch)
        if handed.old != handed.new:
            _tell_key(tenant_id, handed, at=at)
        record_move("tenant_moved", tenant=events.tenant_by_id(tenant_id), at=at)


def _check(tenant_id: UUID, head: LogHead, handed: HandOver, signer: Signer) -> None:
    """Refuse a statement that is not about the imported log, or not by a key that the log itself tells of."""
    told = {name for _, name in queries.announced_keys(tenant_id, head.id)}
    if (
        (handed.origin, handed.head) != (head.origin, TreeHead(head.size, head.root))
        or head.signed_size != head.size
        or handed.new != signer.vkey(head.origin)
        or digest(handed.old.encode()) not in told
    ):
        raise OtherHead
    if head.note is None:
        raise HistoryForked("The imported log has no signed head.")
    notes.verify_signatures(notes.parse(head.note), [notes.read_vkey(handed.old)])


def _tell_key(tenant_id: UUID, handed: HandOver, *, at: datetime) -> None:
    reason = "The log goes on at another installation."
    rotated = {"old": handed.old, "new": handed.new, "signature": handed.signature, "reason": reason}
    logs.announce_key(
        tenant_id=tenant_id, kind="key_rotated", key=lambda _: handed.new, detail=lambda _: rotated, at=at
    )
    retired = {"key": handed.old, "reason": reason}
    logs.announce_key(
        tenant_id=tenant_id, kind="key_retired", key=lambda _: handed.old, detail=lambda _: retired, at=at
    )


def _log_of(tenant_id: UUID) -> LogHead:
    head = queries.current_log(tenant_id)
    if head is None:
        raise NotFrozen("The tenant has no log yet: its sequencer has not run.")
    return head
