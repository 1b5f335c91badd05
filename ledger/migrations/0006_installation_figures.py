"""Workers note when a task ended, and what waits for people in all tenants is counted in one statement."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations, models

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("concerns.sql",)


class Migration(migrations.Migration):
    dependencies = [("ledger", "0005_steps_of_claims")]
    operations = [
        migrations.CreateModel(
            name="TaskRun",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "task", "host", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("task", models.CharField(max_length=64)),
                ("host", models.CharField(max_length=255)),
                ("ended_at", models.DateTimeField()),
                ("took_s", models.FloatField()),
            ],
        ),
        *(migrations.RunSQL((FOLDER / name).read_text()) for name in FILES),
    ]
