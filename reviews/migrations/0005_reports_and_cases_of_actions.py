"""Reports and cases of an action, and the cases that wait in their order, are found by an index."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("reviews", "0004_case_by_target"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="case",
            index=models.Index(fields=["tenant_id", "action_id", "id"], name="case_by_action"),
        ),
        migrations.AddIndex(
            model_name="case",
            index=models.Index(
                models.F("tenant_id"),
                models.OrderBy(models.F("severity"), descending=True),
                models.F("opened_at"),
                models.F("id"),
                condition=models.Q(("state", "RESOLVED"), _negated=True),
                name="case_waiting",
            ),
        ),
        migrations.AddIndex(
            model_name="report",
            index=models.Index(fields=["tenant_id", "action_id", "id"], name="report_by_action"),
        ),
    ]
