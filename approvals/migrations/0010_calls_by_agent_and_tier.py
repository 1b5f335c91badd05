from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("approvals", "0009_attention")]
    operations = [
        migrations.AddField(model_name="agent", name="flags", field=models.JSONField(default=dict)),
        migrations.AddField(model_name="call", name="model_tier", field=models.CharField(default="", max_length=64)),
        migrations.AddField(model_name="session", name="model_tier", field=models.CharField(default="", max_length=64)),
        migrations.AddIndex(
            model_name="call", index=models.Index(fields=["tenant_id", "agent_id", "id"], name="call_by_agent")
        ),
        migrations.AddIndex(
            model_name="call",
            index=models.Index(
                condition=models.Q(accepted=False), fields=["tenant_id", "code", "id"], name="call_refused"
            ),
        ),
    ]
