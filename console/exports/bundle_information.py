"""The information in a bundle besides its evidence: public keys, and the documents for replaying its runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from uuid import UUID

import orjson

from approvals.execution import queries as execution_queries
from approvals.execution.operations import grant_keys
from approvals.execution.rules import grants
from ledger.exports import queries as exported
from ledger.exports.operations import exports
from ledger.exports.rules import bundle_names
from ledger.record.queries import events
from ledger.record.rules.refusals import NotFound
from reviews.replay import queries as replays
from reviews.replay.rules import bundles


def advance_export(*, tenant_id: UUID, export_id: UUID, clock: Callable[[], datetime]) -> bool:
    """Make the next piece of an export, or finish it; return False if there is nothing to do now."""
    return exports.advance_export(tenant_id=tenant_id, export_id=export_id, clock=clock, information=_information)


def _information(tenant_id: UUID, files: Sequence[Path]) -> dict[str, bytes]:
    runs = bundles.read_export(_lines_with_runs(files), bundles.Documents())
    named = bundles.named_documents(run.evidence for run in runs if run.evidence is not None)
    found = {"keys.json": public_keys(tenant_id)}
    if named["contract"]:
        found[bundles.MEMBER] = orjson.dumps(
            replays.bundle_documents(tenant_id, named), option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
        )
    return found


def _lines_with_runs(files: Sequence[Path]) -> Iterator[bytes]:
    for file in files:
        with file.open("rb") as lines:
            yield from (line for line in lines if b"circumstances" in line)


def public_keys(tenant_id: UUID) -> bytes:
    """Return the public keys for grants and proofs of possession, for information; a verifier trusts none of them."""
    executors = [
        {"executor_id": each.executor_id, "public_jwk": each.public_jwk, "thumbprint": each.thumbprint}
        for each in execution_queries.executors(tenant_id)
    ]
    document = {"grants": grants.jwks(grant_keys.known_keys()), "executors": executors}
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


def bundle_file_name(*, tenant_id: UUID, export_id: UUID) -> str:
    """The file name of an export when it is downloaded; on disk it has the export's id."""
    row = exported.export(tenant_id, export_id)
    if row is None:
        raise NotFound("Export")
    slug = events.tenants_by_id([tenant_id])[tenant_id].slug
    return bundle_names.bundle_name(slug, row.wanted, asked_at=row.requested_at)
