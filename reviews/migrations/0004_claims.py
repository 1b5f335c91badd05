"""Claims, their fences, and their places in the schedule."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations, models

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("claims.sql", "erasure.sql")


class Migration(migrations.Migration):
    dependencies = [
        ("reviews", "0003_webhook_addresses_name_their_tenant"),
        ("ledger", "0005_steps_of_claims"),
    ]

    operations = [
        migrations.AddField(
            model_name="schedule",
            name="is_claim",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.CreateModel(
            name="UngatedClaim",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("system_id", models.UUIDField()),
                ("system", models.CharField(max_length=128)),
                ("effect", models.CharField(max_length=64)),
                ("operation", models.CharField(blank=True, max_length=200)),
                ("target", models.CharField(blank=True, max_length=512)),
                ("said_by", models.CharField(max_length=200)),
                ("made_by", models.UUIDField()),
                ("document", models.UUIDField()),
                ("made_at", models.DateTimeField()),
                ("state", models.CharField(max_length=12)),
                ("reached_by", models.CharField(max_length=32)),
                ("changed_at", models.DateTimeField()),
                ("result", models.CharField(blank=True, max_length=24)),
                ("discrepancy", models.CharField(blank=True, max_length=32)),
                ("pointer", models.UUIDField(null=True)),
                ("read_at", models.DateTimeField(null=True)),
                ("case_id", models.UUIDField(null=True)),
            ],
            options={
                "db_table": "reviews_claim",
                "indexes": [
                    models.Index(fields=["tenant_id", "state", "id"], name="claim_by_state"),
                    models.Index(fields=["tenant_id", "made_by", "id"], name="claim_by_maker"),
                    models.Index(
                        condition=models.Q(("case_id__isnull", False)),
                        fields=["tenant_id", "case_id"],
                        name="claim_by_case",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["OPEN", "VERIFIED", "DIFFERENT", "ABSENT", "UNKNOWN"])),
                        name="claim_state_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("state", "OPEN"), ("pointer__isnull", False), _connector="OR"),
                        name="claim_is_settled_by_a_reading",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state", "VERIFIED"), _negated=True), ("result", "SUCCESS"), _connector="OR"
                        ),
                        name="claim_verified_by_success",
                    ),
                ],
            },
        ),
        *(migrations.RunSQL((FOLDER / name).read_text()) for name in FILES),
    ]
