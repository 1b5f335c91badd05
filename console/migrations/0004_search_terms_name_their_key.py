"""The search terms of a tenant name the key under which they are, so that another key has them made anew."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("console", "0003_keys_name_their_tenant")]

    operations = [
        migrations.AddField(
            model_name="searchcursor",
            name="key_name",
            field=models.CharField(db_default="", default="", max_length=16),
        )
    ]
