"""Versions in force change one after another (`ledger/sql/releases.sql`)."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("releases.sql",)


class Migration(migrations.Migration):
    dependencies = [("ledger", "0009_retired_contracts")]

    operations = [migrations.RunSQL((FOLDER / name).read_text()) for name in FILES]
