"""The surveys: which tenants have work, asked once for all of them."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("surveys.sql",)


class Migration(migrations.Migration):
    dependencies = [("ledger", "0009_survey_indexes")]
    operations = [
        *(migrations.RunSQL((FOLDER / name).read_text()) for name in FILES),
    ]
