"""A system's row names the description that a dry run has confirmed there."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ledger", "0002_functions_and_fences")]
    operations = [migrations.AddField("system", "tried", models.CharField(default="", max_length=64))]
