"""Add to registrations that an agent has changing tools that do not pass the console."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("approvals", "0007_stopped_agents"),
    ]

    operations = [
        migrations.AddField(
            model_name="agentversion", name="acts_elsewhere", field=models.BooleanField(db_default=False, default=False)
        ),
    ]
