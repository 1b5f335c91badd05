from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("reviews", "0008_hooks")]
    operations = [
        migrations.AlterField("case", "action_id", models.UUIDField(null=True)),
        migrations.CreateModel(
            "Watch",
            [
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "system_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("system_id", models.UUIDField()),
                ("begun", models.CharField(max_length=200)),
                ("mark", models.CharField(max_length=200)),
                ("read_at", models.DateTimeField()),
                ("failure", models.CharField(blank=True, max_length=300)),
            ],
        ),
        migrations.CreateModel(
            "Stray",
            [
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("system_id", models.UUIDField()),
                ("place", models.CharField(max_length=200)),
                ("case_id", models.UUIDField()),
                ("pointer", models.UUIDField()),
                ("at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=["tenant_id", "system_id", "place"], name="stray_once"),
                    models.UniqueConstraint(fields=["tenant_id", "case_id"], name="stray_by_case"),
                ]
            },
        ),
        migrations.RunSQL("SELECT ledger_isolate('reviews_watch');", migrations.RunSQL.noop),
        migrations.RunSQL("SELECT ledger_isolate('reviews_stray');", migrations.RunSQL.noop),
    ]
