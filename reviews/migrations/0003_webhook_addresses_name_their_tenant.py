"""The address of a webhook names its tenant, so its row is looked up within that tenant alone."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("fences.sql",)


class Migration(migrations.Migration):
    dependencies = [("reviews", "0002_functions_and_fences")]

    operations = [
        migrations.RemoveIndex(model_name="webhook", name="hook_by_address"),
        *(migrations.RunSQL((FOLDER / name).read_text()) for name in FILES),
    ]
