from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ledger", "0014_exports")]
    operations = [
        migrations.CreateModel(
            name="Anchoring",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "log", "kind", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("log", models.IntegerField()),
                ("kind", models.CharField(max_length=8)),
                ("due_at", models.DateTimeField()),
                ("faults", models.JSONField(default=dict)),
            ],
        ),
        migrations.RunSQL("SELECT ledger_isolate('ledger_anchoring');", migrations.RunSQL.noop),
    ]
