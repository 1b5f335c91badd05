"""Standing approvals: what two persons agreed to, what passed under it, and the fences around both."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations, models

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("standing.sql",)
# The record's own file, once more: the transitions of standing approvals, and of approvals that pass under one.
TRANSITIONS = Path(__file__).parents[2] / "ledger" / "sql" / "transitions.sql"


class Migration(migrations.Migration):
    dependencies = [("approvals", "0002_fences"), ("ledger", "0002_fences")]

    operations = [
        migrations.AddField(
            model_name="approval",
            name="standing_id",
            field=models.UUIDField(null=True),
        ),
        migrations.CreateModel(
            name="StandingApproval",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("state", models.CharField(max_length=10)),
                ("agent", models.CharField(max_length=128)),
                ("tool", models.CharField(max_length=128)),
                ("target_kind", models.CharField(max_length=512)),
                ("currency", models.CharField(blank=True, max_length=3)),
                ("shape", models.JSONField()),
                ("shape_digest", models.CharField(max_length=64)),
                ("max_count", models.IntegerField()),
                ("max_minor", models.BigIntegerField(null=True)),
                ("ends_at", models.DateTimeField()),
                ("evidence", models.JSONField()),
                ("approvers", models.IntegerField()),
                ("policies", models.JSONField()),
                ("reason", models.TextField()),
                ("proposed_by", models.UUIDField()),
                ("proposed_person", models.UUIDField()),
                ("proposed_at", models.DateTimeField()),
                ("answered_by", models.UUIDField(null=True)),
                ("answered_person", models.UUIDField(null=True)),
                ("answered_at", models.DateTimeField(null=True)),
                ("used_count", models.IntegerField(default=0)),
                ("used_minor", models.BigIntegerField(default=0)),
                ("paused_at", models.DateTimeField(null=True)),
                ("pause_reason", models.CharField(blank=True, max_length=12)),
                ("pause_action", models.UUIDField(null=True)),
                ("case_id", models.UUIDField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                ("ended_because", models.CharField(blank=True, max_length=8)),
            ],
            options={
                "indexes": [models.Index(fields=["tenant_id", "state", "id"], name="standing_by_state")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["PROPOSED", "ACTIVE", "PAUSED", "DECLINED", "ENDED"])),
                        name="standing_state_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state", "ACTIVE"), _negated=True),
                            models.Q(
                                ("answered_by__isnull", False),
                                ("answered_person__isnull", False),
                                models.Q(("answered_by", models.F("proposed_by")), _negated=True),
                                models.Q(("answered_person", models.F("proposed_person")), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="standing_takes_two_persons",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("used_count__gte", 0),
                            ("used_count__lte", models.F("max_count")),
                            ("used_minor__gte", 0),
                            models.Q(
                                ("max_minor__isnull", True), ("used_minor__lte", models.F("max_minor")), _connector="OR"
                            ),
                        ),
                        name="standing_within_budget",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("state__in", ["PROPOSED", "ACTIVE", "PAUSED"])),
                        fields=("tenant_id", "agent", "tool", "target_kind", "currency"),
                        name="standing_one_live_per_scope",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="StandingPass",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "standing_id",
                        "number",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("standing_id", models.UUIDField()),
                ("number", models.IntegerField()),
                ("action_id", models.UUIDField()),
                ("approval_id", models.UUIDField()),
                ("minor", models.BigIntegerField(default=0)),
                ("at", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["tenant_id", "action_id"], name="standing_pass_by_action")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tenant_id", "approval_id"), name="standing_pass_once_per_approval"
                    ),
                    models.CheckConstraint(condition=models.Q(("minor__gte", 0)), name="standing_pass_costs"),
                ],
            },
        ),
        migrations.RunSQL(TRANSITIONS.read_text()),
        *(migrations.RunSQL((FOLDER / name).read_text()) for name in FILES),
    ]
