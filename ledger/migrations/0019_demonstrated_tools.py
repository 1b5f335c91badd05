from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ledger", "0018_one_gate")]
    operations = [
        migrations.AddIndex(
            model_name="action",
            index=models.Index(
                condition=models.Q(state="RECONCILED_SUCCESS"),
                fields=["tenant_id", "agent", "tool"],
                name="action_demonstrated",
            ),
        )
    ]
