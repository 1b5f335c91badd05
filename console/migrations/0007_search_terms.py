"""What actions are found by beside their ids and targets (`console/sql/search.sql`)."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations, models

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("search.sql",)


class Migration(migrations.Migration):
    dependencies = [("console", "0006_alerts")]
    operations = [
        migrations.CreateModel(
            name="SearchCursor",
            fields=[
                ("tenant_id", models.UUIDField(primary_key=True, serialize=False)),
                ("read_to", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="SearchTerm",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "action_id",
                        "number",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("action_id", models.UUIDField()),
                ("number", models.SmallIntegerField()),
                ("term", models.CharField(db_collation="C", max_length=72)),
            ],
            options={
                "indexes": [models.Index(fields=["tenant_id", "term", "action_id"], name="search_term_by_word")],
            },
        ),
        *(migrations.RunSQL((FOLDER / name).read_text()) for name in FILES),
    ]
