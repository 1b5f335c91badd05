from __future__ import annotations

from django.db import migrations, models
from django.db.models import Q

TABLES = ("reviews_batch", "reviews_batchitem")


def key(*columns: str) -> tuple[str, models.CompositePrimaryKey]:
    return "pk", models.CompositePrimaryKey(*columns, blank=True, editable=False, primary_key=True, serialize=False)


class Migration(migrations.Migration):
    dependencies = [("reviews", "0006_casework"), ("ledger", "0008_batches")]
    operations = [
        migrations.CreateModel(
            "Batch",
            [
                key("tenant_id", "id"),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("kind", models.CharField(max_length=16)),
                ("wanted", models.JSONField(default=dict)),
                ("state", models.CharField(max_length=12)),
                ("total", models.IntegerField()),
                ("started_by", models.UUIDField()),
                ("started_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["tenant_id", "id"], condition=Q(state="RUNNING"), name="batch_running")
                ]
            },
        ),
        migrations.CreateModel(
            "BatchItem",
            [
                key("tenant_id", "batch_id", "number"),
                ("tenant_id", models.UUIDField()),
                ("batch_id", models.UUIDField()),
                ("number", models.IntegerField()),
                ("case_id", models.UUIDField()),
                ("state", models.CharField(max_length=8)),
                ("code", models.CharField(blank=True, max_length=48)),
                ("detail", models.CharField(blank=True, max_length=500)),
                ("at", models.DateTimeField(null=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=["tenant_id", "batch_id", "case_id"], name="batch_has_a_case_once")
                ],
                "indexes": [
                    models.Index(
                        fields=["tenant_id", "batch_id", "number"],
                        condition=Q(state="WAITING"),
                        name="batch_item_waiting",
                    )
                ],
            },
        ),
        migrations.RunSQL("".join(f"SELECT ledger_isolate('{table}');" for table in TABLES), migrations.RunSQL.noop),
    ]
