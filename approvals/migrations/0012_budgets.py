from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("approvals", "0011_forced_exit")]
    operations = [
        migrations.AddField("call", "layer", models.CharField(default="", max_length=16)),
        migrations.AddField("call", "autonomy_version", models.CharField(default="", max_length=64)),
        migrations.AddField("session", "probed", models.JSONField(default=list)),
        migrations.AddField("session", "probing_at", models.DateTimeField(null=True)),
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
                    models.CheckConstraint(condition=models.Q(used__gte=0), name="spending_is_no_income"),
                ],
            },
        ),
        migrations.RunSQL("SELECT ledger_isolate('approvals_spending');", migrations.RunSQL.noop),
    ]
