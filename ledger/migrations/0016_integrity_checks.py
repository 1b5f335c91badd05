from __future__ import annotations

from django.db import migrations, models
from django.db.models import Q

STATES = ("RUNNING", "PAUSED", "CANCELLED", "HELD", "BROKEN")
MOVES = (
    ("", "RUNNING"),
    ("RUNNING", "PAUSED"),
    ("PAUSED", "RUNNING"),
    ("RUNNING", "CANCELLED"),
    ("PAUSED", "CANCELLED"),
    ("RUNNING", "HELD"),
    ("RUNNING", "BROKEN"),
    *((state, state) for state in STATES),
)
LEGAL = [("integrity", start, target) for start, target in MOVES]
INSERT = "INSERT INTO ledger_transition (kind, from_state, to_state) VALUES " + ", ".join(
    f"('{kind}', '{start}', '{target}')" for kind, start, target in LEGAL
)


class Migration(migrations.Migration):
    dependencies = [("ledger", "0015_anchoring")]
    operations = [
        migrations.CreateModel(
            "IntegrityCheck",
            [
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("state", models.CharField(max_length=12)),
                ("phase", models.CharField(max_length=8)),
                ("place", models.UUIDField()),
                ("log", models.IntegerField(default=1)),
                ("block", models.BigIntegerField(default=0)),
                ("carried", models.JSONField(default=dict)),
                ("expected", models.BigIntegerField()),
                ("subjects", models.BigIntegerField(default=0)),
                ("events", models.BigIntegerField(default=0)),
                ("evidence", models.BigIntegerField(default=0)),
                ("erased", models.BigIntegerField(default=0)),
                ("leaves", models.BigIntegerField(default=0)),
                ("finding", models.CharField(default="", max_length=1000)),
                ("started_by", models.UUIDField()),
                ("started_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=Q(state__in=["RUNNING", "PAUSED"]),
                        fields=["tenant_id"],
                        name="integrity_check_one_at_a_time",
                    )
                ]
            },
        ),
        migrations.RunSQL("SELECT ledger_isolate('ledger_integritycheck');", migrations.RunSQL.noop),
        migrations.RunSQL(INSERT, "DELETE FROM ledger_transition WHERE kind = 'integrity'"),
    ]
