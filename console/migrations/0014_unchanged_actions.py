"""Count executed actions that found nothing to change apart from those that a reading verified."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("console", "0013_names_in_normal_form"),
    ]

    operations = [
        migrations.AddField(
            model_name="metricaction",
            name="unchanged",
            field=models.IntegerField(default=0),
        ),
        migrations.AddField(
            model_name="metricrollup",
            name="unchanged",
            field=models.IntegerField(default=0),
        ),
    ]
