"""Alert rules and alerts over the metrics (`console/sql/alerts.sql`)."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations, models

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("alerts.sql",)
# The record's own file, once more: the transitions of alert rules and of alerts.
TRANSITIONS = Path(__file__).parents[2] / "ledger" / "sql" / "transitions.sql"


class Migration(migrations.Migration):
    dependencies = [
        ("console", "0005_counted_to"),
        ("ledger", "0004_releases"),
    ]

    operations = [
        migrations.CreateModel(
            name="Alert",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("rule_id", models.UUIDField(null=True)),
                ("about", models.CharField(max_length=160)),
                ("version", models.CharField(max_length=64)),
                ("previous", models.CharField(max_length=64)),
                ("said", models.CharField(max_length=1000)),
                ("raised_at", models.DateTimeField()),
                ("cleared_said", models.CharField(default="", max_length=1000)),
                ("cleared_at", models.DateTimeField(null=True)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("about", ""), ("rule_id__isnull", False)),
                            models.Q(("rule_id__isnull", True), models.Q(("about", ""), _negated=True)),
                            _connector="OR",
                        ),
                        name="alert_is_of_a_rule_or_a_regression",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("cleared_at__isnull", True), ("rule_id__isnull", False)),
                        fields=("tenant_id", "rule_id"),
                        name="alert_one_open_per_rule",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("cleared_at__isnull", True), ("rule_id__isnull", True)),
                        fields=("tenant_id", "about"),
                        name="alert_one_open_per_regression",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="AlertRule",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("metric", models.CharField(max_length=4)),
                ("tool", models.CharField(max_length=200)),
                ("agent", models.CharField(max_length=128)),
                ("side_effect_class", models.CharField(max_length=32)),
                ("window_h", models.IntegerField()),
                ("raise_at", models.IntegerField()),
                ("clear_at", models.IntegerField()),
                ("least_cases", models.IntegerField()),
                ("hold_min", models.IntegerField()),
                ("past_since", models.DateTimeField(null=True)),
                ("made_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("clear_at__gte", 0),
                            ("clear_at__lte", 10000),
                            ("raise_at__gte", 0),
                            ("raise_at__lte", 10000),
                            models.Q(("raise_at", models.F("clear_at")), _negated=True),
                        ),
                        name="alert_rule_has_two_thresholds",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("hold_min__gte", 0), ("least_cases__gte", 1), ("window_h__gte", 1)),
                        name="alert_rule_looks_at_something",
                    ),
                ],
            },
        ),
        migrations.RunSQL(TRANSITIONS.read_text()),
        *(migrations.RunSQL((FOLDER / name).read_text()) for name in FILES),
    ]
