from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("approvals", "0010_calls_by_agent_and_tier"),
    ]

    operations = [
        migrations.AddField(
            model_name="session",
            name="forced_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddIndex(
            model_name="session",
            index=models.Index(
                condition=models.Q(("forced_at__isnull", False)),
                fields=["tenant_id", "run_id"],
                name="session_forced_out",
            ),
        ),
    ]
