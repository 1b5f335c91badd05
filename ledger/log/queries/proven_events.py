"""Events of a subject with their inclusion proofs, for verification without access to the log."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from ledger.db import execute
from ledger.log.queries import log as logs
from ledger.log.queries import proofs


class ProvenEvent(NamedTuple):
    """An event in the log: where it stands, the path from it to the root, its envelope and its detail."""

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
            proofs.inclusion_proof(tenant_id, head.number, index, head.signed_size),
            bytes(envelope),
            bytes(detail),
            bytes(salt),
        )
        for index, envelope, detail, salt in rows
    ]
    return bytes(head.note), found
