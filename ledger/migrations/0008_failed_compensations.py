"""Failed compensations are counted by an index (`ledger/sql/events.sql`)."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("events.sql",)


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0007_releases_of_contracts"),
    ]

    operations = [migrations.RunSQL((FOLDER / name).read_text()) for name in FILES]
