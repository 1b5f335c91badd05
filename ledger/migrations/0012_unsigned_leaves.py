"""The entries without a signature and the newest anchor, among what is counted over all tenants."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("concerns.sql",)


class Migration(migrations.Migration):
    dependencies = [("ledger", "0011_anchors_by_time")]
    operations = [
        *(migrations.RunSQL((FOLDER / name).read_text()) for name in FILES),
    ]
