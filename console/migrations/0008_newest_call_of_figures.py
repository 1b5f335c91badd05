"""The survey of figures to count looks at the newest call and report alone."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("surveys.sql",)


class Migration(migrations.Migration):
    dependencies = [("console", "0007_moves")]
    operations = [migrations.RunSQL((FOLDER / name).read_text()) for name in FILES]
