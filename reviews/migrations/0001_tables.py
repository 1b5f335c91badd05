"""The tables of reading back, cases and incidents, in their present form."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="ChangeLogPosition",
            fields=[
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
            options={
                "db_table": "reviews_watch",
            },
        ),
        migrations.CreateModel(
            name="Lane",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "system_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("system_id", models.UUIDField()),
                ("concurrency", models.IntegerField()),
                ("reads_per_minute", models.IntegerField()),
                ("paid_until", models.DateTimeField(null=True)),
                ("held_until", models.DateTimeField(null=True)),
                ("pace_ms", models.IntegerField(null=True)),
                ("served_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="ReadingCount",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "day",
                        "system_id",
                        "tool",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("day", models.DateField()),
                ("system_id", models.UUIDField()),
                ("tool", models.CharField(max_length=128)),
                ("readings", models.BigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="ReadingTotal",
            fields=[
                ("tenant_id", models.UUIDField(primary_key=True, serialize=False)),
                ("hour_from", models.DateTimeField(null=True)),
                ("in_hour", models.BigIntegerField(db_default=0)),
                ("day_from", models.DateTimeField(null=True)),
                ("in_day", models.BigIntegerField(db_default=0)),
            ],
        ),
        migrations.CreateModel(
            name="SystemHealth",
            fields=[
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
            options={
                "db_table": "reviews_health",
            },
        ),
        migrations.CreateModel(
            name="Batch",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("kind", models.CharField(max_length=16)),
                ("wanted", models.JSONField(default=dict)),
                ("state", models.CharField(max_length=12)),
                ("total", models.IntegerField()),
                ("started_by", models.UUIDField()),
                ("started_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("state", "RUNNING")), fields=["tenant_id", "id"], name="batch_running"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="BatchItem",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "batch_id", "number", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("batch_id", models.UUIDField()),
                ("number", models.IntegerField()),
                ("case_id", models.UUIDField()),
                ("state", models.CharField(max_length=8)),
                ("code", models.CharField(blank=True, max_length=48)),
                ("detail", models.CharField(blank=True, max_length=500)),
                ("at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("state", "WAITING")),
                        fields=["tenant_id", "batch_id", "number"],
                        name="batch_item_waiting",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("tenant_id", "batch_id", "case_id"), name="batch_has_a_case_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="Case",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("action_id", models.UUIDField(null=True)),
                ("state", models.CharField(max_length=16)),
                ("reason", models.CharField(max_length=48)),
                ("discrepancy", models.CharField(blank=True, max_length=32)),
                ("side_effect_class", models.CharField(max_length=32)),
                ("severity", models.SmallIntegerField()),
                ("tool", models.CharField(max_length=128)),
                ("target", models.CharField(max_length=512)),
                ("claimed_by", models.UUIDField(null=True)),
                ("claimed_at", models.DateTimeField(null=True)),
                ("proposed_resolution", models.CharField(blank=True, max_length=24)),
                ("proposed_reason", models.TextField(blank=True)),
                ("proposed_evidence", models.JSONField(default=list)),
                ("proposed_by", models.UUIDField(null=True)),
                ("proposed_statement", models.UUIDField(null=True)),
                ("snoozed_until", models.DateTimeField(null=True)),
                ("snooze_reason", models.TextField(blank=True)),
                ("resolution", models.CharField(blank=True, max_length=24)),
                ("opened_at", models.DateTimeField()),
                ("resolved_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["tenant_id", "state", "severity", "opened_at"], name="case_queue"),
                    models.Index(fields=["tenant_id", "target", "id"], name="case_by_target"),
                    models.Index(fields=["tenant_id", "action_id", "id"], name="case_by_action"),
                    models.Index(
                        models.F("tenant_id"),
                        models.OrderBy(models.F("severity"), descending=True),
                        models.F("opened_at"),
                        models.F("id"),
                        condition=models.Q(("state", "RESOLVED"), _negated=True),
                        name="case_waiting",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("state", "RESOLVED"), _negated=True),
                        fields=("tenant_id", "action_id"),
                        name="case_one_open_per_action",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Comment",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("subject_id", models.UUIDField()),
                ("author", models.UUIDField()),
                ("text", models.TextField()),
                ("at", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["tenant_id", "subject_id", "id"], name="comment_by_subject")],
            },
        ),
        migrations.CreateModel(
            name="GuardVerdict",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("session_id", models.UUIDField()),
                ("event_id", models.UUIDField()),
                ("verdict", models.CharField(max_length=8)),
                ("codes", models.JSONField()),
                ("tags", models.JSONField()),
                ("claims", models.JSONField()),
                ("records", models.JSONField()),
                ("message_hash", models.CharField(max_length=64)),
                ("pointer", models.UUIDField()),
                ("at", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["tenant_id", "session_id", "id"], name="guard_verdict_by_session")],
            },
        ),
        migrations.CreateModel(
            name="Incident",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("kind", models.CharField(max_length=12)),
                ("severity", models.SmallIntegerField(default=2)),
                ("title", models.CharField(max_length=300)),
                ("about", models.CharField(blank=True, max_length=200)),
                ("runbook", models.CharField(blank=True, max_length=48)),
                ("action_id", models.UUIDField(null=True)),
                ("state", models.CharField(max_length=16)),
                ("closing_note", models.TextField(blank=True)),
                ("opened_at", models.DateTimeField()),
                ("closed_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["tenant_id", "action_id"], name="incident_by_action"),
                    models.Index(
                        condition=models.Q(("state", "OPEN")),
                        fields=["tenant_id", "severity", "id"],
                        name="incident_open",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("kind__in", ["operations", "security"])), name="incident_kind_is_known"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("severity__gte", 1), ("severity__lte", 4)),
                        name="incident_severity_is_one_of_four",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("state", "OPEN"), models.Q(("about", ""), _negated=True)),
                        fields=("tenant_id", "about"),
                        name="incident_one_open_per_cause",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="IncidentLink",
            fields=[
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
                        fields=("tenant_id", "incident_id", "kind", "subject_id"), name="incident_link_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Observation",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("action_id", models.UUIDField()),
                ("attempt", models.IntegerField()),
                ("status", models.CharField(max_length=16)),
                ("claimed_success", models.BooleanField()),
                ("error_code", models.CharField(blank=True, max_length=64)),
                ("source", models.CharField(max_length=16)),
                ("late", models.BooleanField(default=False)),
                ("pointer", models.UUIDField()),
                ("raw_pointer", models.UUIDField(null=True)),
                ("at", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["tenant_id", "action_id", "id"], name="observation_by_action")],
            },
        ),
        migrations.CreateModel(
            name="Report",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("action_id", models.UUIDField()),
                ("event_id", models.UUIDField()),
                ("code", models.CharField(max_length=48)),
                ("text", models.TextField()),
                ("completed", models.BooleanField()),
                ("told_to", models.UUIDField()),
                ("at", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["tenant_id", "action_id", "id"], name="report_by_action")],
                "constraints": [
                    models.UniqueConstraint(fields=("tenant_id", "event_id", "told_to"), name="report_once_per_state")
                ],
            },
        ),
        migrations.CreateModel(
            name="Schedule",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "action_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("action_id", models.UUIDField()),
                ("system_id", models.UUIDField()),
                ("due_at", models.DateTimeField()),
                ("claimed_until", models.DateTimeField(null=True)),
                ("claim", models.UUIDField(null=True)),
                ("asked_at", models.DateTimeField(null=True)),
                ("priority", models.SmallIntegerField(default=0)),
                ("readings", models.IntegerField(default=0)),
                ("unlisted", models.IntegerField(db_default=0, default=0)),
                ("opened_at", models.DateTimeField()),
                ("recheck", models.SmallIntegerField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["due_at"], name="schedule_by_time"),
                    models.Index(fields=["tenant_id", "system_id", "priority", "due_at"], name="schedule_by_turn"),
                    models.Index(
                        condition=models.Q(("claim__isnull", False)),
                        fields=["tenant_id", "system_id"],
                        name="schedule_in_flight",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("priority__gte", 0), ("priority__lte", 5)),
                        name="schedule_priority_is_a_class",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="UngatedEffect",
            fields=[
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
                "db_table": "reviews_stray",
                "constraints": [
                    models.UniqueConstraint(fields=("tenant_id", "system_id", "place"), name="stray_once"),
                    models.UniqueConstraint(fields=("tenant_id", "case_id"), name="stray_by_case"),
                ],
            },
        ),
        migrations.CreateModel(
            name="VerificationRun",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("action_id", models.UUIDField()),
                ("number", models.IntegerField()),
                ("source", models.CharField(max_length=200)),
                ("consistency", models.CharField(max_length=16)),
                ("freshness", models.CharField(max_length=200)),
                ("result", models.CharField(max_length=24)),
                ("discrepancy", models.CharField(blank=True, max_length=32)),
                ("recovery_row", models.CharField(blank=True, max_length=8)),
                ("recovery_decision", models.CharField(blank=True, max_length=48)),
                ("pointer", models.UUIDField()),
                ("at", models.DateTimeField()),
                ("asked", models.JSONField(db_default={}, default=dict)),
            ],
            options={
                "db_table": "reviews_run",
                "constraints": [
                    models.UniqueConstraint(fields=("tenant_id", "action_id", "number"), name="run_is_numbered")
                ],
            },
        ),
        migrations.CreateModel(
            name="Webhook",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("system_id", models.UUIDField()),
                ("created_at", models.DateTimeField()),
                ("revoked_at", models.DateTimeField(null=True)),
            ],
            options={
                "db_table": "reviews_hook",
                "indexes": [
                    models.Index(fields=["id"], name="hook_by_address"),
                    models.Index(fields=["tenant_id", "system_id"], name="hook_by_system"),
                ],
            },
        ),
        migrations.CreateModel(
            name="WebhookDelivery",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "hook_id",
                        "webhook_id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("hook_id", models.UUIDField()),
                ("webhook_id", models.CharField(max_length=256)),
                ("action_id", models.UUIDField(null=True)),
                ("at", models.DateTimeField()),
            ],
            options={
                "db_table": "reviews_hookdelivery",
                "indexes": [models.Index(fields=["tenant_id", "at"], name="hook_delivery_by_time")],
            },
        ),
    ]
