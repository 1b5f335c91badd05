"""Django's `migrate`, which leaves a database of the migrations before `0001_tables` as it is.

Their names are unknown now, so Django would make tables that are there already, or find its own apps' history wrong.
Where all of them have run, the tables are the same, and `prepare_database` only records that.
"""

from __future__ import annotations

from typing import Any

from django.contrib.postgres.operations import AddIndexConcurrently
from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations import Migration
from django.db.migrations.recorder import MigrationRecorder

TABLES = "0001_tables"
LAST_BEFORE_TABLES = {
    "ledger": "0022_triggers_know_their_table",
    "approvals": "0013_tenant_in_every_function",
    "reviews": "0008_tenant_in_every_key",
    "console": "0017_tenant_in_every_key",
}


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        self._alias = options["database"]
        if _earlier_migrations(MigrationRecorder(connections[options["database"]])):
            raise CommandError("The tables are those of an earlier version. Nothing was changed. Run prepare_database.")
        super().handle(*args, **options)

    def migration_progress_callback(self, action: str, migration: Any = None, fake: bool = False) -> None:
        if action == "apply_start" and not migration.atomic:
            self._bound = _lift_bound(connections[self._alias], migration)
        elif action == "apply_success" and not migration.atomic:
            with connections[self._alias].cursor() as cursor:
                cursor.execute("SELECT set_config('lock_timeout', %s, false)", [self._bound])
        super().migration_progress_callback(action, migration, fake)


def _lift_bound(connection: BaseDatabaseWrapper, migration: Migration) -> str:
    """Let an index wait for older transactions, since no writer waits for it, and remove what a failed try of it left.

    Returns the bound of other locks.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('lock_timeout'), set_config('lock_timeout', '0', false)")
        bound: str = cursor.fetchone()[0]
        for operation in migration.operations:
            if isinstance(operation, AddIndexConcurrently):
                name = operation.index.name
                cursor.execute("SELECT FROM pg_index WHERE indexrelid = to_regclass(%s) AND NOT indisvalid", [name])
                if cursor.rowcount:
                    cursor.execute(f"DROP INDEX CONCURRENTLY {connection.ops.quote_name(name)}")
    return bound


def adopt_earlier_tables(connection: BaseDatabaseWrapper) -> None:
    """Record `0001_tables` of each app where an earlier version's migrations have made these tables.

    Raises CommandError, and changes nothing, where some of those migrations have not run.
    """
    recorder = MigrationRecorder(connection)
    earlier = _earlier_migrations(recorder)
    if not earlier:
        return
    if not earlier >= set(LAST_BEFORE_TABLES.items()):
        raise CommandError(
            "The tables are those of an earlier version, and not of the last one before the migrations were replaced."
            ' Nothing was changed. docs/deploy.md, "From the migrations before `0001_tables`", has what can be done.'
        )
    with transaction.atomic(using=connection.alias):
        recorder.migration_qs.filter(app__in=LAST_BEFORE_TABLES).delete()
        for app in LAST_BEFORE_TABLES:
            recorder.record_applied(app, TABLES)


def _earlier_migrations(recorder: MigrationRecorder) -> set[tuple[str, str]]:
    """The recorded migrations of our apps, where they made the tables without `0001_tables`."""
    applied = {(app, name) for app, name in recorder.applied_migrations() if app in LAST_BEFORE_TABLES}
    return set() if ("ledger", TABLES) in applied else applied
