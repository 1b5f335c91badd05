"""The schedule, its lanes and the addresses of webhooks have the tenant in their keys, as every other table has."""

from __future__ import annotations

from typing import Any

from django.db import migrations, models

from ledger.migrations._primary_keys import put_tenant_first, tenant_key


def change_keys(apps: Any, schema_editor: Any) -> None:
    put_tenant_first(schema_editor, "reviews_schedule", "action_id")
    put_tenant_first(schema_editor, "reviews_lane", "system_id")
    put_tenant_first(schema_editor, "reviews_hook", "id")


class Migration(migrations.Migration):
    dependencies = [("reviews", "0007_readings_of_each_system")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(change_keys)],
            state_operations=[
                migrations.AddField("schedule", "pk", tenant_key("action_id")),
                migrations.AlterField("schedule", "action_id", models.UUIDField()),
                migrations.AddField("lane", "pk", tenant_key("system_id")),
                migrations.AlterField("lane", "system_id", models.UUIDField()),
                migrations.AddField("webhook", "pk", tenant_key("id")),
                migrations.AlterField("webhook", "id", models.UUIDField()),
            ],
        ),
        # What arrives at an address names no tenant.
        migrations.AddIndex("webhook", models.Index(fields=["id"], name="hook_by_address")),
    ]
