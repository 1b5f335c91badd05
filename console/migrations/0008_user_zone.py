"""The time zone in which a person wants times."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("console", "0007_search_terms"),
    ]

    operations = [
        migrations.AddField(
            model_name="user",
            name="zone",
            field=models.CharField(db_default="", default="", max_length=64),
        ),
    ]
