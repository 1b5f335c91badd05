"""Queries of the people behind accounts and keys. All functions run inside `tenancy`."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from ledger.db import execute


def is_same_person(one: UUID | None, other: UUID) -> bool:
    """Return True if one human is behind two accounts or keys of the tenant; None matches no person."""
    if one is None or one == other:
        return one == other
    return bool(execute("SELECT ledger_person($1) = ledger_person($2)", one, other)[0][0])


def people_behind(actor_ids: Collection[UUID]) -> set[UUID]:
    """Return the humans behind these accounts and keys, each once."""
    return {row[0] for row in execute("SELECT DISTINCT ledger_person(id) FROM unnest($1::uuid[]) id", list(actor_ids))}


def person_behind(actor_id: UUID) -> UUID:
    """Return the human behind an account or a key; an account without links stands for itself."""
    person: UUID = execute("SELECT ledger_person($1)", actor_id)[0][0]
    return person
