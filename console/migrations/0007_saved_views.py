from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("console", "0006_people"), ("ledger", "0002_the_record")]
    operations = [
        migrations.CreateModel(
            "SavedView",
            [
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("page", models.CharField(max_length=16)),
                ("name", models.CharField(max_length=60)),
                ("query", models.CharField(max_length=1000)),
                ("owner", models.UUIDField()),
                ("shared", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=["tenant_id", "page", "owner", "name"], name="saved_view_name_is_unique"
                    )
                ],
            },
        ),
        migrations.RunSQL("SELECT ledger_isolate('console_savedview');", migrations.RunSQL.noop),
    ]
