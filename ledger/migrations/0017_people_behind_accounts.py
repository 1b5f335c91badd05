"""Two people are two humans, whichever accounts and keys they use (`ledger/sql/people.sql`)."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("people.sql", "retention.sql", "releases.sql")


class Migration(migrations.Migration):
    dependencies = [("ledger", "0016_epochs_and_stopped_logs")]

    operations = [migrations.RunSQL((FOLDER / name).read_text()) for name in FILES]
