from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("approvals", "0006_salt_of_a_challenge")]

    operations = [
        migrations.AddField("agent", "owner", models.UUIDField(null=True)),
        migrations.AddField("session", "on_behalf_of", models.UUIDField(null=True)),
        migrations.AddField("approval", "stranded_at", models.DateTimeField(null=True)),
    ]
