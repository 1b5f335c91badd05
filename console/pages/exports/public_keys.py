"""What an export needs from both sides of the record: the public keys that its bundle shows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from uuid import UUID

import orjson

from approvals.execution import queries as execution_queries
from approvals.execution.operations import grant_keys
from approvals.execution.rules import grants
from ledger.exports.operations import exports


def advance_export(*, tenant_id: UUID, export_id: UUID, clock: Callable[[], datetime]) -> bool:
    """One piece of an export, or its end; False where there is nothing to do for us now."""
    return exports.advance_export(tenant_id=tenant_id, export_id=export_id, clock=clock, keys=public_keys)


def public_keys(tenant_id: UUID) -> bytes:
    """The keys that grants and proofs of possession are signed with, for information: a verifier trusts none of it."""
    executors = [
        {"executor_id": each.executor_id, "public_jwk": each.public_jwk, "thumbprint": each.thumbprint}
        for each in execution_queries.executors(tenant_id)
    ]
    document = {"grants": grants.jwks(each.key for each in grant_keys.key_directory()), "executors": executors}
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)
