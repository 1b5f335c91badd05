"""Deadlines have the tenant in their key, as every other table has."""

from __future__ import annotations

from typing import Any

from django.db import migrations, models

from ledger.migrations._primary_keys import put_tenant_first, tenant_key


def change_keys(apps: Any, schema_editor: Any) -> None:
    put_tenant_first(schema_editor, "approvals_due", "subject_id", "what")


class Migration(migrations.Migration):
    dependencies = [("approvals", "0011_release_locks")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(change_keys)],
            state_operations=[
                migrations.AddField("deadline", "pk", tenant_key("subject_id", "what")),
                migrations.AlterField("deadline", "id", models.BigIntegerField()),
            ],
        ),
        migrations.RemoveField("deadline", "id"),
        migrations.RemoveConstraint("deadline", "due_once_per_subject"),
    ]
