"""Exports in a test: asked for, made piece by piece, fetched, and judged by the offline verifier."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from console.exports import bundle_information
from ledger import verify_bundle
from ledger.db import tenancy
from ledger.exports import queries as stored
from ledger.exports.operations import exports
from ledger.log.queries import log
from ledger.record import operations as ledger
from tests.support import seals


def now() -> datetime:
    return datetime.now(UTC)


def ask_for(tenant: UUID, **wanted: Any) -> UUID:
    """An export on record; `start` and `end` stand for the members `from` and `to`."""
    names = {"start": "from", "end": "to"}
    with tenancy(tenant):
        asked = {names.get(name, name): value for name, value in wanted.items()}
        return exports.request_export(tenant_id=tenant, wanted=asked, by=ledger.SYSTEM, at=now()).id


def row_of(tenant: UUID, export_id: UUID) -> Any:
    with tenancy(tenant):
        return stored.export(tenant, export_id)


def make(tenant: UUID, export_id: UUID, *, most: int = 1000) -> Any:
    """Go on until there is nothing more to do; the export's row."""
    for _ in range(most):
        if not bundle_information.advance_export(tenant_id=tenant, export_id=export_id, clock=now):
            break
    return row_of(tenant, export_id)


def fetch(tenant: UUID, export_id: UUID) -> bytes:
    with (
        tenancy(tenant),
        exports.fetch_bundle(tenant_id=tenant, export_id=export_id, by=ledger.SYSTEM, at=now()) as file,
    ):
        return file.read()


def bundle(tenant: UUID, **wanted: Any) -> bytes:
    """The finished bundle of an export that is asked for now."""
    export_id = ask_for(tenant, **wanted)
    if "end" not in wanted:
        seals.seal_up()
    row = make(tenant, export_id)
    assert row.state == "FINISHED", (row.state, row.reason)
    return fetch(tenant, export_id)


def newest(tenant: UUID) -> log.LogHead:
    with tenancy(tenant):
        head = log.current_log(tenant)
    assert head is not None
    return head


def policy(tenant: UUID, *lines: str, quorum: str = "none") -> bytes:
    """The policy of an auditor who was told the log's key when it was made."""
    with seals.signer() as signer:
        key = signer.vkey(newest(tenant).origin)
    return "".join(f"{line}\n" for line in (f"log {key}", *lines, f"quorum {quorum}")).encode()


def judged(data: bytes, trusted: bytes, checkpoint: bytes | None = None) -> verify_bundle.Report:
    return verify_bundle.verify(io.BytesIO(data), trusted, checkpoint)
