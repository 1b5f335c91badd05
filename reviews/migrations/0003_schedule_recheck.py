from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("reviews", "0002_isolation")]
    operations = [migrations.AddField("schedule", "recheck", models.SmallIntegerField(null=True))]
