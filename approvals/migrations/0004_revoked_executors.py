"""An executor can be revoked: it claims and starts nothing until it is registered again."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("approvals", "0003_standing_approvals")]

    operations = [
        migrations.AddField(model_name="executor", name="revoked_at", field=models.DateTimeField(null=True)),
    ]
