"""People let actions of some tools start for a while, although the record has gone back."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations, models

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("overrides.sql",)


class Migration(migrations.Migration):
    dependencies = [("approvals", "0005_approvals_of_actions"), ("ledger", "0016_epochs_and_stopped_logs")]

    operations = [
        migrations.CreateModel(
            name="StartOverride",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("log_id", models.UUIDField()),
                ("tools", models.JSONField()),
                ("reason", models.CharField(max_length=1000)),
                ("placed_by", models.UUIDField()),
                ("placed_at", models.DateTimeField()),
                ("ends_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
            ],
            options={"indexes": [models.Index(fields=["tenant_id", "ends_at"], name="start_override_by_end")]},
        ),
        *(migrations.RunSQL((FOLDER / name).read_text()) for name in FILES),
    ]
