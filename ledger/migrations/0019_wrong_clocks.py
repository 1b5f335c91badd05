"""Hosts of workers whose clock was off when one of them last looked."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ledger", "0018_events_of_a_closed_log")]

    operations = [
        migrations.CreateModel(
            name="WrongClock",
            fields=[
                ("host", models.CharField(max_length=255, primary_key=True, serialize=False)),
                ("ahead_s", models.FloatField()),
                ("seen_at", models.DateTimeField()),
            ],
        ),
    ]
