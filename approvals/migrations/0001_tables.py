"""The tables of sessions, agents, approvals and executors, in their present form."""

from __future__ import annotations

import datetime
import django.db.models.expressions
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="ModelUsage",
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
                ("agent_id", models.CharField(max_length=128)),
                ("model", models.CharField(max_length=128)),
                ("calls", models.IntegerField()),
                ("input_tokens", models.BigIntegerField(null=True)),
                ("output_tokens", models.BigIntegerField(null=True)),
                ("reference", models.CharField(max_length=128)),
                ("at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Absence",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("actor_id", models.UUIDField()),
                ("starts_at", models.DateTimeField()),
                ("ends_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["tenant_id", "actor_id", "ends_at"], name="absence_by_actor")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("starts_at__lt", models.F("ends_at"))), name="absence_is_bounded"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Agent",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("agent_id", models.CharField(max_length=128)),
                ("version", models.CharField(max_length=64)),
                ("revoked_at", models.DateTimeField(null=True)),
                ("flags", models.JSONField(default=dict)),
                ("owner", models.UUIDField(null=True)),
                ("sessions_since", models.IntegerField(db_default=0, default=0)),
                ("withdrawn", models.JSONField(db_default={}, default=dict)),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("tenant_id", "agent_id"), name="agent_id_is_unique")],
            },
        ),
        migrations.CreateModel(
            name="AgentVersion",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("agent_id", models.CharField(max_length=128)),
                ("version", models.CharField(max_length=64)),
                ("tools", models.JSONField()),
                ("versions", models.JSONField(db_default={}, default=dict)),
                ("output_tags", models.JSONField(default=list)),
                ("model_tier", models.CharField(default="", max_length=64)),
                ("acts_elsewhere", models.BooleanField(db_default=False, default=False)),
                ("registered_by", models.CharField(max_length=200)),
                ("registered_at", models.DateTimeField()),
                ("fingerprint", models.CharField(max_length=64)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("tenant_id", "agent_id", "version"), name="agent_version_is_unique")
                ],
            },
        ),
        migrations.CreateModel(
            name="Approval",
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
                ("state", models.CharField(max_length=16)),
                ("payload_hash", models.CharField(max_length=64)),
                ("rendering_digest", models.CharField(max_length=64)),
                ("contract_digest", models.CharField(max_length=64)),
                ("policy_digest", models.CharField(max_length=64)),
                ("policy_version", models.CharField(max_length=64)),
                ("policy_row", models.CharField(max_length=200)),
                ("step_up", models.CharField(max_length=1)),
                ("requester", models.UUIDField()),
                ("requested_at", models.DateTimeField()),
                ("decide_by", models.DateTimeField()),
                ("release_by", models.DateTimeField(null=True)),
                ("decided_at", models.DateTimeField(null=True)),
                ("terms", models.JSONField(default=dict)),
                ("risk", models.CharField(default="NORMAL", max_length=8)),
                ("baseline_digest", models.CharField(default="", max_length=64)),
                ("baseline_pointer", models.UUIDField(null=True)),
                ("preflight_digest", models.CharField(default="", max_length=64)),
                ("claimed_by", models.UUIDField(null=True)),
                ("claimed_until", models.DateTimeField(null=True)),
                ("assigned_to", models.UUIDField(null=True)),
                ("reminded_at", models.DateTimeField(null=True)),
                ("escalated_at", models.DateTimeField(null=True)),
                ("paused_at", models.DateTimeField(null=True)),
                ("editor", models.UUIDField(null=True)),
                ("emergency", models.BooleanField(default=False)),
                ("standing_id", models.UUIDField(null=True)),
                ("stranded_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["tenant_id", "state", "decide_by"], name="approval_inbox"),
                    models.Index(fields=["tenant_id", "action_id", "id"], name="approval_by_action"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("state__in", ["PREPARING", "REQUESTED", "APPROVED"])),
                        fields=("tenant_id", "action_id"),
                        name="approval_one_live_per_action",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ApprovalDisplay",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "approval_id",
                        "actor_id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("approval_id", models.UUIDField()),
                ("actor_id", models.UUIDField()),
                ("payload_bytes", models.IntegerField()),
                ("served_at", models.DateTimeField()),
                ("visible_s", models.FloatField(null=True)),
                ("opened", models.JSONField(null=True)),
                ("reported_at", models.DateTimeField(null=True)),
            ],
            options={
                "db_table": "approvals_attention",
                "indexes": [models.Index(fields=["tenant_id", "served_at"], name="attention_by_age")],
            },
        ),
        migrations.CreateModel(
            name="Approver",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "actor_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("actor_id", models.UUIDField()),
                ("person_id", models.UUIDField()),
                ("groups", models.JSONField(default=list)),
                ("active", models.BooleanField(default=True)),
                ("since", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["tenant_id", "person_id"], name="approver_by_person")],
            },
        ),
        migrations.CreateModel(
            name="ApproverKey",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("actor_id", models.UUIDField()),
                ("person_id", models.UUIDField()),
                ("credential_id", models.TextField()),
                ("public_key", models.BinaryField()),
                ("aaguid", models.UUIDField()),
                ("name", models.CharField(max_length=100)),
                ("backup_eligible", models.BooleanField()),
                ("sign_count", models.BigIntegerField(default=0)),
                ("state", models.CharField(max_length=10)),
                ("registration", models.BinaryField()),
                ("proposed_by", models.UUIDField()),
                ("confirmed_by", models.UUIDField(null=True)),
                ("created_at", models.DateTimeField()),
                ("decided_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["tenant_id", "actor_id"], name="approver_key_by_actor")],
                "constraints": [
                    models.UniqueConstraint(fields=("tenant_id", "credential_id"), name="approver_key_is_unique"),
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["PENDING", "ACTIVE", "SUSPENDED", "REFUSED", "REMOVED"])),
                        name="approver_key_state_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state", "ACTIVE"), _negated=True),
                            models.Q(
                                ("confirmed_by__isnull", False),
                                models.Q(("confirmed_by", models.F("actor_id")), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="approver_key_takes_two",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Attempt",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "action_id",
                        "number",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("action_id", models.UUIDField()),
                ("number", models.IntegerField()),
                ("jti", models.UUIDField()),
                ("executor_id", models.CharField(max_length=128)),
                ("wrapper_version", models.CharField(max_length=64)),
                ("started_at", models.DateTimeField()),
                ("timeout_s", models.IntegerField()),
                ("lease_expires_at", models.DateTimeField()),
                ("ends_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("tenant_id", "jti"), name="attempt_one_per_grant"),
                    models.CheckConstraint(
                        condition=models.Q(("lease_expires_at__lte", models.F("ends_at"))),
                        name="attempt_lease_is_bounded",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="BreakGlassUse",
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
                ("approval_id", models.UUIDField()),
                ("used_by", models.UUIDField()),
                ("reason", models.TextField()),
                ("used_at", models.DateTimeField()),
                ("review_by", models.DateTimeField()),
                ("reviews", models.JSONField(default=list)),
                ("reviewed_at", models.DateTimeField(null=True)),
            ],
            options={
                "db_table": "approvals_emergency",
                "indexes": [
                    models.Index(
                        condition=models.Q(("reviewed_at__isnull", True)),
                        fields=["tenant_id", "review_by"],
                        name="emergency_unreviewed",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("tenant_id", "approval_id"), name="emergency_once_per_approval")
                ],
            },
        ),
        migrations.CreateModel(
            name="Call",
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
                ("agent_id", models.CharField(max_length=128)),
                ("call_id", models.CharField(max_length=128)),
                ("tool", models.CharField(max_length=200)),
                ("accepted", models.BooleanField()),
                ("code", models.CharField(max_length=40)),
                ("category", models.CharField(max_length=40)),
                ("reason", models.TextField()),
                ("request_hash", models.CharField(max_length=64)),
                ("restated_goal", models.TextField(blank=True)),
                ("disclosed", models.IntegerField()),
                ("model_tier", models.CharField(default="", max_length=64)),
                ("layer", models.CharField(default="", max_length=16)),
                ("autonomy_version", models.CharField(default="", max_length=64)),
                ("action_id", models.UUIDField(null=True)),
                ("result", models.JSONField()),
                ("at", models.DateTimeField()),
            ],
            options={
                "indexes": [
                    models.Index(fields=["tenant_id", "session_id", "id"], name="call_by_session"),
                    models.Index(fields=["tenant_id", "agent_id", "id"], name="call_by_agent"),
                    models.Index(
                        condition=models.Q(("accepted", False)), fields=["tenant_id", "code", "id"], name="call_refused"
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("call_id", ""), _negated=True),
                        fields=("tenant_id", "session_id", "call_id"),
                        name="call_id_is_unique",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Challenge",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("approval_id", models.UUIDField()),
                ("actor_id", models.UUIDField()),
                ("session_hash", models.CharField(max_length=64)),
                ("verdict", models.CharField(max_length=16)),
                ("reason", models.TextField()),
                ("statement", models.BinaryField()),
                ("statement_hash", models.CharField(max_length=64)),
                ("salt", models.BinaryField(default=bytes)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("consumed_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["tenant_id", "approval_id"], name="challenge_by_approval")],
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
                ("approval_id", models.UUIDField()),
                ("author", models.UUIDField()),
                ("author_kind", models.CharField(max_length=8)),
                ("kind", models.CharField(max_length=8)),
                ("text", models.TextField()),
                ("mentions", models.JSONField(default=list)),
                ("answers", models.UUIDField(null=True)),
                ("at", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["tenant_id", "approval_id", "id"], name="comment_by_approval")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("kind__in", ["comment", "question", "answer"])),
                        name="comment_kind_is_known",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("answers__isnull", False)),
                        fields=("tenant_id", "answers"),
                        name="question_is_answered_once",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Deadline",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "subject_id", "what", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("subject_id", models.UUIDField()),
                ("what", models.CharField(max_length=10)),
                ("due_at", models.DateTimeField()),
            ],
            options={
                "db_table": "approvals_due",
                "indexes": [models.Index(fields=["due_at"], name="due_by_time")],
            },
        ),
        migrations.CreateModel(
            name="Delegation",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("from_actor", models.UUIDField()),
                ("to_actor", models.UUIDField()),
                ("groups", models.JSONField(default=list)),
                ("tools", models.JSONField(default=list)),
                ("starts_at", models.DateTimeField()),
                ("ends_at", models.DateTimeField()),
                ("reason", models.CharField(max_length=500)),
                ("created_by", models.UUIDField()),
                ("ended_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["tenant_id", "to_actor", "ends_at"], name="delegation_by_receiver")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("starts_at__lt", models.F("ends_at"))), name="delegation_is_bounded"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("from_actor", models.F("to_actor")), _negated=True),
                        name="delegation_is_to_another",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Executor",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("executor_id", models.CharField(max_length=128)),
                ("key_actor", models.UUIDField()),
                ("public_jwk", models.JSONField()),
                ("thumbprint", models.CharField(max_length=64)),
                ("tools", models.JSONField()),
                ("registered_at", models.DateTimeField()),
                ("revoked_at", models.DateTimeField(null=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("tenant_id", "executor_id"), name="executor_id_is_unique")
                ],
            },
        ),
        migrations.CreateModel(
            name="Grant",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "jti", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("jti", models.UUIDField()),
                ("action_id", models.UUIDField()),
                ("executor_id", models.CharField(max_length=128)),
                ("token_hash", models.CharField(max_length=64)),
                ("attempt", models.IntegerField()),
                ("minted_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("consumed_at", models.DateTimeField(null=True)),
                ("voided_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["tenant_id", "action_id", "attempt"], name="grant_by_action")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("consumed_at__isnull", True), ("voided_at__isnull", True), _connector="OR"),
                        name="grant_ends_one_way",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Session",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("agent_id", models.CharField(max_length=128)),
                ("agent_version", models.CharField(max_length=64)),
                ("model_tier", models.CharField(default="", max_length=64)),
                ("actor_id", models.UUIDField()),
                ("key_actor", models.UUIDField()),
                ("on_behalf_of", models.UUIDField(null=True)),
                ("fingerprint", models.CharField(max_length=64)),
                ("goal", models.TextField()),
                ("pin_hash", models.CharField(max_length=64)),
                ("pinned_at", models.DateTimeField()),
                ("pin_expires_at", models.DateTimeField()),
                ("contract", models.JSONField()),
                ("run_id", models.CharField(max_length=128)),
                ("iteration_limit", models.IntegerField(null=True)),
                ("unwinds", models.BooleanField(default=False)),
                ("calls_accepted", models.IntegerField(default=0)),
                ("calls_refused", models.IntegerField(default=0)),
                ("agent_seq", models.IntegerField(db_default=0)),
                ("used_at", models.DateTimeField(null=True)),
                ("undisclosed_attempts", models.IntegerField(db_default=0)),
                ("drifts", models.IntegerField(db_default=0)),
                ("closed_at", models.DateTimeField(null=True)),
                ("forced_at", models.DateTimeField(null=True)),
                ("probed", models.JSONField(default=list)),
                ("probing_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["tenant_id", "agent_id", "id"], name="session_by_agent"),
                    models.Index(
                        condition=models.Q(("forced_at__isnull", False)),
                        fields=["tenant_id", "run_id"],
                        name="session_forced_out",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Spending",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "holder",
                        "budget",
                        "unit",
                        "window_from",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("holder", models.CharField(max_length=140)),
                ("budget", models.CharField(max_length=64)),
                ("unit", models.CharField(max_length=16)),
                ("window_from", models.DateTimeField()),
                ("used", models.BigIntegerField()),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("used__gte", 0)), name="spending_is_no_income")
                ],
            },
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
                ("is_time_boxed", models.BooleanField(db_default=False, default=False)),
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
                            ("is_time_boxed", True),
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
                            ("is_time_boxed", False),
                            models.Q(
                                ("ends_at__gt", models.F("proposed_at")),
                                ("max_count__gte", 1),
                                ("state__in", ["ACTIVE", "PAUSED", "ENDED"]),
                                (
                                    "ends_at__lte",
                                    django.db.models.expressions.CombinedExpression(
                                        models.F("proposed_at"), "+", models.Value(datetime.timedelta(seconds=3600))
                                    ),
                                ),
                                ("answered_at__isnull", True),
                                ("answered_by__isnull", True),
                                ("answered_person__isnull", True),
                            ),
                            _connector="OR",
                        ),
                        name="standing_time_box_is_bounded",
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
        migrations.CreateModel(
            name="StartOverride",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("log_id", models.UUIDField()),
                ("tools", models.JSONField()),
                ("reason", models.CharField(max_length=1000)),
                ("placed_by", models.UUIDField()),
                ("placed_at", models.DateTimeField()),
                ("ends_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["tenant_id", "ends_at"], name="start_override_by_end")],
            },
        ),
        migrations.CreateModel(
            name="Vote",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("approval_id", models.UUIDField()),
                ("voter", models.UUIDField()),
                ("verdict", models.CharField(max_length=16)),
                ("evidence_class", models.CharField(max_length=1)),
                ("statement", models.BinaryField()),
                ("statement_hash", models.CharField(max_length=64)),
                ("reason", models.TextField()),
                ("at", models.DateTimeField()),
                ("person_id", models.UUIDField(null=True)),
                ("groups", models.JSONField(default=list)),
                ("delegated_by", models.UUIDField(null=True)),
                ("credential_id", models.TextField(default="")),
                ("assertion", models.BinaryField(null=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("tenant_id", "approval_id", "voter"), name="vote_once")
                ],
            },
        ),
    ]
