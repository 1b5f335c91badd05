"""Until when everything that was recorded is in the metrics, whether anything happened or not."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("console", "0004_trace_cursor")]
    operations = [migrations.AddField("metriccursor", "counted_to", models.DateTimeField(null=True))]
