"""Requests to off-board a tenant, among the proposals that end."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("surveys.sql",)


class Migration(migrations.Migration):
    dependencies = [("console", "0005_surveys")]
    operations = [
        *(migrations.RunSQL((FOLDER / name).read_text()) for name in FILES),
    ]
