from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("reviews", "0007_batches")]
    operations = [
        migrations.CreateModel(
            "Hook",
            [
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("tenant_id", models.UUIDField()),
                ("system_id", models.UUIDField()),
                ("created_at", models.DateTimeField()),
                ("revoked_at", models.DateTimeField(null=True)),
            ],
            options={"indexes": [models.Index(fields=["tenant_id", "system_id"], name="hook_by_system")]},
        ),
        migrations.CreateModel(
            "HookDelivery",
            [
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "hook_id",
                        "webhook_id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("hook_id", models.UUIDField()),
                ("webhook_id", models.CharField(max_length=256)),
                ("action_id", models.UUIDField(null=True)),
                ("at", models.DateTimeField()),
            ],
            options={"indexes": [models.Index(fields=["tenant_id", "at"], name="hook_delivery_by_time")]},
        ),
        migrations.RunSQL("SELECT ledger_isolate('reviews_hookdelivery');", migrations.RunSQL.noop),
    ]
