"""Evidence is stored together with an event that commits to it (`ledger/sql/fences.sql`)."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("fences.sql",)


class Migration(migrations.Migration):
    dependencies = [("ledger", "0011_superseding_actions")]

    operations = [migrations.RunSQL((FOLDER / name).read_text()) for name in FILES]
