"""Up to where the spans of a tenant have gone to the collector."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("console", "0003_metrics")]
    operations = [
        migrations.CreateModel(
            name="TraceCursor",
            fields=[
                ("tenant_id", models.UUIDField(primary_key=True, serialize=False)),
                ("log", models.IntegerField()),
                ("index", models.BigIntegerField()),
                ("reports_to", models.DateTimeField()),
            ],
        ),
        migrations.RunSQL("SELECT ledger_isolate('console_tracecursor')"),
    ]
