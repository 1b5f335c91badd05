"""A key names its tenant, so none is looked up by its hash alone."""

from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("console", "0002_functions_and_fences")]

    operations = [migrations.RemoveIndex(model_name="apikey", name="api_key_by_hash")]
