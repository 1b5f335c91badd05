"""The text of a machine's key: `cf_`, its kind, the id of its tenant and a secret.

Whatever stands in front of several installations finds the right one by the tenant, without asking a database.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from typing import Final
from uuid import UUID

KEY_KINDS: Final = ("agent", "exec", "oper", "audit")
_KEY: Final = re.compile(rf"cf_(?:{'|'.join(KEY_KINDS)})_([0-9a-f]{{32}})_[\w-]{{43}}", re.ASCII)
_WITHOUT_TENANT: Final = re.compile(rf"cf_(?:{'|'.join(KEY_KINDS)})_[\w-]{{43}}", re.ASCII)


def new_key(kind: str, tenant_id: UUID) -> str:
    """A key that nobody has yet; its secret has 256 bits."""
    return f"{key_prefix(kind, tenant_id)}{secrets.token_urlsafe(32)}"


def key_prefix(kind: str, tenant_id: UUID) -> str:
    """The beginning that all keys of this kind have in one tenant."""
    return f"cf_{kind}_{tenant_id.hex}_"


def pattern_of_tenants(tenant_ids: Iterable[UUID]) -> str:
    """A regular expression for all keys that name one of these tenants (RE2's syntax, too)."""
    return rf"cf_(?:{'|'.join(KEY_KINDS)})_(?:{'|'.join(each.hex for each in tenant_ids)})_[\w-]{{43}}"


def tenant_in(key: str) -> UUID | None:
    """The tenant that a key names; None if it is no key of the present form."""
    found = _KEY.fullmatch(key)
    return UUID(found[1]) if found else None


def lacks_tenant(key: str) -> bool:
    """True for a key as they were until they named their tenant."""
    return _WITHOUT_TENANT.fullmatch(key) is not None
