"""Keep what the incremental metrics need: whether a call's tool failed, and what was counted of the last minute.

What was counted before says neither, so it goes: the next ticks count everything from the record.
"""

from __future__ import annotations

from django.apps.registry import Apps
from django.core.management.color import no_style
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

METRICS = ("metricaction", "metricrollup", "metricdelay", "metriccursor")


def empty_metrics(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    operations = schema_editor.connection.ops
    tables = [apps.get_model("console", name)._meta.db_table for name in METRICS]
    operations.execute_sql_flush(operations.sql_flush(no_style(), tables))


class Migration(migrations.Migration):
    dependencies = [
        ("console", "0015_prices_and_budgets"),
    ]

    operations = [
        migrations.RunPython(empty_metrics, migrations.RunPython.noop),
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
