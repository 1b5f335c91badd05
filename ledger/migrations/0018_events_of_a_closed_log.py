"""An event for a log that a restore closed is refused as something to try again (`ledger/sql/`)."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("append.sql",)


class Migration(migrations.Migration):
    dependencies = [("ledger", "0017_people_behind_accounts")]

    operations = [migrations.RunSQL((FOLDER / name).read_text()) for name in FILES]
