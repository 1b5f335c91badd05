from __future__ import annotations

from django.db import migrations, models

TENANT_TABLES = [
    "approvals_approver",
    "approvals_approverkey",
    "approvals_challenge",
    "approvals_delegation",
    "approvals_absence",
    "approvals_comment",
    "approvals_emergency",
]
# What erasing an approval empties, beside what 0004 names.
BLANK = """
INSERT INTO ledger_blank (relation, subject, columns) VALUES
    ('approvals_challenge', 'approval_id', '{"statement": "\\\\x", "statement_hash": "", "reason": ""}'),
    ('approvals_comment', 'approval_id', '{"text": ""}'),
    ('approvals_emergency', 'approval_id', '{"reason": ""}');
ALTER TABLE ledger_blank DISABLE TRIGGER no_change;
UPDATE ledger_blank SET columns = columns || '{"assertion": null, "credential_id": ""}'
    WHERE relation = 'approvals_vote';
ALTER TABLE ledger_blank ENABLE ALWAYS TRIGGER no_change;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("approvals", "0004_what_erasing_blanks"),
        ("ledger", "0017_approvals_that_bind"),
    ]

    operations = [
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
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("consumed_at", models.DateTimeField(null=True)),
            ],
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
        ),
        migrations.CreateModel(
            name="Emergency",
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
        ),
        migrations.RemoveConstraint(
            model_name="approval",
            name="approval_one_live_per_action",
        ),
        migrations.AddField(
            model_name="approval",
            name="assigned_to",
            field=models.UUIDField(null=True),
        ),
        migrations.AddField(
            model_name="approval",
            name="baseline_digest",
            field=models.CharField(default="", max_length=64),
        ),
        migrations.AddField(
            model_name="approval",
            name="baseline_pointer",
            field=models.UUIDField(null=True),
        ),
        migrations.AddField(
            model_name="approval",
            name="claimed_by",
            field=models.UUIDField(null=True),
        ),
        migrations.AddField(
            model_name="approval",
            name="claimed_until",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="approval",
            name="editor",
            field=models.UUIDField(null=True),
        ),
        migrations.AddField(
            model_name="approval",
            name="emergency",
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name="approval",
            name="escalated_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="approval",
            name="paused_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="approval",
            name="preflight_digest",
            field=models.CharField(default="", max_length=64),
        ),
        migrations.AddField(
            model_name="approval",
            name="reminded_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="approval",
            name="risk",
            field=models.CharField(default="NORMAL", max_length=8),
        ),
        migrations.AddField(
            model_name="approval",
            name="terms",
            field=models.JSONField(default=dict),
        ),
        migrations.AddField(
            model_name="vote",
            name="assertion",
            field=models.BinaryField(null=True),
        ),
        migrations.AddField(
            model_name="vote",
            name="credential_id",
            field=models.TextField(default=""),
        ),
        migrations.AddField(
            model_name="vote",
            name="delegated_by",
            field=models.UUIDField(null=True),
        ),
        migrations.AddField(
            model_name="vote",
            name="groups",
            field=models.JSONField(default=list),
        ),
        migrations.AddField(
            model_name="vote",
            name="person_id",
            field=models.UUIDField(null=True),
        ),
        migrations.AddConstraint(
            model_name="approval",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state__in", ["PREPARING", "REQUESTED", "APPROVED"])),
                fields=("tenant_id", "action_id"),
                name="approval_one_live_per_action",
            ),
        ),
        migrations.AddIndex(
            model_name="absence",
            index=models.Index(fields=["tenant_id", "actor_id", "ends_at"], name="absence_by_actor"),
        ),
        migrations.AddConstraint(
            model_name="absence",
            constraint=models.CheckConstraint(
                condition=models.Q(("starts_at__lt", models.F("ends_at"))), name="absence_is_bounded"
            ),
        ),
        migrations.AddIndex(
            model_name="approver",
            index=models.Index(fields=["tenant_id", "person_id"], name="approver_by_person"),
        ),
        migrations.AddIndex(
            model_name="approverkey",
            index=models.Index(fields=["tenant_id", "actor_id"], name="approver_key_by_actor"),
        ),
        migrations.AddConstraint(
            model_name="approverkey",
            constraint=models.UniqueConstraint(fields=("tenant_id", "credential_id"), name="approver_key_is_unique"),
        ),
        migrations.AddConstraint(
            model_name="approverkey",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["PENDING", "ACTIVE", "SUSPENDED", "REFUSED", "REMOVED"])),
                name="approver_key_state_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="approverkey",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state", "ACTIVE"), _negated=True),
                    models.Q(
                        ("confirmed_by__isnull", False), models.Q(("confirmed_by", models.F("actor_id")), _negated=True)
                    ),
                    _connector="OR",
                ),
                name="approver_key_takes_two",
            ),
        ),
        migrations.AddIndex(
            model_name="challenge",
            index=models.Index(fields=["tenant_id", "approval_id"], name="challenge_by_approval"),
        ),
        migrations.AddIndex(
            model_name="comment",
            index=models.Index(fields=["tenant_id", "approval_id", "id"], name="comment_by_approval"),
        ),
        migrations.AddConstraint(
            model_name="comment",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["comment", "question", "answer"])), name="comment_kind_is_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="comment",
            constraint=models.UniqueConstraint(
                condition=models.Q(("answers__isnull", False)),
                fields=("tenant_id", "answers"),
                name="question_is_answered_once",
            ),
        ),
        migrations.AddIndex(
            model_name="delegation",
            index=models.Index(fields=["tenant_id", "to_actor", "ends_at"], name="delegation_by_receiver"),
        ),
        migrations.AddConstraint(
            model_name="delegation",
            constraint=models.CheckConstraint(
                condition=models.Q(("starts_at__lt", models.F("ends_at"))), name="delegation_is_bounded"
            ),
        ),
        migrations.AddConstraint(
            model_name="delegation",
            constraint=models.CheckConstraint(
                condition=models.Q(("from_actor", models.F("to_actor")), _negated=True), name="delegation_is_to_another"
            ),
        ),
        migrations.AddIndex(
            model_name="emergency",
            index=models.Index(
                condition=models.Q(("reviewed_at__isnull", True)),
                fields=["tenant_id", "review_by"],
                name="emergency_unreviewed",
            ),
        ),
        migrations.AddConstraint(
            model_name="emergency",
            constraint=models.UniqueConstraint(fields=("tenant_id", "approval_id"), name="emergency_once_per_approval"),
        ),
        migrations.RunSQL(
            "".join(f"SELECT ledger_isolate('{table}');" for table in TENANT_TABLES), migrations.RunSQL.noop
        ),
        migrations.RunSQL("SELECT ledger_make_append_only('approvals_comment');", migrations.RunSQL.noop),
        migrations.RunSQL(BLANK, migrations.RunSQL.noop),
    ]
