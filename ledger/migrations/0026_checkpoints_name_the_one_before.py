"""Each checkpoint that is kept names the one before it, and the tip the newest: one that was taken away is missed."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ledger", "0025_weaker_waits")]
    operations = [
        migrations.AddField("checkpoint", "before", models.BigIntegerField(null=True)),
        migrations.AddField("tip", "kept_size", models.BigIntegerField(null=True)),
    ]
