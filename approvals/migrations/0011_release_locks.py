"""The locks of a release, taken in one statement (`sql/steps.sql`)."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("steps.sql",)


class Migration(migrations.Migration):
    dependencies = [("approvals", "0010_time_boxed_passes")]

    operations = [migrations.RunSQL((FOLDER / name).read_text()) for name in FILES]
