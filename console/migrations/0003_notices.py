from __future__ import annotations

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("console", "0002_sightings"), ("ledger", "0002_the_record")]
    operations = [
        migrations.CreateModel(
            "Notice",
            [
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("channel", models.CharField(max_length=8)),
                ("kind", models.CharField(max_length=32)),
                ("about_id", models.UUIDField()),
                ("raised_at", models.DateTimeField()),
                ("due_at", models.DateTimeField()),
                ("attempts", models.IntegerField(default=0)),
                ("sent_at", models.DateTimeField(null=True)),
                ("given_up_at", models.DateTimeField(null=True)),
                ("fault", models.CharField(default="", max_length=200)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=["tenant_id", "about_id", "channel"], name="notice_once_by_each_channel"
                    )
                ],
                "indexes": [
                    models.Index(
                        fields=["tenant_id", "due_at"],
                        condition=Q(sent_at__isnull=True, given_up_at__isnull=True),
                        name="notice_due",
                    )
                ],
            },
        ),
        migrations.RunSQL("SELECT ledger_isolate('console_notice');", migrations.RunSQL.noop),
    ]
