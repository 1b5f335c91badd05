"""Prepare the database for a release: migrate as its owner, then grant each role its rights.

Runs as the role of DATABASE_OWNER_URL, on an embedded or an outside server, and grants to the role of DATABASE_URL and
to the others of `console/local/rights.py`. It may be run again at any time, also while all processes work: it ends with
exactly the rights written there. A database that a later version has prepared only gets its next partitions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.utils import OperationalError
from psycopg import sql

from console.local import lock_waits
from console.local import rights as rights_local
from console.local.rights import APP_RIGHTS, AUDITOR_RIGHTS, ERASER_RIGHTS, SEQUENCER_RIGHTS, TABLES, RoleRights
from console.telemetry import versions
from ledger.management.commands.migrate import adopt_earlier_tables

PARTITIONS_AHEAD_MONTHS = 3


class Command(BaseCommand):
    help = "Migrate as DATABASE_OWNER_URL, prepare the key database and grant each role exactly its rights."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--wait-s",
            type=float,
            default=lock_waits.GIVE_UP_AFTER_S,
            help="how long a change is tried again while others hold what it needs",
        )

    def handle(
        self, *args: Any, verbosity: int = 1, wait_s: float = lock_waits.GIVE_UP_AFTER_S, **options: Any
    ) -> None:
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
        say = self.stdout.write if verbosity else _be_silent

        def change(work: Callable[[], object]) -> None:
            connections["owner"].ensure_connection()
            session = connections["owner"].connection
            lock_waits.change_in_short_waits(session, work, say=say, give_up_after_s=wait_s)

        change(lambda: adopt_earlier_tables(connections["owner"]))
        later = later_migrations()
        rights_local.prepare_key_database(say=say, wait_s=wait_s)
        if not later:
            # Each migration is one change: what was applied stays so, and a further try goes on behind it.
            change(
                lambda: call_command("migrate", database="owner", interactive=False, verbosity=max(verbosity - 1, 0))
            )
        change(ensure_partitions)
        if later:
            say(f"A later version has prepared this database ({', '.join(later)}). Only partitions were added.")
            return
        change(lambda: grant_all(roles))
        say(f"The database is ready for {role}.")


def _be_silent(_: str) -> None:
    pass


def later_migrations() -> list[str]:
    """The migrations of a later version that have run beside all of this one's; refuse one that excludes this one."""
    loader = MigrationLoader(connections["owner"])
    ours = {app for app, _ in loader.disk_migrations}
    applied = set(loader.applied_migrations)
    later = sorted((app, name) for app, name in applied - loader.disk_migrations.keys() if app in ours)
    lowest = versions.lowest_minor(name for _, name in later)
    if lowest > versions.own_minor():
        raise CommandError(f"The database is {versions.exclusion(lowest)} Nothing was changed.")
    return [f"{app}.{name}" for app, name in later] if applied >= loader.disk_migrations.keys() else []


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


def grant_all(roles: dict[str, RoleRights]) -> None:
    for each, rights in roles.items():
        grant(each, rights)


def grant(role: str, rights: RoleRights) -> None:
    """Revoke everything, then grant the listed rights: each table and function in a transaction of its own.

    In one transaction for all, whatever looks at a table's size (the sequencer does) would wait for the last of them.
    """
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
        with transaction.atomic(using="owner"):
            rows(sql.SQL("REVOKE ALL ON TABLE {} FROM PUBLIC, {}").format(sql.Identifier(name), app))
            if words := rights.tables.get(name):
                listed = sql.SQL(", ").join(sql.SQL(word) for word in words)
                rows(sql.SQL("GRANT {} ON TABLE {} TO {}").format(listed, sql.Identifier(name), app))
    grant_functions(app, rights.functions)
    with transaction.atomic(using="owner"):
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
        with transaction.atomic(using="owner"):
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
