"""Triggers that judge a row by what is in force let those of a tenant pass that is taken in from elsewhere."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("fences.sql", "releases.sql")


class Migration(migrations.Migration):
    dependencies = [("ledger", "0013_moves")]
    operations = [
        *(migrations.RunSQL((FOLDER / name).read_text()) for name in FILES),
    ]
