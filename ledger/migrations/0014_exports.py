from __future__ import annotations

from django.db import migrations, models

LEGAL = [
    ("export", "", "REQUESTED"),
    ("export", "REQUESTED", "REQUESTED"),
    ("export", "REQUESTED", "FINISHED"),
    ("export", "REQUESTED", "FAILED"),
    ("export", "FINISHED", "FINISHED"),
    ("export", "FAILED", "FAILED"),
]
INSERT = "INSERT INTO ledger_transition (kind, from_state, to_state) VALUES " + ", ".join(
    f"('{kind}', '{start}', '{target}')" for kind, start, target in LEGAL
)


class Migration(migrations.Migration):
    dependencies = [("ledger", "0013_erasure")]
    operations = [
        migrations.CreateModel(
            name="Export",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("state", models.CharField(max_length=16)),
                ("wanted", models.JSONField()),
                ("event_id", models.UUIDField()),
                ("requested_by", models.UUIDField()),
                ("requester_kind", models.CharField(max_length=20)),
                ("requested_at", models.DateTimeField()),
                ("log", models.IntegerField(default=0)),
                ("start", models.BigIntegerField(default=0)),
                ("end", models.BigIntegerField(default=0)),
                ("done", models.BigIntegerField(default=0)),
                ("chunks", models.IntegerField(default=0)),
                ("withheld", models.BigIntegerField(default=0)),
                ("size", models.BigIntegerField(null=True)),
                ("sha256", models.CharField(default="", max_length=64)),
                ("reason", models.CharField(default="", max_length=1000)),
                ("finished_at", models.DateTimeField(null=True)),
                ("expires_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["tenant_id", "state", "id"], name="export_by_state")],
            },
        ),
        migrations.RunSQL("SELECT ledger_isolate('ledger_export');", migrations.RunSQL.noop),
        migrations.RunSQL(INSERT, migrations.RunSQL.noop),
    ]
