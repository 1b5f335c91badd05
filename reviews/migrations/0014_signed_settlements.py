from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("reviews", "0013_guard_log")]
    operations = [migrations.AddField("case", "proposed_statement", models.UUIDField(null=True))]
