from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("approvals", "0008_what_starts_rest_on"),
    ]

    operations = [
        migrations.CreateModel(
            name="Attention",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "approval_id",
                        "actor_id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("approval_id", models.UUIDField()),
                ("actor_id", models.UUIDField()),
                ("payload_bytes", models.IntegerField()),
                ("served_at", models.DateTimeField()),
                ("visible_s", models.FloatField(null=True)),
                ("opened", models.JSONField(null=True)),
                ("reported_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["tenant_id", "served_at"], name="attention_by_age")],
            },
        ),
        migrations.RunSQL("SELECT ledger_isolate('approvals_attention');", migrations.RunSQL.noop),
    ]
