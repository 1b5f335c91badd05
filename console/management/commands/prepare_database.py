"""Prepare the database for a release: migrate as its owner, then grant each role its rights.

Runs as the role of DATABASE_OWNER_URL, on an embedded or an outside server, and grants to the role of DATABASE_URL and
to the others of `console/local/rights.py`. It may be run again at any time: it ends with exactly the rights written
there.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import connections, transaction
from django.db.utils import OperationalError
from psycopg import sql

from console.local import rights as rights_local
from console.local.rights import APP_RIGHTS, AUDITOR_RIGHTS, ERASER_RIGHTS, SEQUENCER_RIGHTS, TABLES, RoleRights
from ledger.management.commands.migrate import adopt_earlier_tables

PARTITIONS_AHEAD_MONTHS = 3


class Command(BaseCommand):
    help = "Migrate as DATABASE_OWNER_URL, prepare the key database and grant each role exactly its rights."
    requires_system_checks = ()

    def handle(self, *args: Any, verbosity: int = 1, **options: Any) -> None:
        if "owner" not in settings.DATABASES:
            raise CommandError("Set DATABASE_OWNER_URL to the role that owns the tables.")
        role = connections["default"].settings_dict["USER"]
        roles = {
            role: APP_RIGHTS,
            settings.COUNTERFOIL_SEQUENCER_ROLE: SEQUENCER_RIGHTS,
            settings.COUNTERFOIL_ERASER_ROLE: ERASER_RIGHTS,
            settings.COUNTERFOIL_AUDITOR_ROLE: AUDITOR_RIGHTS,
        }
        try:
            for each in roles:
                check_role(each)
        except OperationalError as error:
            raise CommandError(f"The database cannot be reached: {str(error).strip()}") from None
        adopt_earlier_tables(connections["owner"])
        rights_local.prepare_key_database()
        call_command("migrate", database="owner", interactive=False, verbosity=max(verbosity - 1, 0))
        with transaction.atomic(using="owner"):
            ensure_partitions()
            for each, rights in roles.items():
                grant(each, rights)
        if verbosity:
            self.stdout.write(f"The database is ready for {role}.")


def rows(statement: str | sql.Composable, values: list[Any] | None = None) -> list[tuple[Any, ...]]:
    with connections["owner"].cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall() if cursor.description else []


def check_role(role: str) -> None:
    """Refuse a role that is, or can become, the owner: the fences of the ledger depend on it."""
    owner = connections["owner"].settings_dict["USER"]
    found = rows(
        "SELECT rolsuper OR rolbypassrls, pg_has_role(rolname, current_user, 'MEMBER')"
        " FROM pg_roles WHERE rolname = %s",
        [role],
    )
    if not found:
        raise CommandError(f"The role {role} does not exist. Create it with deploy/postgresql.sql; see docs/deploy.md.")
    mighty, member = found[0]
    if mighty or member or role == owner:
        raise CommandError(
            f"The role {role} must not be a superuser, bypass row-level security or be a member of {owner}."
        )


def ensure_partitions() -> None:
    known = rows("SELECT to_regprocedure('ledger_ensure_partitions(integer)') IS NOT NULL")
    if known[0][0]:
        rows("SELECT ledger_ensure_partitions(%s)", [PARTITIONS_AHEAD_MONTHS])


def grant(role: str, rights: RoleRights) -> None:
    """Revoke everything, then grant the listed rights, in the caller's transaction."""
    tables: dict[str, bool] = dict(
        rows(
            "SELECT relname, relispartition FROM pg_class"
            " WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f')"
            " AND relowner = current_user::regrole"
        )
    )
    unlisted = sorted(name for name, partition in tables.items() if not partition and name not in TABLES)
    if unlisted:
        raise CommandError(f"No rights are defined for {', '.join(unlisted)}: add them to TABLES.")
    app = sql.Identifier(role)
    for name in tables:
        rows(sql.SQL("REVOKE ALL ON TABLE {} FROM PUBLIC, {}").format(sql.Identifier(name), app))
    for name, words in rights.tables.items():
        if name in tables and words:
            listed = sql.SQL(", ").join(sql.SQL(word) for word in words)
            rows(sql.SQL("GRANT {} ON TABLE {} TO {}").format(listed, sql.Identifier(name), app))
    grant_functions(app, rights.functions)
    grant_places(app)


def grant_functions(app: sql.Identifier, functions: tuple[str, ...]) -> None:
    own = rows(
        "SELECT oid::regprocedure::text, proname FROM pg_proc"
        " WHERE pronamespace = 'public'::regnamespace AND proowner = current_user::regrole"
    )
    missing = sorted(set(functions) - {name for _, name in own})
    if missing:
        raise CommandError(f"These functions are listed but do not exist: {', '.join(missing)}.")
    for signature, name in own:
        function = sql.SQL(signature)
        rows(sql.SQL("REVOKE ALL ON FUNCTION {} FROM PUBLIC, {}").format(function, app))
        if name in functions:
            rows(sql.SQL("GRANT EXECUTE ON FUNCTION {} TO {}").format(function, app))


def grant_places(app: sql.Identifier) -> None:
    database = sql.Identifier(connections["owner"].settings_dict["NAME"])
    rows(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC, {}").format(database, app))
    rows(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, app))
    rows(sql.SQL("REVOKE ALL ON SCHEMA public FROM PUBLIC, {}").format(app))
    rows(sql.SQL("GRANT USAGE ON SCHEMA public TO {}").format(app))
    for kind in ("TABLES", "SEQUENCES", "FUNCTIONS"):
        rows(
            sql.SQL("ALTER DEFAULT PRIVILEGES REVOKE ALL ON {} FROM PUBLIC, {}").format(
                sql.SQL(kind),
                app,
            )
        )
