"""The legal steps of a claim."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("transitions.sql",)


class Migration(migrations.Migration):
    dependencies = [("ledger", "0004_tried_descriptions")]

    operations = [migrations.RunSQL((FOLDER / name).read_text()) for name in FILES]
