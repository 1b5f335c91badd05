"""Repeats are refused for a time after a person's word; what was accepted as it is stands apart (`ledger/sql/`)."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations, models

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("phases.sql", "append.sql")


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0014_process_lease"),
    ]

    operations = [
        *(migrations.RunSQL((FOLDER / name).read_text()) for name in FILES),
        migrations.RemoveIndex(
            model_name="action",
            name="action_may_still_happen",
        ),
        migrations.AddIndex(
            model_name="action",
            index=models.Index(
                condition=models.Q(
                    ("blocks_until__isnull", False),
                    ("mutating", True),
                    ("phase__in", ["FAILED", "RECONCILED_SUCCESS"]),
                ),
                fields=["tenant_id", "operation_key", "blocks_until"],
                name="action_blocked_for_a_time",
            ),
        ),
    ]
