"""Destinations of events (`console/sql/event_destinations.sql`)."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations, models

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("event_destinations.sql",)
# The record's own file, once more: the transitions of destinations.
TRANSITIONS = Path(__file__).parents[2] / "ledger" / "sql" / "transitions.sql"


class Migration(migrations.Migration):
    dependencies = [
        ("console", "0008_user_zone"),
        ("ledger", "0008_failed_compensations"),
    ]
    operations = [
        migrations.CreateModel(
            name="EventDestination",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("name", models.CharField(max_length=64)),
                ("started_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
                ("log", models.IntegerField()),
                ("index", models.BigIntegerField()),
                ("sent", models.BigIntegerField(default=0)),
                ("refused", models.BigIntegerField(default=0)),
                ("sent_at", models.DateTimeField(null=True)),
                ("failures", models.IntegerField(default=0)),
                ("fault", models.CharField(default="", max_length=200)),
                ("retry_at", models.DateTimeField(null=True)),
                ("lease", models.UUIDField(null=True)),
                ("leased_until", models.DateTimeField(null=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("ended_at__isnull", True)),
                        fields=("tenant_id", "name"),
                        name="event_destination_once_by_name",
                    )
                ],
            },
        ),
        migrations.RunSQL(TRANSITIONS.read_text()),
        *(migrations.RunSQL((FOLDER / name).read_text()) for name in FILES),
    ]
