"""What an agent lost, and when: neither a claim nor a start nor an old session gives it back (`sql/agents.sql`)."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations, models

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("agents.sql",)


class Migration(migrations.Migration):
    dependencies = [
        ("approvals", "0006_start_overrides"),
    ]

    operations = [
        migrations.AddField(
            model_name="agent", name="sessions_since", field=models.IntegerField(db_default=0, default=0)
        ),
        migrations.AddField(model_name="agent", name="withdrawn", field=models.JSONField(db_default={}, default=dict)),
        migrations.AddField(model_name="session", name="agent_seq", field=models.IntegerField(db_default=0)),
        migrations.AddField(model_name="session", name="used_at", field=models.DateTimeField(null=True)),
        *(migrations.RunSQL((FOLDER / name).read_text()) for name in FILES),
    ]
