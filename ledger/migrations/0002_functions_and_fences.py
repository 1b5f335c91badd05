"""What the database itself does and forbids, as `ledger/sql` has it, in the order in which the files need each other.

Each file may be run again at any time and ends with what stands in it. None switches a fence off to rewrite rows.

- A function or a line changes: change its file, and add a migration that runs that file again.
- A table is new: its migration makes it and then runs a file of its own, which says whose rows these are, what never
  changes and what erasing leaves empty. The files above are run before that table is there, so they cannot name it.
"""

from __future__ import annotations

from pathlib import Path

from django.db import migrations

FOLDER = Path(__file__).parents[1] / "sql"
FILES = (
    "tenancy.sql",
    "fences.sql",
    "transitions.sql",
    "events.sql",
    "partitions.sql",
    "lock.sql",
    "append.sql",
    "gate.sql",
    "tables.sql",
    "log.sql",
    "people.sql",
    "retention.sql",
    "erasure.sql",
    "sizes.sql",
    "search.sql",
    "releases.sql",
)


class Migration(migrations.Migration):
    dependencies = [("ledger", "0001_tables")]
    operations = [migrations.RunSQL((FOLDER / name).read_text()) for name in FILES]
