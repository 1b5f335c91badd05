"""A version of a contract that changes what is verified comes in force by release (`ledger/sql/releases.sql`)."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations, models

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("releases.sql",)


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0006_releases_of_every_policy"),
    ]

    operations = [
        migrations.AddField(
            model_name="contractversion",
            name="release_id",
            field=models.UUIDField(null=True),
        ),
        migrations.AddField(
            model_name="release",
            name="tool",
            field=models.CharField(db_default="", default="", max_length=128),
        ),
        *(migrations.RunSQL((FOLDER / name).read_text()) for name in ("transitions.sql", *FILES)),
    ]
