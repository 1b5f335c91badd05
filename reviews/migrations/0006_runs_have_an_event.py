"""The row of a verification run is stored together with the event that lists it (`reviews/sql/runs.sql`)."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("runs.sql",)


class Migration(migrations.Migration):
    dependencies = [("reviews", "0005_reports_and_cases_of_actions")]

    operations = [migrations.RunSQL((FOLDER / name).read_text()) for name in FILES]
