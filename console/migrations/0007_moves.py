"""The fence that holds a tenant's rows while it is moved to another installation."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("moves.sql",)


class Migration(migrations.Migration):
    dependencies = [("console", "0006_off_boarding_proposals"), ("ledger", "0013_moves")]
    operations = [
        *(migrations.RunSQL((FOLDER / name).read_text()) for name in FILES),
    ]
