"""A system's row names the description that a dry run has confirmed there."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ledger", "0003_search_in_order")]
    operations = [migrations.AddField("system", "tried", models.CharField(default="", max_length=64))]
