"""The database knows the epoch that it was last accepted under, and which logs the sequencer has stopped."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ledger", "0015_repeats_of_attested_actions")]

    operations = [
        migrations.AddField(model_name="tenant", name="epoch", field=models.IntegerField(null=True)),
        migrations.AddField(model_name="tenant", name="restored_at", field=models.DateTimeField(null=True)),
        migrations.AddField(
            model_name="logtip", name="stopped", field=models.CharField(blank=True, default="", max_length=40)
        ),
    ]
