"""The action that replaces another is found by an index."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0010_locked_versions"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="action",
            index=models.Index(
                condition=models.Q(("supersedes__isnull", False)),
                fields=["tenant_id", "supersedes", "id"],
                name="action_by_superseded",
            ),
        ),
    ]
