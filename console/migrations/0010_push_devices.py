"""Devices that people want woken (`console/sql/push_devices.sql`)."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations, models

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("push_devices.sql",)


class Migration(migrations.Migration):
    dependencies = [
        ("console", "0009_event_destinations"),
    ]
    operations = [
        migrations.CreateModel(
            name="PushDevice",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("actor_id", models.UUIDField()),
                ("address", models.CharField(max_length=1000)),
                ("name", models.CharField(max_length=60)),
                ("added_at", models.DateTimeField()),
                ("reached_at", models.DateTimeField(null=True)),
                ("reached_by", models.UUIDField(null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["tenant_id", "actor_id"], name="push_device_by_person")],
                "constraints": [models.UniqueConstraint(fields=("tenant_id", "address"), name="push_device_once")],
            },
        ),
        *(migrations.RunSQL((FOLDER / name).read_text()) for name in FILES),
    ]
