from __future__ import annotations

from typing import Any

from django.db import migrations, models
from django.db.models import F


def begin_waiting(apps: Any, schema_editor: Any) -> None:
    orders = apps.get_model("ledger", "Order").objects.using(schema_editor.connection.alias)
    orders.update(due_at=F("placed_at"))


class Migration(migrations.Migration):
    dependencies = [("ledger", "0006_orders")]
    operations = [
        migrations.RemoveIndex(model_name="order", name="order_by_time"),
        migrations.AddField(model_name="order", name="due_at", field=models.DateTimeField(null=True)),
        migrations.AddField(model_name="order", name="proposed", field=models.BooleanField(default=False)),
        migrations.RunPython(begin_waiting, migrations.RunPython.noop),
        migrations.AlterField(model_name="order", name="due_at", field=models.DateTimeField()),
        migrations.AddIndex(
            model_name="order", index=models.Index(fields=["proposed", "due_at"], name="order_by_time")
        ),
    ]
