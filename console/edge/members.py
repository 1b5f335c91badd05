"""Members by the names that callers use."""

from __future__ import annotations

from uuid import UUID

from console.accounts import queries as accounts_queries
from ledger.record.rules.refusals import Refused


class UnknownMemberName(Refused):
    """There is no member with that name."""

    code = "NO_SUCH_MEMBER"
    status = 422


def member_named(tenant_id: UUID, name: str) -> UUID:
    """The account of a member, by the name that they sign in with."""
    found = accounts_queries.member_named(tenant_id, name)
    if found is None:
        raise UnknownMemberName
    return found.actor_id
