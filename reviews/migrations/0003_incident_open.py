"""What is open is found among what is over, at any size."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("reviews", "0002_fences"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="incident",
            index=models.Index(
                condition=models.Q(("state", "OPEN")), fields=["tenant_id", "severity", "id"], name="incident_open"
            ),
        ),
    ]
