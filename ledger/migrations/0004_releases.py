"""Releases of policies, and what a version needs to come in force (`ledger/sql/releases.sql`)."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations, models

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("releases.sql",)


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0003_action_search"),
    ]

    operations = [
        migrations.CreateModel(
            name="Release",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("kind", models.CharField(max_length=16)),
                ("version", models.CharField(max_length=64)),
                ("digest", models.CharField(max_length=64)),
                ("document", models.BinaryField()),
                ("basis", models.CharField(max_length=64)),
                ("state", models.CharField(max_length=16)),
                ("reason", models.CharField(max_length=1000)),
                ("canary", models.JSONField(null=True)),
                ("author", models.UUIDField()),
                ("first_by", models.UUIDField(null=True)),
                ("promoted_by", models.UUIDField(null=True)),
                ("created_at", models.DateTimeField()),
                ("changed_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="ReleaseGate",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "release_id",
                        "seq",
                        "gate",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("release_id", models.UUIDField()),
                ("seq", models.IntegerField()),
                ("gate", models.CharField(max_length=16)),
                ("passed", models.BooleanField()),
                ("summary", models.CharField(max_length=1000)),
                ("pointer", models.UUIDField()),
                ("by", models.UUIDField()),
                ("at", models.DateTimeField()),
            ],
        ),
        migrations.AddField(
            model_name="policyversion",
            name="canary",
            field=models.JSONField(null=True),
        ),
        migrations.AddField(
            model_name="policyversion",
            name="release_id",
            field=models.UUIDField(null=True),
        ),
        migrations.AddConstraint(
            model_name="policyversion",
            constraint=models.UniqueConstraint(
                condition=models.Q(("canary__isnull", False)), fields=("tenant_id", "kind"), name="policy_one_canary"
            ),
        ),
        migrations.AddIndex(
            model_name="release",
            index=models.Index(fields=["tenant_id", "kind", "id"], name="release_by_kind"),
        ),
        *(migrations.RunSQL((FOLDER / name).read_text()) for name in ("transitions.sql", *FILES)),
    ]
