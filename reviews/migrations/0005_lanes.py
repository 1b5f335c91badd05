from __future__ import annotations

from django.db import migrations, models
from django.db.models import Q

# What was scheduled before knows no system: it waits in its tenant's own lane until it is read next.
LANES = """
UPDATE reviews_schedule SET system_id = tenant_id, priority = least(greatest(priority, 0), 5);
INSERT INTO reviews_lane (system_id, tenant_id, concurrency, reads_per_minute)
SELECT DISTINCT tenant_id, tenant_id, 4, 6000 FROM reviews_schedule;
"""


class Migration(migrations.Migration):
    dependencies = [("reviews", "0004_incidents")]
    operations = [
        migrations.CreateModel(
            "Lane",
            [
                ("system_id", models.UUIDField(primary_key=True, serialize=False)),
                ("tenant_id", models.UUIDField()),
                ("concurrency", models.IntegerField()),
                ("reads_per_minute", models.IntegerField()),
                ("paid_until", models.DateTimeField(null=True)),
                ("held_until", models.DateTimeField(null=True)),
                ("pace_ms", models.IntegerField(null=True)),
                ("served_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            "Health",
            [
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "system_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("system_id", models.UUIDField()),
                ("reads", models.BigIntegerField(default=0)),
                ("unanswered", models.BigIntegerField(default=0)),
                ("failures", models.IntegerField(default=0)),
                ("latency_ms", models.IntegerField(null=True)),
                ("last_read_at", models.DateTimeField(null=True)),
                ("last_success_at", models.DateTimeField(null=True)),
                ("last_failure", models.CharField(blank=True, default="", max_length=300)),
                ("since", models.DateTimeField(null=True)),
                ("probe_at", models.DateTimeField(null=True)),
                ("cooldown_s", models.IntegerField(default=0)),
                ("stopped_at", models.DateTimeField(null=True)),
                ("stopped_because", models.CharField(blank=True, default="", max_length=1000)),
            ],
        ),
        migrations.RunSQL("SELECT ledger_isolate('reviews_health');", migrations.RunSQL.noop),
        migrations.AddField("schedule", "claim", models.UUIDField(null=True)),
        migrations.AddField("schedule", "asked_at", models.DateTimeField(null=True)),
        migrations.AddField("schedule", "system_id", models.UUIDField(null=True)),
        migrations.RunSQL(LANES, migrations.RunSQL.noop),
        migrations.AlterField("schedule", "system_id", models.UUIDField()),
        migrations.AddConstraint(
            "schedule",
            models.CheckConstraint(condition=Q(priority__gte=0, priority__lte=5), name="schedule_priority_is_a_class"),
        ),
        migrations.AddIndex(
            "schedule",
            models.Index(fields=["tenant_id", "system_id", "priority", "due_at"], name="schedule_by_turn"),
        ),
        migrations.AddIndex(
            "schedule",
            models.Index(
                fields=["tenant_id", "system_id"], condition=Q(claim__isnull=False), name="schedule_in_flight"
            ),
        ),
        # Every row is written anew at each reading: what is dead must go while the table is small.
        migrations.RunSQL(
            "ALTER TABLE reviews_schedule SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02,"
            " autovacuum_vacuum_threshold = 1000);",
            migrations.RunSQL.noop,
        ),
    ]
