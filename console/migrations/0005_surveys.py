"""The surveys: which tenants have work, asked once for all of them."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations, models

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("surveys.sql",)


class Migration(migrations.Migration):
    dependencies = [
        ("console", "0004_search_terms_name_their_key"),
        ("approvals", "0005_surveys"),
        ("reviews", "0006_surveys"),
    ]
    operations = [
        migrations.AddField("metriccursor", "seen", models.BigIntegerField(null=True)),
        migrations.AddField("noticecursor", "seen", models.BigIntegerField(null=True)),
        migrations.AddField("searchcursor", "seen", models.BigIntegerField(null=True)),
        *(migrations.RunSQL((FOLDER / name).read_text()) for name in FILES),
    ]
