"""Add to runs the readings of each system, and to the schedule those that no run has told of yet."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("reviews", "0006_runs_have_an_event")]

    operations = [
        migrations.AddField(
            model_name="verificationrun", name="asked", field=models.JSONField(db_default={}, default=dict)
        ),
        migrations.AddField(model_name="schedule", name="unlisted", field=models.IntegerField(db_default=0, default=0)),
    ]
