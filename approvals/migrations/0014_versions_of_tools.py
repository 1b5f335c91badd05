from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("approvals", "0013_misdeeds_counted")]
    operations = [
        migrations.AddField(
            model_name="agentversion",
            name="versions",
            field=models.JSONField(db_default={}, default=dict),
        ),
    ]
