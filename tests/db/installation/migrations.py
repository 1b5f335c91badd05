"""The migrations after the first version, judged by squawk: `make migrations` (docs/upgrades.md has the rules).

Their statements are collected as `sqlmigrate` does it, without a server.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import django
from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.migrations import Migration, RunPython
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ProjectState
from psycopg import sql

from console.telemetry import versions

BASELINE = {"ledger": 5, "approvals": 3, "reviews": 4, "console": 3}
"""The last migration of each app that is not judged: there was no version before it."""
SQUAWK = Path(sys.executable).with_name("squawk")
NOT_ASKED = (
    # `prepare_database` bounds every wait.
    "require-lock-timeout",
    "require-statement-timeout",
    # A migration that fails is rolled back, and an index that failed is removed before the next try.
    "prefer-robust-stmts",
    # Matters of taste, which the models settle.
    "prefer-text-field",
    "prefer-bigint-over-int",
    "prefer-bigint-over-smallint",
    "prefer-identity",
)
CONTRACT_MAY = (
    *("ban-drop-column", "ban-drop-table", "ban-drop-function", "ban-drop-trigger", "ban-drop-default"),
    *("ban-drop-not-null", "renaming-column", "renaming-table", "adding-not-nullable-field"),
)
"""The faults that a step which takes something away may have; it may not lock or rewrite a table for long either."""


def main() -> int:
    """Print what is wrong with the migrations after the baseline; return the exit code."""
    loader = MigrationLoader(None)
    judged, found = 0, []
    for (app, name), migration in sorted(loader.disk_migrations.items()):
        if app in BASELINE and int(name[:4]) > BASELINE[app]:
            judged += 1
            found += faults(migration, loader.project_state((app, name), at_end=False))
    sys.stdout.write("\n".join([*found, f"{judged} migrations, {len(found)} faults.\n"]))
    return 1 if found else 0


def faults(migration: Migration, state: ProjectState) -> list[str]:
    """One line for each fault of a migration that begins at this state."""
    return [*_house_faults(migration), *_squawk_faults(migration, _statements(migration, state))]


def _house_faults(migration: Migration) -> Iterator[str]:
    if any(isinstance(each, RunPython) for each in migration.operations):
        yield f"{migration}: rows are moved by a task or a command, not by a migration, which would hold its locks."
    if not migration.atomic and len(migration.operations) != 1:
        yield f"{migration}: what runs outside a transaction is alone in its migration, to be tried again."
    lowest = versions.lowest_minor([migration.name])
    if lowest >= versions.own_minor():
        yield f"{migration}: the version in its name must be an earlier one than the version that brings it."


def _statements(migration: Migration, state: ProjectState) -> str:
    # Values are bound here, since there may be no server to ask; the oldest is assumed.
    with (
        patch.object(connection.ops, "compose_sql", _bind),
        patch.dict(connections[DEFAULT_DB_ALIAS].__dict__, pg_version=150_000),
        connection.schema_editor(collect_sql=True, atomic=False) as editor,
    ):
        migration.apply(state, editor, collect_sql=True)
    return "\n".join(editor.collected_sql)


def _bind(text: str, values: Sequence[Any] | None) -> str:
    return text % tuple(sql.Literal(each).as_string(None) for each in values) if values else text


def _squawk_faults(migration: Migration, statements: str) -> Iterator[str]:
    takes_away = versions.lowest_minor([migration.name]) > (0, 0)
    excluded = NOT_ASKED + (CONTRACT_MAY if takes_away else ())
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{migration.app_label}.{migration.name}.sql"
        file.write_text(statements)
        words = [str(SQUAWK), "--reporter", "gcc", "--pg-version", "15", "--exclude", ",".join(excluded)]
        words += ["--assume-in-transaction"] if migration.atomic else []
        done = subprocess.run([*words, file.name], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        yield from (done.stdout + done.stderr).strip().splitlines()


if __name__ == "__main__":
    django.setup()
    sys.exit(main())
