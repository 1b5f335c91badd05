"""The declaration that every statement makes when it is written, and a statement that counts.

`rules/statements.py` says what a statement is; a challenge for a passkey and the check of its answer are in
approvals/voting/operations, beside the keys.
"""

from __future__ import annotations

import secrets
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

from django.conf import settings

from ledger.log.queries import log
from ledger.record.operations import new_id, tenant_origin

STATEMENT_LIFE = timedelta(minutes=5)


@dataclass(frozen=True, kw_only=True)
class SignedStatement:
    """A statement that counts, and the salt of the text that it commits to.

    `assertion` is the answer of the passkey that signed it, with the key, as the record keeps it so that anybody can
    check it again; empty where the session vouches for the statement.
    """

    statement: bytes
    salt: bytes
    evidence_class: str
    credential_id: str = ""
    assertion: bytes = b""

    @property
    def pieces(self) -> dict[str, bytes]:
        """The evidence to keep, by purpose."""
        return {"statement": self.statement} | ({"assertion": self.assertion} if self.assertion else {})


def declaration_fields(
    *,
    person: str,
    evidence_class: str,
    credential_id: str,
    head: Mapping[str, Any],
    life: timedelta = STATEMENT_LIFE,
    at: datetime,
) -> dict[str, Any]:
    """The fields of a `Declaration` that is written now; `head` is that of `signed_log_head`."""
    return {
        "statement_id": str(new_id(at)),
        "nonce": secrets.token_hex(32),
        "person": person,
        "evidence_class": evidence_class,
        "credential_id": credential_id,
        "rp_id": settings.COUNTERFOIL_RP_ID if credential_id else "",
        "issued_at": at,
        "expires_at": at + life,
        **head,
    }


def signed_log_head(tenant_id: UUID) -> dict[str, Any]:
    """The newest signed checkpoint of the tenant's log: its origin, size and root; of size 0 before the first."""
    newest = log.current_log(tenant_id)
    return read_log_head(tenant_id, newest.origin if newest else None, newest.note if newest else None)


def read_log_head(tenant_id: UUID, origin: str | None, note: bytes | None) -> dict[str, Any]:
    """Read the current log's origin and its newest signed note; each is None if there is none."""
    if note is None:
        return {"log_origin": origin or tenant_origin(tenant_id), "log_size": 0, "log_root": sha256().hexdigest()}
    origin, size, root = note.decode().split("\n")[:3]
    return {"log_origin": origin, "log_size": int(size), "log_root": b64decode(root).hex()}
