"""What an action is found by changes with its phase and no longer at each step (`ledger/sql/phases.sql`)."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations, models

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("phases.sql", "tables.sql", "append.sql")


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0004_releases"),
    ]

    operations = [
        *(migrations.RunSQL((FOLDER / name).read_text()) for name in FILES),
        migrations.RemoveConstraint(
            model_name="action",
            name="action_one_open_mutation",
        ),
        migrations.RemoveIndex(
            model_name="action",
            name="action_by_state",
        ),
        migrations.RemoveIndex(
            model_name="action",
            name="action_by_outcome",
        ),
        migrations.RemoveIndex(
            model_name="action",
            name="action_demonstrated",
        ),
        migrations.RemoveIndex(
            model_name="action",
            name="action_open_in_run",
        ),
        migrations.RemoveIndex(
            model_name="action",
            name="action_open_in_session",
        ),
        migrations.RemoveIndex(
            model_name="action",
            name="action_failed_in_run",
        ),
        migrations.RemoveIndex(
            model_name="action",
            name="action_succeeded_in_run",
        ),
        migrations.RemoveIndex(
            model_name="action",
            name="action_may_still_happen",
        ),
        migrations.AddField(
            model_name="action",
            name="phase",
            field=models.GeneratedField(
                db_persist=True,
                expression=models.Func(models.F("state"), function="ledger_phase"),
                output_field=models.CharField(max_length=32),
            ),
        ),
        migrations.AddField(
            model_name="action",
            name="set_apart",
            field=models.GeneratedField(
                db_persist=True,
                expression=models.Func(models.F("reached_by"), function="ledger_set_apart"),
                output_field=models.CharField(max_length=64, null=True),
            ),
        ),
        migrations.AddIndex(
            model_name="action",
            index=models.Index(fields=["tenant_id", "phase", "id"], name="action_by_phase"),
        ),
        migrations.AddIndex(
            model_name="action",
            index=models.Index(
                condition=models.Q(("set_apart__isnull", False)),
                fields=["tenant_id", "set_apart", "id"],
                name="action_set_apart",
            ),
        ),
        migrations.AddIndex(
            model_name="action",
            index=models.Index(
                condition=models.Q(("phase", "RECONCILED_SUCCESS")),
                fields=["tenant_id", "agent", "tool"],
                name="action_demonstrated",
            ),
        ),
        migrations.AddIndex(
            model_name="action",
            index=models.Index(
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
        ),
        migrations.AddIndex(
            model_name="action",
            index=models.Index(
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
        ),
        migrations.AddIndex(
            model_name="action",
            index=models.Index(
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
        ),
        migrations.AddIndex(
            model_name="action",
            index=models.Index(
                condition=models.Q(("phase", "RECONCILED_SUCCESS")),
                fields=["tenant_id", "run_id", "contract_digest"],
                name="action_succeeded_in_run",
            ),
        ),
        migrations.AddIndex(
            model_name="action",
            index=models.Index(
                condition=models.Q(("blocks_until__isnull", False), ("mutating", True), ("phase", "FAILED")),
                fields=["tenant_id", "operation_key", "blocks_until"],
                name="action_may_still_happen",
            ),
        ),
        migrations.AddConstraint(
            model_name="action",
            constraint=models.UniqueConstraint(
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
        ),
    ]
