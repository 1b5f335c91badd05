"""Leases of processes: work that one process does at a time."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0013_integrity_check_findings"),
    ]

    operations = [
        migrations.CreateModel(
            name="ProcessLease",
            fields=[
                ("name", models.CharField(max_length=32, primary_key=True, serialize=False)),
                ("holder", models.UUIDField()),
                ("renewed_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
            ],
        ),
    ]
