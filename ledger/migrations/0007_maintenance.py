"""Maintenance of the whole installation, in which nothing starts."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations, models

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("maintenance.sql",)


class Migration(migrations.Migration):
    dependencies = [("ledger", "0006_installation_figures")]

    operations = [
        migrations.CreateModel(
            name="Maintenance",
            fields=[
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("reason", models.CharField(max_length=1000)),
                ("begun_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("ended_at",), name="maintenance_one_in_force", nulls_distinct=False)
                ]
            },
        ),
        *(migrations.RunSQL((FOLDER / name).read_text()) for name in FILES),
    ]
