"""Proofs for pages: everything needed to verify one event or two checkpoints independently."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.urls import reverse

from counterfoil_tlog.merkle import ProofFails, verify_consistency, verify_inclusion
from ledger import register
from ledger.log.queries import log, proofs
from ledger.log.rules.signing import NotSigned
from ledger.record.queries import events
from ledger.record.rules import envelope
from ledger.record.rules.refusals import NotFound
from ledger.verification.rules.rebuilding import Row, VerifiedEvent

if TYPE_CHECKING:
    from ledger.models import Event


_NO_SUCH_ENTRY = "The log has no such entry, or its tiles do not lead there."


@dataclass(frozen=True, slots=True)
class ProofStep:
    """One step of a check, and whether it passes."""

    text: str
    holds: bool


def proof_panel(slug: str, tenant_id: UUID, event: Event, *, now: bool = False) -> dict[str, Any] | None:
    """The data for verifying an event's proof in the browser; None before the event has a position in the log."""
    place = log.event_position(tenant_id, event.subject_id, event.seq)
    head = proofs.log_head(tenant_id, place.log) if place is not None else None
    if place is None or head is None:
        return None
    return {
        "href": reverse("event-proof", args=[slug, event.subject_id, event.seq]),
        "growth": reverse("log-growth", args=[slug, place.log, 0, 0]),
        "hash": bytes(event.entry_hash).hex(),
        "origin": head.origin,
        "place": place,
        "now": now,
    }


def event_proof(tenant_id: UUID, subject_id: UUID, seq: int) -> dict[str, Any]:
    """The data with which a browser verifies an event: its bytes, its path, the signed head and the key."""
    found = events.event_with_detail(tenant_id, subject_id, seq)
    if found is None:
        raise NotFound(detail=_NO_SUCH_ENTRY)
    place = log.event_position(tenant_id, subject_id, seq)
    head = proofs.log_head(tenant_id, place.log) if place is not None else None
    if place is None or head is None or head.note is None or not place.sealed:
        raise NotSigned
    hashes = proofs.inclusion_proof(tenant_id, place.log, place.index, head.signed_size)
    return {
        "origin": head.origin,
        "log": place.log,
        "index": place.index,
        "size": head.signed_size,
        "envelope": bytes(found[0].envelope).decode(),
        "hashes": [each.hex() for each in hashes],
        "checkpoint": head.note.decode(),
        "keys": proofs.verifier_keys(tenant_id, head.id),
    }


def consistency_proof(tenant_id: UUID, number: int, old: int, new: int) -> dict[str, Any]:
    """The data with which a browser checks that the log continues a checkpoint that it saw before."""
    head = proofs.log_head(tenant_id, number)
    if head is None or not 0 < old <= new <= head.signed_size:
        raise NotFound(detail=_NO_SUCH_ENTRY)
    return {
        "from": old,
        "to": new,
        "hashes": [each.hex() for each in proofs.consistency_proof(tenant_id, number, old, new)],
    }


def inclusion_steps(tenant_id: UUID, head: log.LogHead, leaf: proofs.LogLeaf) -> list[ProofStep]:
    """The steps of an inclusion proof, made again here."""
    signed = _signed_root(tenant_id, head, head.note)
    if signed is None:
        return [ProofStep("The newest checkpoint has a good signature of the log's key.", False)]
    size, root = signed
    if leaf.index >= size:
        raise NotSigned
    stored = events.event_with_detail(tenant_id, leaf.subject_id, leaf.seq)
    own = stored is not None and bytes(stored[0].entry_hash) == leaf.hash
    path = proofs.inclusion_proof(tenant_id, head.number, leaf.index, size)
    try:
        verify_inclusion(leaf=leaf.hash, index=leaf.index, size=size, proof=path, root=root)
        included = True
    except ProofFails:
        included = False
    return [
        ProofStep(f"The leaf is the hash of the stored event: {leaf.hash.hex()}.", own),
        ProofStep(f"{len(path)} hashes lead from it to the root over {size} entries.", included),
        ProofStep(
            f"The checkpoint of {size} entries, signed by the log's key, names that root: {root.hex()}.", included
        ),
    ]


def consistency_steps(tenant_id: UUID, head: log.LogHead, old: int, new: int) -> tuple[list[ProofStep], list[str]]:
    """Check whether one kept checkpoint continues another; return the steps and the hashes that show it."""
    notes = [_note(tenant_id, head, size) for size in (old, new)]
    if None in notes:
        raise NotFound(detail="No checkpoint of that size was kept; choose one from the list.")
    signed = [_signed_root(tenant_id, head, note) for note in notes]
    steps = [
        ProofStep(f"The checkpoint of {size} entries has a good signature of the log's key.", found is not None)
        for size, found in zip((old, new), signed, strict=True)
    ]
    if signed[0] is None or signed[1] is None:
        return steps, []
    path = proofs.consistency_proof(tenant_id, head.number, old, new)
    try:
        verify_consistency(old_size=old, new_size=new, old_root=signed[0][1], new_root=signed[1][1], proof=path)
        holds = True
    except ProofFails:
        holds = False
    said = f"{len(path)} hashes show that the log of {new} entries begins with those {old}."
    return [*steps, ProofStep(said, holds)], [each.hex() for each in path]


def _note(tenant_id: UUID, head: log.LogHead, size: int) -> bytes | None:
    return head.note if size == head.signed_size else proofs.kept_checkpoint(tenant_id, head.number, size)


def _signed_root(tenant_id: UUID, head: log.LogHead, note: bytes | None) -> tuple[int, bytes] | None:
    """Size and root of a note that one of the log's own keys signed for this log."""
    for key in proofs.verifier_keys(tenant_id, head.id) if note is not None else ():
        said = proofs.signed_root(note or b"", key)
        if said is not None and said[0] == head.origin:
            return said[1], said[2]
    return None


def find_vote_mismatch(history: Iterable[tuple[Any, Any, Any]], votes: Iterable[Any]) -> str:
    """Describe the first stored vote that differs from the history of its approval; empty if none does.

    `verify_ledger` compares the same columns of every tenant, and the events themselves with the log. A reader of this
    page learns at once that somebody wrote into the table.
    """
    table = next(each for each in register.tables_of("approval") if each.model == "approvals.Vote")
    expected: dict[Any, Row] = {}
    for event, entry, detail in history:
        read = envelope.parse(bytes(event.envelope))
        table.take(expected, VerifiedEvent(envelope=read, detail=detail, entry=entry))
    stored = [
        {column.attname: getattr(vote, column.attname) for column in vote._meta.concrete_fields} for vote in votes
    ]
    return table.fault(expected, stored) or ""
