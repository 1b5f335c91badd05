"""The cases about a target are found by an index."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("reviews", "0003_incident_open"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="case",
            index=models.Index(fields=["tenant_id", "target", "id"], name="case_by_target"),
        ),
    ]
