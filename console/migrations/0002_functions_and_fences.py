"""What the database forbids in the tables of this app, as `console/sql` has it; see the same file of `ledger`."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations

FOLDER = Path(__file__).parents[1] / "sql"
FILES = (
    "fences.sql",
    "erasure.sql",
    "cache.sql",
    "metrics.sql",
    "traces.sql",
    "alerts.sql",
    "search.sql",
    "event_destinations.sql",
    "push_devices.sql",
    "names.sql",
    "costs.sql",
)


class Migration(migrations.Migration):
    dependencies = [("console", "0001_tables"), ("ledger", "0002_functions_and_fences")]
    operations = [migrations.RunSQL((FOLDER / name).read_text()) for name in FILES]
