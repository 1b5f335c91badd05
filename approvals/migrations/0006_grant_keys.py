"""The keys that sign grants, as rows that every host reads."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations, models
from django.db.models import Q

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("grant_keys.sql",)


class Migration(migrations.Migration):
    dependencies = [("approvals", "0005_surveys")]
    operations = [
        migrations.CreateModel(
            name="GrantKeyChange",
            fields=[
                ("number", models.IntegerField(primary_key=True, serialize=False)),
                ("id", models.UUIDField(unique=True)),
                ("kid", models.CharField(max_length=64)),
                ("kind", models.CharField(max_length=10)),
                ("at", models.DateTimeField()),
                ("key_id", models.UUIDField(null=True)),
                ("sealed", models.BinaryField(null=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("kid", "kind"), name="grant_key_changes_once"),
                    models.CheckConstraint(
                        condition=Q(("key_id__isnull", False), ("kind", "introduced"), ("sealed__isnull", False))
                        | Q(("key_id__isnull", True), ("kind", "retired"), ("sealed__isnull", True)),
                        name="grant_key_is_sealed",
                    ),
                ],
            },
        ),
        *(migrations.RunSQL((FOLDER / name).read_text()) for name in FILES),
    ]
