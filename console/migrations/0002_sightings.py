from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("console", "0001_initial"), ("ledger", "0002_the_record")]
    operations = [
        migrations.CreateModel(
            "Sighting",
            [
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("actor_id", models.UUIDField()),
                ("kind", models.CharField(max_length=12)),
                ("thing_id", models.UUIDField()),
                ("about_id", models.UUIDField(null=True)),
                ("slot", models.DateTimeField()),
                ("at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=["tenant_id", "actor_id", "thing_id", "slot"], name="sighting_once_in_a_while"
                    )
                ],
                "indexes": [
                    models.Index(fields=["tenant_id", "actor_id", "id"], name="sighting_by_person"),
                    models.Index(fields=["tenant_id", "thing_id", "id"], name="sighting_by_thing"),
                    models.Index(fields=["tenant_id", "about_id", "id"], name="sighting_by_about"),
                ],
            },
        ),
        migrations.RunSQL(
            "SELECT ledger_isolate('console_sighting'); SELECT ledger_make_append_only('console_sighting');",
            migrations.RunSQL.noop,
        ),
    ]
