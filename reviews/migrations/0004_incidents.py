from __future__ import annotations

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("reviews", "0003_schedule_recheck")]
    operations = [
        migrations.AddField("incident", "severity", models.SmallIntegerField(default=2)),
        migrations.AddField("incident", "about", models.CharField(blank=True, default="", max_length=200), False),
        migrations.AddField("incident", "runbook", models.CharField(blank=True, default="", max_length=48), False),
        migrations.AddField("incident", "closing_note", models.TextField(blank=True, default=""), False),
        migrations.AddConstraint(
            "incident",
            models.CheckConstraint(
                condition=Q(severity__gte=1, severity__lte=4), name="incident_severity_is_one_of_four"
            ),
        ),
        migrations.AddConstraint(
            "incident",
            models.UniqueConstraint(
                fields=["tenant_id", "about"],
                condition=Q(state="OPEN") & ~Q(about=""),
                name="incident_one_open_per_cause",
            ),
        ),
        migrations.CreateModel(
            "IncidentLink",
            [
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("incident_id", models.UUIDField()),
                ("kind", models.CharField(max_length=8)),
                ("subject_id", models.UUIDField()),
                ("at", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["tenant_id", "subject_id"], name="incident_link_by_subject")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=["tenant_id", "incident_id", "kind", "subject_id"], name="incident_link_once"
                    ),
                ],
            },
        ),
        migrations.RunSQL(
            "SELECT ledger_isolate('reviews_incidentlink'); SELECT ledger_make_append_only('reviews_incidentlink');",
            migrations.RunSQL.noop,
        ),
    ]
