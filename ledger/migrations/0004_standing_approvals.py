"""The transitions of standing approvals, and of approvals that pass under one; see `0002_fences`."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("transitions.sql",)


class Migration(migrations.Migration):
    dependencies = [("ledger", "0003_action_search")]
    operations = [migrations.RunSQL((FOLDER / name).read_text()) for name in FILES]
