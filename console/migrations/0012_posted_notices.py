"""Where a message stands in a room that lets us change it, and how much of it still waited."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("console", "0011_user_guide"),
    ]
    operations = [
        migrations.AddField(
            model_name="notice",
            name="posted",
            field=models.CharField(db_default="", default="", max_length=64),
        ),
        migrations.AddField(
            model_name="notice",
            name="waiting",
            field=models.IntegerField(db_default=0, default=0),
        ),
        migrations.AddIndex(
            model_name="notice",
            index=models.Index(
                condition=models.Q(("posted", ""), _negated=True), fields=["tenant_id", "id"], name="notice_posted"
            ),
        ),
    ]
