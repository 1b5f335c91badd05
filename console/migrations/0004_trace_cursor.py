"""Up to where the spans of a tenant have gone to the collector (`console/sql/traces.sql`)."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations, models

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("traces.sql",)


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
        *(migrations.RunSQL((FOLDER / name).read_text()) for name in FILES),
    ]
