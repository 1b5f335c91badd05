"""Triggers are given the name of the table that theirs is, or is a part of (`ledger/sql/fences.sql`)."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("fences.sql",)


class Migration(migrations.Migration):
    dependencies = [("ledger", "0021_tenant_in_every_function")]
    operations = [migrations.RunSQL((FOLDER / name).read_text()) for name in FILES]
