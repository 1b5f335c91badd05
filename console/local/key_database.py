"""Make the key database ready: one table, and what each role may do with it. Part of `manage.py prepare_database`.

The application makes keys and reads them, the eraser destroys them, and nobody changes one. Neither may do the work of
the other: what takes the application over cannot destroy a key, and the eraser never sees one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote, urlsplit

import psycopg
from django.conf import settings
from django.core.management.base import CommandError
from psycopg import sql

from ledger import keystore

APP_MAY = "SELECT, INSERT"
ERASER_MAY = "SELECT (id), DELETE"


def prepare_key_database() -> None:
    """The table and the rights, whatever was there before; keys that exist are left alone."""
    with _owner() as connection:
        roles = {_app(): APP_MAY, settings.COUNTERFOIL_ERASER_ROLE: ERASER_MAY}
        for role in roles:
            _check(connection, role)
        connection.execute(keystore.TABLES)
        _close_places(connection)
        for role, may in roles.items():
            name = sql.Identifier(role)
            connection.execute(sql.SQL("REVOKE ALL ON TABLE data_key FROM {}").format(name))
            connection.execute(sql.SQL("GRANT {} ON TABLE data_key TO {}").format(sql.SQL(may), name))
            connection.execute(sql.SQL("GRANT USAGE ON SCHEMA public TO {}").format(name))
            database = sql.Identifier(connection.info.dbname)
            connection.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, name))


def _app() -> str:
    return unquote(urlsplit(settings.KEYS_DATABASE_URL).username or "")


@contextmanager
def _owner() -> Iterator[psycopg.Connection]:
    if not settings.KEYS_DATABASE_URL or not settings.KEYS_DATABASE_OWNER_URL:
        raise CommandError(
            "Set KEYS_DATABASE_URL and KEYS_DATABASE_OWNER_URL to the database of the keys; see docs/deploy.md."
        )
    try:
        with psycopg.connect(settings.KEYS_DATABASE_OWNER_URL, connect_timeout=5) as connection:
            yield connection
    except psycopg.OperationalError as error:
        raise CommandError(f"The key database cannot be reached: {str(error).strip()}") from None


def _check(connection: psycopg.Connection, role: str) -> None:
    found = connection.execute(
        "SELECT rolsuper OR rolbypassrls OR pg_has_role(rolname, current_user, 'MEMBER')"
        " FROM pg_roles WHERE rolname = %s",
        [role],
    ).fetchone()
    if found is None:
        raise CommandError(f"The role {role} does not exist on the server of the keys; see docs/deploy.md.")
    if found[0]:
        raise CommandError(f"The role {role} must be no superuser and no member of the owner of the key database.")


def _close_places(connection: psycopg.Connection) -> None:
    connection.execute("REVOKE ALL ON TABLE data_key FROM PUBLIC")
    connection.execute("REVOKE ALL ON FUNCTION data_key_stays() FROM PUBLIC")
    connection.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC")
    connection.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(sql.Identifier(connection.info.dbname)))
