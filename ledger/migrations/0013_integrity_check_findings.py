"""An integrity check keeps everything that it finds."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ledger", "0012_evidence_has_an_event")]

    operations = [
        migrations.AddField(
            model_name="integritycheck",
            name="findings",
            field=models.JSONField(db_default={}, default=dict),
        ),
    ]
