"""Sessions that continue another one name the first of them."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("approvals", "0002_functions_and_fences")]
    operations = [
        migrations.AddField(model_name="session", name="first_id", field=models.UUIDField(null=True)),
        migrations.AddIndex(
            model_name="session",
            index=models.Index(
                fields=["tenant_id", "first_id"],
                condition=models.Q(first_id__isnull=False),
                name="session_by_first",
            ),
        ),
    ]
