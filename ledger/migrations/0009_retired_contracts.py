"""A contract version can be retired, and a tool that was is no new one (`ledger/sql/releases.sql`)."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("transitions.sql", "releases.sql")


class Migration(migrations.Migration):
    dependencies = [("ledger", "0008_failed_compensations")]

    operations = [migrations.RunSQL((FOLDER / name).read_text()) for name in FILES]
