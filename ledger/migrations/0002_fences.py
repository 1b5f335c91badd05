"""What the database itself does and forbids, as `ledger/sql` has it, in the order in which the files need each other.

Each file may be run again at any time and ends with what stands in it. Whoever changes one adds a migration that runs
it again; none switches a fence off to rewrite rows.
"""

from __future__ import annotations

from pathlib import Path

from django.db import migrations

FOLDER = Path(__file__).parents[1] / "sql"
FILES = (
    "tenancy.sql",
    "fences.sql",
    "events.sql",
    "transitions.sql",
    "partitions.sql",
    "lock.sql",
    "append.sql",
    "gate.sql",
    "tables.sql",
    "log.sql",
    "retention.sql",
    "erasure.sql",
)


class Migration(migrations.Migration):
    dependencies = [("ledger", "0001_initial")]
    operations = [migrations.RunSQL((FOLDER / name).read_text()) for name in FILES]
