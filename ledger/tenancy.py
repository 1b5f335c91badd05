"""The edge of every read and write of tenant data: one transaction that knows its tenant."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from django.db import connection, transaction


@contextmanager
def tenancy(tenant_id: UUID) -> Iterator[None]:
    """One transaction in which row-level security shows the rows of `tenant_id` and no others.

    Without it the database shows no rows at all, so a forgotten edge fails closed. Where it is nested, the outer
    tenant comes back at the end (on an error the savepoint's rollback brings it back).
    """
    outer = _current() if connection.in_atomic_block else None
    with transaction.atomic():
        _set(str(tenant_id))
        yield
        if outer is not None:
            _set(outer)


def _current() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT coalesce(current_setting('app.tenant', true), '')")
        return str(cursor.fetchone()[0])


def _set(tenant: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('app.tenant', %s, true)", [tenant])
