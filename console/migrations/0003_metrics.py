"""The roll-ups of metrics, and whose rows they are (`console/sql/metrics.sql`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.db import migrations, models

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("metrics.sql",)
OF_ACTIONS = (
    *("actions", "executed", "verified_success", "ended_failed", "ended_reversed", "ended_by_word", "unsettled"),
    *("verification_failed", "read_back", "mismatched", "stale_reads", "stale_state", "partial", "pending"),
    *("pending_over_sla", "unknown", "duplicated", "repeats", "repeats_absorbed", "compensations", "compensated"),
    *("compensations_failed", "false_success", "reviewed", "complete_records", "readings", "never_ran", "answered"),
)
OF_CALLS = (
    *("calls", "calls_accepted", "calls_undisclosed", "calls_valid", "calls_failed", "calls_arguments"),
    "calls_phantom",
)
LENGTHS = {"tool": 200, "agent": 128, "side_effect_class": 32, "version": 64}


def _counts(names: Sequence[str]) -> list[tuple[str, models.Field[Any, Any]]]:
    return [(name, models.IntegerField(default=0)) for name in names]


def _dimensions() -> list[tuple[str, models.Field[Any, Any]]]:
    return [(name, models.CharField(max_length=length)) for name, length in LENGTHS.items()]


class Migration(migrations.Migration):
    dependencies = [
        ("console", "0002_fences"),
        ("ledger", "0002_fences"),
    ]

    operations = [
        migrations.CreateModel(
            name="MetricCursor",
            fields=[
                ("tenant_id", models.UUIDField(primary_key=True, serialize=False)),
                ("read_to", models.DateTimeField()),
                ("looked_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="MetricDelay",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "span",
                        "start",
                        "kind",
                        "tool",
                        "agent",
                        "side_effect_class",
                        "version",
                        "rounded_ms",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("span", models.SmallIntegerField()),
                ("start", models.DateTimeField()),
                ("kind", models.CharField(max_length=12)),
                *_dimensions(),
                ("rounded_ms", models.BigIntegerField()),
                ("count", models.IntegerField()),
                ("total_ms", models.BigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="MetricRollUp",
            fields=[
                *_counts(OF_ACTIONS),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "span",
                        "start",
                        "tool",
                        "agent",
                        "side_effect_class",
                        "version",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("span", models.SmallIntegerField()),
                ("start", models.DateTimeField()),
                *_dimensions(),
                *_counts(OF_CALLS),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="MetricAction",
            fields=[
                *_counts(OF_ACTIONS),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "action_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("action_id", models.UUIDField()),
                ("seq", models.IntegerField()),
                ("hour", models.DateTimeField()),
                *_dimensions(),
                ("verification_ms", models.BigIntegerField(null=True)),
                ("reconcile_ms", models.BigIntegerField(null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["tenant_id", "hour", "action_id"], name="metric_action_by_hour")],
            },
        ),
        *(migrations.RunSQL((FOLDER / name).read_text()) for name in FILES),
    ]
