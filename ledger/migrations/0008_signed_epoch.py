"""The signed epoch, in the record's database instead of a file."""

from __future__ import annotations

from pathlib import Path

import django.contrib.postgres.fields
from django.db import migrations, models

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("epoch.sql",)


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0007_maintenance"),
    ]

    operations = [
        migrations.CreateModel(
            name="SignedEpoch",
            fields=[
                ("one", models.BooleanField(default=True, primary_key=True, serialize=False)),
                ("number", models.IntegerField()),
                ("signatures", django.contrib.postgres.fields.ArrayField(base_field=models.BinaryField(), size=None)),
            ],
            options={
                "db_table": "ledger_epoch",
                "constraints": [models.CheckConstraint(condition=models.Q(("one", True)), name="epoch_is_one")],
            },
        ),
        *(migrations.RunSQL((FOLDER / name).read_text()) for name in FILES),
    ]
