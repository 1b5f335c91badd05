from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("reviews", "0009_ungated_effects")]
    operations = [
        migrations.CreateModel(
            "ReadingCount",
            [
                (
                    "pk",
                    models.CompositePrimaryKey(
                        *("tenant_id", "day", "system_id", "tool"),
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
            "ReadingTotal",
            [
                ("tenant_id", models.UUIDField(primary_key=True, serialize=False)),
                ("hour_from", models.DateTimeField(null=True)),
                ("in_hour", models.BigIntegerField(db_default=0)),
                ("day_from", models.DateTimeField(null=True)),
                ("in_day", models.BigIntegerField(db_default=0)),
            ],
        ),
        migrations.RunSQL(
            "SELECT ledger_isolate('reviews_readingcount'); SELECT ledger_isolate('reviews_readingtotal');",
            migrations.RunSQL.noop,
        ),
    ]
