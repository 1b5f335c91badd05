"""Queries of the people behind accounts and keys. All functions run inside `tenancy`."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from ledger.db import execute


def is_same_person(tenant_id: UUID, one: UUID | None, other: UUID) -> bool:
    """Return True if one human is behind two accounts or keys of the tenant; None matches no person."""
    if one is None or one == other:
        return one == other
    compared = "SELECT ledger_person($1, $2) = ledger_person($1, $3)"
    return bool(execute(compared, tenant_id, one, other)[0][0])


def people_behind(tenant_id: UUID, actor_ids: Collection[UUID]) -> set[UUID]:
    """Return the humans behind these accounts and keys, each once."""
    each = "SELECT DISTINCT ledger_person($1, id) FROM unnest($2::uuid[]) id"
    return {person for (person,) in execute(each, tenant_id, list(actor_ids))}


def person_behind(tenant_id: UUID, actor_id: UUID) -> UUID:
    """Return the human behind an account or a key; an account without links stands for itself."""
    person: UUID = execute("SELECT ledger_person($1, $2)", tenant_id, actor_id)[0][0]
    return person
