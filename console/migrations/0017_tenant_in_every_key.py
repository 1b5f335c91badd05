"""Memberships and machines' keys have the tenant in their keys, as every other table has."""

from __future__ import annotations

from typing import Any

from django.db import migrations, models

from ledger.migrations._primary_keys import put_tenant_first, tenant_key


def change_keys(apps: Any, schema_editor: Any) -> None:
    put_tenant_first(schema_editor, "console_membership", "id")
    put_tenant_first(schema_editor, "console_apikey", "id")


class Migration(migrations.Migration):
    dependencies = [("console", "0016_metrics_by_difference")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(change_keys)],
            state_operations=[
                migrations.AddField("membership", "pk", tenant_key("id")),
                migrations.AlterField("membership", "id", models.UUIDField()),
                migrations.AddField("apikey", "pk", tenant_key("id")),
                migrations.AlterField("apikey", "id", models.UUIDField()),
            ],
        ),
        migrations.AlterField("membership", "actor_id", models.UUIDField()),
        migrations.AddConstraint(
            "membership",
            models.UniqueConstraint(fields=["tenant_id", "actor_id"], name="membership_one_per_actor"),
        ),
        migrations.AlterField("apikey", "hash", models.CharField(max_length=64)),
        migrations.AlterField("apikey", "actor_id", models.UUIDField()),
        migrations.AddConstraint(
            "apikey", models.UniqueConstraint(fields=["tenant_id", "hash"], name="api_key_one_per_hash")
        ),
        migrations.AddConstraint(
            "apikey", models.UniqueConstraint(fields=["tenant_id", "actor_id"], name="api_key_one_per_actor")
        ),
        # A request names its key and no tenant.
        migrations.AddIndex("apikey", models.Index(fields=["hash"], name="api_key_by_hash")),
    ]
