"""Queries of the people behind accounts and keys. All functions run inside `tenancy`."""

from __future__ import annotations

from uuid import UUID

from ledger.db import execute


def is_same_person(one: UUID | None, other: UUID) -> bool:
    """Return True if one human is behind two accounts or keys of the tenant; None matches no person."""
    if one is None or one == other:
        return one == other
    return bool(execute("SELECT ledger_person($1) = ledger_person($2)", one, other)[0][0])


def person_behind(actor_id: UUID) -> UUID:
    """Return the human behind an account or a key; an account without links stands for itself."""
    person: UUID = execute("SELECT ledger_person($1)", actor_id)[0][0]
    return person
