"""The state of a move of a tenant to another installation, and the fence that holds its rows meanwhile."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations, models

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("moves.sql",)


class Migration(migrations.Migration):
    dependencies = [("ledger", "0012_unsigned_leaves")]
    operations = [
        migrations.AddField("tenant", "moving", models.CharField(max_length=8, default="", db_default="")),
        migrations.AddField("tenant", "move", models.JSONField(null=True)),
        *(migrations.RunSQL((FOLDER / name).read_text()) for name in FILES),
    ]
