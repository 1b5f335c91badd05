"""The tables of the record, in their present form.

What actions are found by are columns that the database computes, so the functions for them (`ledger/sql/phases.sql`)
are made first.
"""

from __future__ import annotations

from pathlib import Path

from django.contrib.postgres.operations import BtreeGinExtension, TrigramExtension
from django.db import migrations, models

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("phases.sql",)


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        TrigramExtension(),
        BtreeGinExtension(),
        *(migrations.RunSQL((FOLDER / name).read_text()) for name in FILES),
        migrations.CreateModel(
            name="Entry",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "subject_id", "seq", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("subject_id", models.UUIDField()),
                ("seq", models.IntegerField()),
                ("entry_salt", models.BinaryField(null=True)),
                ("entry", models.BinaryField(null=True)),
                ("detail_salt", models.BinaryField(null=True)),
                ("detail", models.BinaryField(null=True)),
            ],
            options={
                "db_table": "ledger_entry",
                "managed": False,
            },
        ),
        migrations.CreateModel(
            name="Event",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "subject_id", "seq", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("subject_id", models.UUIDField()),
                ("seq", models.IntegerField()),
                ("prev_seq", models.IntegerField(null=True)),
                ("id", models.UUIDField()),
                ("subject_kind", models.CharField(max_length=20)),
                ("kind", models.CharField(max_length=64)),
                ("from_state", models.CharField(max_length=32)),
                ("state", models.CharField(max_length=32)),
                ("prev", models.BinaryField(null=True)),
                ("envelope", models.BinaryField()),
                ("entry_hash", models.BinaryField()),
                ("actor_kind", models.CharField(max_length=20)),
                ("actor_id", models.UUIDField()),
                ("at", models.DateTimeField()),
                ("recorded_at", models.DateTimeField()),
            ],
            options={
                "db_table": "ledger_event",
                "managed": False,
            },
        ),
        migrations.CreateModel(
            name="AnchorSchedule",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "log", "kind", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("log", models.IntegerField()),
                ("kind", models.CharField(max_length=8)),
                ("due_at", models.DateTimeField()),
                ("faults", models.JSONField(default=dict)),
            ],
            options={
                "db_table": "ledger_anchoring",
            },
        ),
        migrations.CreateModel(
            name="Checkpoint",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "log", "size", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("log", models.IntegerField()),
                ("size", models.BigIntegerField()),
                ("note", models.BinaryField()),
                ("signed_at", models.DateTimeField()),
                ("before", models.BigIntegerField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="ProcessLease",
            fields=[
                ("name", models.CharField(max_length=32, primary_key=True, serialize=False)),
                ("holder", models.UUIDField()),
                ("renewed_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="QueuedEvent",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "position", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("position", models.BigIntegerField()),
                ("subject_id", models.UUIDField()),
                ("seq", models.IntegerField()),
                ("at", models.DateTimeField()),
            ],
            options={
                "db_table": "ledger_pending",
            },
        ),
        migrations.CreateModel(
            name="ReleaseGate",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "release_id",
                        "seq",
                        "gate",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("release_id", models.UUIDField()),
                ("seq", models.IntegerField()),
                ("gate", models.CharField(max_length=16)),
                ("passed", models.BooleanField()),
                ("summary", models.CharField(max_length=1000)),
                ("pointer", models.UUIDField()),
                ("by", models.UUIDField()),
                ("at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Subject",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("kind", models.CharField(max_length=20)),
                ("state", models.CharField(max_length=32)),
                ("seq", models.IntegerField()),
                ("head", models.BinaryField()),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Tenant",
            fields=[
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("slug", models.SlugField(max_length=63, unique=True)),
                ("name", models.CharField(max_length=200)),
                ("origin", models.CharField(max_length=255, unique=True)),
                ("created_at", models.DateTimeField()),
                ("epoch", models.IntegerField(null=True)),
                ("restored_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Tile",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "log",
                        "level",
                        "index",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("log", models.IntegerField()),
                ("level", models.SmallIntegerField()),
                ("index", models.BigIntegerField()),
                ("hashes", models.BinaryField()),
            ],
        ),
        migrations.CreateModel(
            name="WrongClock",
            fields=[
                ("host", models.CharField(max_length=255, primary_key=True, serialize=False)),
                ("ahead_s", models.FloatField()),
                ("seen_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Action",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("state", models.CharField(max_length=32)),
                ("seq", models.IntegerField()),
                ("tool", models.CharField(max_length=128)),
                ("tool_version", models.CharField(max_length=64)),
                ("contract_digest", models.CharField(max_length=64)),
                ("side_effect_class", models.CharField(max_length=32)),
                ("reversibility", models.CharField(max_length=16)),
                ("mutating", models.BooleanField()),
                ("agent", models.CharField(max_length=128)),
                ("agent_actor", models.UUIDField()),
                ("session_id", models.UUIDField()),
                ("run_id", models.CharField(max_length=128)),
                ("call_id", models.CharField(max_length=128)),
                ("target", models.CharField(max_length=512)),
                ("operation_kind", models.CharField(max_length=64)),
                ("operation_key", models.CharField(max_length=64)),
                ("payload_hash", models.CharField(max_length=64)),
                ("payload_pointer", models.UUIDField(null=True)),
                ("approval_id", models.UUIDField(null=True)),
                ("trace_id", models.CharField(max_length=64)),
                ("supersedes", models.UUIDField(null=True)),
                ("ordered_by", models.UUIDField(null=True)),
                ("parent_id", models.UUIDField(null=True)),
                ("relation", models.CharField(default="", max_length=12)),
                ("unwinds", models.BooleanField(default=False)),
                ("discrepancy", models.CharField(default="", max_length=32)),
                ("recovery_row", models.CharField(default="", max_length=8)),
                ("recovery_decision", models.CharField(default="", max_length=48)),
                ("attempt_count", models.IntegerField(default=0)),
                ("contradicted", models.BooleanField(default=False)),
                ("reversed", models.BooleanField(default=False)),
                ("settled", models.BooleanField(default=False)),
                ("noticed", models.BooleanField(db_default=False)),
                ("reached_by", models.CharField(db_default="", max_length=64)),
                (
                    "phase",
                    models.GeneratedField(
                        db_persist=True,
                        expression=models.Func(models.F("state"), function="ledger_phase"),
                        output_field=models.CharField(max_length=32),
                    ),
                ),
                (
                    "set_apart",
                    models.GeneratedField(
                        db_persist=True,
                        expression=models.Func(models.F("reached_by"), function="ledger_set_apart"),
                        output_field=models.CharField(max_length=64, null=True),
                    ),
                ),
                ("horizon_at", models.DateTimeField(null=True)),
                ("blocks_until", models.DateTimeField(null=True)),
                ("proposed_at", models.DateTimeField()),
                ("changed_at", models.DateTimeField()),
            ],
            options={
                "indexes": [
                    models.Index(fields=["tenant_id", "phase", "id"], name="action_by_phase"),
                    models.Index(
                        condition=models.Q(("set_apart__isnull", False)),
                        fields=["tenant_id", "set_apart", "id"],
                        name="action_set_apart",
                    ),
                    models.Index(
                        condition=models.Q(("contradicted", True), ("reversed", True), _connector="OR"),
                        fields=["tenant_id", "id"],
                        name="action_turned",
                    ),
                    models.Index(fields=["tenant_id", "tool", "id"], name="action_by_tool"),
                    models.Index(fields=["tenant_id", "agent", "id"], name="action_by_agent"),
                    models.Index(
                        condition=models.Q(("phase", "RECONCILED_SUCCESS")),
                        fields=["tenant_id", "agent", "tool"],
                        name="action_demonstrated",
                    ),
                    models.Index(fields=["tenant_id", "session_id", "id"], name="action_by_session"),
                    models.Index(fields=["tenant_id", "run_id", "id"], name="action_by_run"),
                    models.Index(
                        condition=models.Q(("parent_id__isnull", False)),
                        fields=["tenant_id", "parent_id", "id"],
                        name="action_by_parent",
                    ),
                    models.Index(
                        condition=models.Q(("supersedes__isnull", False)),
                        fields=["tenant_id", "supersedes", "id"],
                        name="action_by_superseded",
                    ),
                    models.Index(fields=["tenant_id", "side_effect_class", "id"], name="action_by_class"),
                    models.Index(fields=["tenant_id", "discrepancy", "id"], name="action_by_discrepancy"),
                    models.Index(fields=["tenant_id", "operation_key", "id"], name="action_by_operation"),
                    models.Index(fields=["tenant_id", "target", "id"], name="action_by_target"),
                    models.Index(
                        condition=models.Q(
                            ("contradicted", True),
                            (
                                "phase__in",
                                [
                                    "COMPENSATING",
                                    "COMPENSATION_FAILED",
                                    "FORWARD_RECOVERY",
                                    "PARTIALLY_COMMITTED",
                                    "PENDING",
                                    "RECONCILIATION_FAILED",
                                    "REVIEW_REQUIRED",
                                    "UNKNOWN",
                                    "VALIDATED",
                                    "VERIFICATION_TIMEOUT",
                                ],
                            ),
                            _connector="OR",
                        ),
                        fields=["tenant_id", "run_id", "target", "id"],
                        name="action_open_in_run",
                    ),
                    models.Index(
                        condition=models.Q(
                            ("contradicted", True),
                            (
                                "phase__in",
                                [
                                    "COMPENSATING",
                                    "COMPENSATION_FAILED",
                                    "FORWARD_RECOVERY",
                                    "PARTIALLY_COMMITTED",
                                    "PENDING",
                                    "RECONCILIATION_FAILED",
                                    "REVIEW_REQUIRED",
                                    "UNKNOWN",
                                    "VALIDATED",
                                    "VERIFICATION_TIMEOUT",
                                ],
                            ),
                            _connector="OR",
                        ),
                        fields=["tenant_id", "session_id", "contradicted", "phase"],
                        name="action_open_in_session",
                    ),
                    models.Index(
                        condition=models.Q(
                            ("mutating", True),
                            ("noticed", False),
                            ("relation", ""),
                            models.Q(
                                ("phase__in", ["ABANDONED", "COMPENSATED", "FAILED", "ROLLED_BACK"]),
                                models.Q(("phase", "RECONCILED_SUCCESS"), ("reversed", True)),
                                _connector="OR",
                            ),
                        ),
                        fields=["tenant_id", "run_id", "id"],
                        name="action_failed_in_run",
                    ),
                    models.Index(
                        condition=models.Q(("phase", "RECONCILED_SUCCESS")),
                        fields=["tenant_id", "run_id", "contract_digest"],
                        name="action_succeeded_in_run",
                    ),
                    models.Index(
                        condition=models.Q(
                            ("blocks_until__isnull", False),
                            ("mutating", True),
                            ("phase__in", ["FAILED", "RECONCILED_SUCCESS"]),
                        ),
                        fields=["tenant_id", "operation_key", "blocks_until"],
                        name="action_blocked_for_a_time",
                    ),
                    models.Index(
                        condition=models.Q(("contradicted", True), ("mutating", True)),
                        fields=["tenant_id", "operation_key", "id"],
                        name="action_contradicted",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(
                            ("mutating", True),
                            (
                                "phase__in",
                                [
                                    "COMPENSATING",
                                    "COMPENSATION_FAILED",
                                    "FORWARD_RECOVERY",
                                    "PARTIALLY_COMMITTED",
                                    "PENDING",
                                    "RECONCILIATION_FAILED",
                                    "REVIEW_REQUIRED",
                                    "UNKNOWN",
                                    "VERIFICATION_TIMEOUT",
                                ],
                            ),
                        ),
                        fields=("tenant_id", "operation_key"),
                        name="action_one_open_mutation",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("ordered_by__isnull", False)),
                        fields=("tenant_id", "ordered_by"),
                        name="action_one_child_per_order",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Alarm",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("kind", models.CharField(max_length=32)),
                ("detail", models.CharField(max_length=1000)),
                ("raised_at", models.DateTimeField()),
                ("closed_at", models.DateTimeField(null=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("closed_at__isnull", True)),
                        fields=("tenant_id", "kind"),
                        name="alarm_one_open_of_a_kind",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Anchor",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("log", models.IntegerField()),
                ("size", models.BigIntegerField()),
                ("kind", models.CharField(max_length=8)),
                ("name", models.CharField(max_length=255)),
                ("evidence", models.BinaryField()),
                ("at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("kind__in", ["witness", "tsa"])), name="anchor_kind_is_known"
                    ),
                    models.UniqueConstraint(fields=("tenant_id", "log", "size", "kind", "name"), name="anchor_once"),
                ],
            },
        ),
        migrations.CreateModel(
            name="ContractVersion",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("name", models.CharField(max_length=128)),
                ("version", models.CharField(max_length=64)),
                ("digest", models.CharField(max_length=64)),
                ("document", models.BinaryField()),
                ("lint", models.JSONField(default=list)),
                ("weakens", models.JSONField(db_default=[], default=list)),
                ("compared_with", models.CharField(db_default="", default="", max_length=64)),
                ("sent_by", models.UUIDField(null=True)),
                ("release_id", models.UUIDField(null=True)),
                ("registered_at", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["tenant_id", "digest"], name="contract_by_digest")],
                "constraints": [
                    models.UniqueConstraint(fields=("tenant_id", "name", "version"), name="contract_version_is_unique")
                ],
            },
        ),
        migrations.CreateModel(
            name="ErasedSubject",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "subject_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("subject_id", models.UUIDField()),
                ("kind", models.CharField(max_length=20)),
                ("erasure_id", models.UUIDField()),
                ("seq", models.IntegerField()),
                ("at", models.DateTimeField()),
                ("key_id", models.UUIDField(null=True)),
                ("pruned_by", models.UUIDField(null=True)),
            ],
            options={
                "db_table": "ledger_erased",
                "indexes": [models.Index(fields=["tenant_id", "erasure_id", "subject_id"], name="erased_by_request")],
            },
        ),
        migrations.CreateModel(
            name="Erasure",
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
                ("legal_basis", models.CharField(max_length=300)),
                ("reason", models.CharField(max_length=4000)),
                ("subjects", models.IntegerField()),
                ("erased", models.IntegerField(default=0)),
                ("retention_id", models.UUIDField(null=True)),
                ("requested_by", models.UUIDField()),
                ("requested_at", models.DateTimeField()),
                ("confirmed_by", models.UUIDField(null=True)),
                ("confirmed_at", models.DateTimeField(null=True)),
                ("begun_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["tenant_id", "state", "id"], name="erasure_by_state")],
            },
        ),
        migrations.CreateModel(
            name="Evidence",
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
                ("purpose", models.CharField(max_length=20)),
                ("media_type", models.CharField(max_length=100)),
                ("source", models.CharField(max_length=200)),
                ("observed_at", models.DateTimeField()),
                ("length", models.IntegerField()),
                ("salt", models.BinaryField(null=True)),
                ("sealed", models.BinaryField(null=True)),
                ("commitment", models.CharField(max_length=64)),
            ],
            options={
                "indexes": [models.Index(fields=["tenant_id", "subject_id", "id"], name="evidence_by_subject")],
            },
        ),
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
        migrations.CreateModel(
            name="Freeze",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("scope", models.CharField(max_length=8)),
                ("value", models.CharField(max_length=512)),
                ("reason", models.CharField(max_length=1000)),
                ("placed_at", models.DateTimeField()),
                ("lifted_at", models.DateTimeField(null=True)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("scope__in", ["agent", "tool", "target", "tenant", "all"])),
                        name="freeze_scope_is_known",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("lifted_at__isnull", True)),
                        fields=("tenant_id", "scope", "value"),
                        name="freeze_one_in_force",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Idempotency",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "key_hash", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("key_hash", models.CharField(max_length=64)),
                ("key", models.CharField(max_length=64)),
                ("request_hash", models.CharField(max_length=64)),
                ("action_id", models.UUIDField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("tenant_id", "action_id"), name="idempotency_one_key_per_action")
                ],
            },
        ),
        migrations.CreateModel(
            name="IntegrityCheck",
            fields=[
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
                ("findings", models.JSONField(db_default={}, default=dict)),
                ("started_by", models.UUIDField()),
                ("started_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("state__in", ["RUNNING", "PAUSED"])),
                        fields=("tenant_id",),
                        name="integrity_check_one_at_a_time",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Leaf",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "log", "index", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("log", models.IntegerField()),
                ("index", models.BigIntegerField()),
                ("subject_id", models.UUIDField()),
                ("seq", models.IntegerField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("tenant_id", "subject_id", "seq"), name="leaf_one_per_event")
                ],
            },
        ),
        migrations.CreateModel(
            name="LegalHold",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("scope", models.CharField(max_length=16)),
                ("value", models.CharField(max_length=512)),
                ("reason", models.CharField(max_length=4000)),
                ("placed_by", models.UUIDField()),
                ("placed_at", models.DateTimeField()),
                ("lifted_at", models.DateTimeField(null=True)),
            ],
            options={
                "db_table": "ledger_hold",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("scope__in", ["action", "target", "agent", "recording", "all"])),
                        name="hold_scope_is_known",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("lifted_at__isnull", True)),
                        fields=("tenant_id", "scope", "value"),
                        name="hold_one_in_force",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Log",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "number", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("number", models.IntegerField()),
                ("id", models.UUIDField()),
                ("origin", models.CharField(max_length=255)),
                ("opened_at", models.DateTimeField()),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("tenant_id", "origin"), name="log_origin_is_unique")],
            },
        ),
        migrations.CreateModel(
            name="LogTip",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "log", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("log", models.IntegerField()),
                ("size", models.BigIntegerField()),
                ("root", models.BinaryField()),
                ("integrated_at", models.DateTimeField()),
                ("signed_size", models.BigIntegerField()),
                ("signed_at", models.DateTimeField(null=True)),
                ("note", models.BinaryField(null=True)),
                ("kept_size", models.BigIntegerField(null=True)),
                ("stopped", models.CharField(blank=True, default="", max_length=40)),
            ],
            options={
                "db_table": "ledger_tip",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("signed_size__lte", models.F("size"))), name="tip_signed_is_integrated"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="PolicyVersion",
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
                ("version", models.CharField(max_length=64)),
                ("digest", models.CharField(max_length=64)),
                ("document", models.BinaryField()),
                ("active", models.BooleanField()),
                ("release_id", models.UUIDField(null=True)),
                ("canary", models.JSONField(null=True)),
                ("created_at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("tenant_id", "kind", "version"), name="policy_version_is_unique"),
                    models.UniqueConstraint(
                        condition=models.Q(("canary__isnull", False)),
                        fields=("tenant_id", "kind"),
                        name="policy_one_canary",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("active", True)), fields=("tenant_id", "kind"), name="policy_one_active"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="RecoveryOrder",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "event_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("event_id", models.UUIDField()),
                ("action_id", models.UUIDField()),
                ("placed_at", models.DateTimeField()),
                ("due_at", models.DateTimeField()),
                ("proposed", models.BooleanField(default=False)),
            ],
            options={
                "db_table": "ledger_order",
                "indexes": [models.Index(fields=["proposed", "due_at"], name="order_by_time")],
            },
        ),
        migrations.CreateModel(
            name="Release",
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
                ("tool", models.CharField(db_default="", default="", max_length=128)),
                ("version", models.CharField(max_length=64)),
                ("digest", models.CharField(max_length=64)),
                ("document", models.BinaryField()),
                ("basis", models.CharField(max_length=64)),
                ("state", models.CharField(max_length=16)),
                ("reason", models.CharField(max_length=1000)),
                ("canary", models.JSONField(null=True)),
                ("author", models.UUIDField()),
                ("first_by", models.UUIDField(null=True)),
                ("promoted_by", models.UUIDField(null=True)),
                ("created_at", models.DateTimeField()),
                ("changed_at", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["tenant_id", "kind", "id"], name="release_by_kind")],
            },
        ),
        migrations.CreateModel(
            name="Retention",
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
                ("payload_days", models.IntegerField()),
                ("envelope_days", models.IntegerField()),
                ("floor_days", models.IntegerField()),
                ("standing", models.BooleanField()),
                ("proposed_by", models.UUIDField()),
                ("proposed_at", models.DateTimeField()),
                ("confirmed_by", models.UUIDField(null=True)),
                ("confirmed_at", models.DateTimeField(null=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("state", "ACTIVE")), fields=("tenant_id",), name="retention_one_in_force"
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("state", "PROPOSED")), fields=("tenant_id",), name="retention_one_proposed"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="RunRollback",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("run_id", models.CharField(max_length=128)),
                ("state", models.CharField(max_length=16)),
                ("reason", models.CharField(max_length=1000)),
                ("opened_at", models.DateTimeField()),
                ("changed_at", models.DateTimeField()),
            ],
            options={
                "db_table": "ledger_unwinding",
                "indexes": [models.Index(fields=["tenant_id", "state", "id"], name="unwinding_by_state")],
                "constraints": [models.UniqueConstraint(fields=("tenant_id", "run_id"), name="unwinding_once_per_run")],
            },
        ),
        migrations.CreateModel(
            name="SubjectKey",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "subject_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("subject_id", models.UUIDField()),
                ("key_id", models.UUIDField()),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("tenant_id", "key_id"), name="key_of_one_subject")],
            },
        ),
        migrations.CreateModel(
            name="System",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("name", models.CharField(max_length=64)),
                ("pattern", models.CharField(max_length=32)),
                ("settings", models.JSONField(default=dict)),
                ("proposal", models.JSONField(null=True)),
                ("registered_at", models.DateTimeField()),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("tenant_id", "name"), name="system_name_is_unique")],
            },
        ),
    ]
