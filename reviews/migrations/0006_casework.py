from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("reviews", "0005_lanes")]
    operations = [
        migrations.AddField("case", "snoozed_until", models.DateTimeField(null=True)),
        migrations.AddField("case", "snooze_reason", models.TextField(blank=True, default=""), False),
        # An incident has a thread as well.
        migrations.RemoveIndex("comment", "comment_by_case"),
        migrations.RenameField("comment", "case_id", "subject_id"),
        migrations.AddIndex(
            "comment", models.Index(fields=["tenant_id", "subject_id", "id"], name="comment_by_subject")
        ),
    ]
