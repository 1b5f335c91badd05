"""Calls of models, as agents report them for their sessions."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations, models

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("usage.sql",)


class Migration(migrations.Migration):
    dependencies = [("approvals", "0008_agents_that_act_elsewhere")]

    operations = [
        migrations.CreateModel(
            name="ModelUsage",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("session_id", models.UUIDField()),
                ("agent_id", models.CharField(max_length=128)),
                ("model", models.CharField(max_length=128)),
                ("calls", models.IntegerField()),
                ("input_tokens", models.BigIntegerField(null=True)),
                ("output_tokens", models.BigIntegerField(null=True)),
                ("reference", models.CharField(max_length=128)),
                ("at", models.DateTimeField()),
            ],
        ),
        *(migrations.RunSQL((FOLDER / name).read_text()) for name in FILES),
    ]
