"""The two queues of the record have the tenant in their keys, as every other table has."""

from __future__ import annotations

from typing import Any

from django.db import migrations, models

from ledger.migrations._primary_keys import put_tenant_first, tenant_key


def change_keys(apps: Any, schema_editor: Any) -> None:
    put_tenant_first(schema_editor, "ledger_order", "event_id")
    put_tenant_first(schema_editor, "ledger_pending", "position")


class Migration(migrations.Migration):
    dependencies = [("ledger", "0019_wrong_clocks")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(change_keys)],
            state_operations=[
                migrations.AddField("recoveryorder", "pk", tenant_key("event_id")),
                migrations.AlterField("recoveryorder", "event_id", models.UUIDField()),
                migrations.AddField("queuedevent", "pk", tenant_key("position")),
                # The database goes on drawing it from its sequence.
                migrations.AlterField("queuedevent", "position", models.BigIntegerField()),
            ],
        ),
    ]
