"""Whether a person has hidden the way to a first tool on Home."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("console", "0010_push_devices"),
    ]

    operations = [
        migrations.AddField(
            model_name="user",
            name="hides_guide",
            field=models.BooleanField(db_default=False, default=False),
        ),
    ]
