"""The approvals of an action are found by an index."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("approvals", "0004_revoked_executors"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="approval",
            index=models.Index(fields=["tenant_id", "action_id", "id"], name="approval_by_action"),
        ),
    ]
