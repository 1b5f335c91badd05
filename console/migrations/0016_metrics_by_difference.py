"""Keep what the incremental metrics need: whether a call's tool failed, and what was counted of the last minute."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("console", "0015_prices_and_budgets"),
    ]

    operations = [
        migrations.AddField(
            model_name="metricaction",
            name="call_failed",
            field=models.IntegerField(default=0, db_default=0),
        ),
        migrations.AddField(
            model_name="metriccursor",
            name="recent_calls",
            field=models.JSONField(default=list),
        ),
    ]
