"""Reads evidence and the keys that it is encrypted with. All functions run inside `tenancy`."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from ledger import keystore
from ledger.db import execute, fetch_one
from ledger.models import (
    Evidence,
)
from ledger.record.rules import encryption


def key_id(tenant_id: UUID, subject_id: UUID) -> UUID | None:
    """The id of the key that encrypts a subject's evidence, if it has one."""
    [(key,)] = execute(*key_call(tenant_id, subject_id))
    return key  # type: ignore[no-any-return]


def key_call(tenant_id: UUID, subject_id: UUID) -> tuple[Any, ...]:
    """The same as a call for `pipeline`: always one row."""
    statement = "SELECT (SELECT key_id FROM ledger_subjectkey WHERE tenant_id = $1 AND subject_id = $2)"
    return statement, tenant_id, subject_id


def key_ids(tenant_id: UUID, subject_ids: list[UUID]) -> dict[UUID, UUID]:
    """Return the ids of the keys of these subjects' evidence, by subject; subjects without a key are left out."""
    return dict(
        map(
            tuple,
            execute(
                "SELECT subject_id, key_id FROM ledger_subjectkey WHERE tenant_id = $1 AND subject_id = ANY($2)",
                *(tenant_id, subject_ids),
            ),
        )
    )


def data_key(key_id: UUID | None) -> bytes:
    """The key itself; `CannotOpen` if it was destroyed."""
    key = keystore.read_keys([key_id]).get(key_id) if key_id is not None else None
    if key is None:
        raise encryption.CannotOpen
    return key


def evidence(tenant_id: UUID, pointer: UUID) -> Evidence | None:
    return fetch_one(Evidence, "tenant_id = $1 AND id = $2", tenant_id, pointer)


def commitment_of(tenant_id: UUID, pointer: UUID) -> str:
    """The salted commitment to a piece of evidence, without opening it."""
    rows = execute("SELECT commitment FROM ledger_evidence WHERE tenant_id = $1 AND id = $2", tenant_id, pointer)
    return str(rows[0][0])


def first_evidence(tenant_id: UUID, subject_id: UUID, purpose: str) -> tuple[UUID, str] | None:
    """Pointer and salted commitment of a subject's first evidence of one purpose, without opening it."""
    rows = execute(
        "SELECT id, commitment FROM ledger_evidence WHERE tenant_id = $1 AND subject_id = $2 AND purpose = $3"
        " ORDER BY observed_at, id LIMIT 1",
        *(tenant_id, subject_id, purpose),
    )
    return (rows[0][0], str(rows[0][1])) if rows else None


def evidence_of(tenant_id: UUID, subject_id: UUID) -> list[Evidence]:
    """The evidence rows of a subject, oldest first, without opening them."""
    found = Evidence.objects.filter(tenant_id=tenant_id, subject_id=subject_id)
    return list(found.defer("sealed").order_by("observed_at", "id"))


_SEALED_EVIDENCE = (
    "SELECT e.subject_id, e.sealed, k.key_id FROM ledger_evidence e LEFT JOIN ledger_subjectkey k"
    " ON k.tenant_id = e.tenant_id AND k.subject_id = e.subject_id WHERE e.tenant_id = $1 AND e.id = $2"
)


def sealed_call(tenant_id: UUID, pointer: UUID | None) -> tuple[Any, ...]:
    """Return the call for `pipeline` that reads encrypted evidence: its subject, its ciphertext, and the
    id of the key.
    """
    return _SEALED_EVIDENCE, tenant_id, pointer


def open_evidence(tenant_id: UUID, pointer: UUID) -> bytes | None:
    """Decrypt evidence; `EvidenceErased` if it was erased, `CannotOpen` if its key was destroyed."""
    rows = execute(*sealed_call(tenant_id, pointer))
    return open_sealed(tenant_id, pointer, *rows[0]) if rows else None


def open_sealed(tenant_id: UUID, pointer: UUID, subject_id: UUID, sealed: bytes | None, key_id: UUID | None) -> bytes:
    """Decrypt evidence from a row that was read before: its encrypted bytes, and the id of its subject's key."""
    if sealed is None:
        raise encryption.EvidenceErased
    return encryption.open_sealed(data_key(key_id), bytes(sealed), f"{tenant_id}/{subject_id}/{pointer}")


def open_evidence_many(tenant_id: UUID, pointers: list[UUID], *, leave_out_lost: bool = False) -> dict[UUID, bytes]:
    """Decrypt several pieces of evidence; `EvidenceErased` if one was erased, `CannotOpen` if a key was destroyed.

    With `leave_out_lost` such evidence is left out instead.
    """
    rows = execute(
        "SELECT e.id, e.subject_id, e.sealed, k.key_id FROM ledger_evidence e LEFT JOIN ledger_subjectkey k"
        " ON k.tenant_id = e.tenant_id AND k.subject_id = e.subject_id WHERE e.tenant_id = $1 AND e.id = ANY($2)",
        *(tenant_id, pointers),
    )
    keys = keystore.read_keys(key for _, _, _, key in rows if key is not None)
    opened: dict[UUID, bytes] = {}
    for pointer, subject_id, sealed, key in rows:
        try:
            if sealed is None:
                raise encryption.EvidenceErased
            place = f"{tenant_id}/{subject_id}/{pointer}"
            opened[pointer] = encryption.open_sealed(keys.get(key, b""), bytes(sealed), place)
        except encryption.CannotOpen:
            if not leave_out_lost:
                raise
    return opened


def open_evidence_row(row: Evidence, key: bytes | None) -> bytes | None:
    """Decrypt an evidence row; return None if that is not possible."""
    try:
        return encryption.open_sealed(
            key or b"", bytes(row.sealed or b""), f"{row.tenant_id}/{row.subject_id}/{row.id}"
        )
    except encryption.CannotOpen:
        return None
