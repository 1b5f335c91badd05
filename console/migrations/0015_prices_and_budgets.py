"""The price list and the budgets of costs (`console/sql/costs.sql`)."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations, models

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("costs.sql",)
# The record's own file, once more: the transitions of prices and budgets.
TRANSITIONS = Path(__file__).parents[2] / "ledger" / "sql" / "transitions.sql"


class Migration(migrations.Migration):
    dependencies = [("console", "0014_unchanged_actions"), ("ledger", "0019_wrong_clocks")]

    operations = [
        migrations.CreateModel(
            name="Price",
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
                ("about", models.CharField(max_length=128)),
                ("agent", models.CharField(max_length=128)),
                ("amount", models.DecimalField(decimal_places=8, max_digits=20)),
                ("currency", models.CharField(max_length=3)),
                ("payer", models.CharField(max_length=100)),
                ("set_at", models.DateTimeField()),
                ("valid_from", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("valid_from__gte", models.F("set_at"))), name="price_is_not_of_the_past"
                    ),
                    models.CheckConstraint(condition=models.Q(("amount__gte", 0)), name="price_is_not_negative"),
                ],
            },
        ),
        migrations.CreateModel(
            name="CostBudget",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("amount", models.DecimalField(decimal_places=8, max_digits=20)),
                ("currency", models.CharField(max_length=3)),
                ("share", models.SmallIntegerField()),
                ("set_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
                ("told_month", models.CharField(default="", max_length=7)),
                ("told", models.CharField(default="", max_length=6)),
                ("said", models.CharField(default="", max_length=300)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("ended_at__isnull", True)),
                        fields=("tenant_id", "currency"),
                        name="cost_budget_one_a_currency",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("amount__gt", 0), ("share__gte", 1), ("share__lte", 100)),
                        name="cost_budget_is_an_amount",
                    ),
                ],
            },
        ),
        migrations.RunSQL(TRANSITIONS.read_text()),
        *(migrations.RunSQL((FOLDER / name).read_text()) for name in FILES),
    ]
