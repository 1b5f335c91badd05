"""Keep what the incremental metrics need: whether a call's tool failed, and what was counted of the last minute.

What was counted before says neither, so it goes: the next ticks count everything from the record.
"""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("console", "0015_prices_and_budgets"),
    ]

    operations = [
        migrations.RunSQL(
            "TRUNCATE console_metricaction, console_metricrollup, console_metricdelay, console_metriccursor"
        ),
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
