from __future__ import annotations

from django.db import migrations, models
from django.db.models import Q

TABLES = ("console_recording", "console_recordedconversation", "console_recordedmessage")

# Whatever came out of the file goes with the recording; numbers, codes and kinds of findings stay.
BLANK = """
INSERT INTO ledger_blank (relation, subject, columns) VALUES
    ('console_recording', 'id', '{"file_name": "", "digest": "", "totals": {}, "unread": []}'),
    ('console_recordedconversation', 'recording_id', '{"label": "", "path": "", "findings": [], "unread": []}'),
    ('console_recordedmessage', 'recording_id',
        '{"text": "", "calls": [], "answers": [], "claims": [], "corrected": ""}');
"""


def key(*fields: str) -> models.CompositePrimaryKey:
    return models.CompositePrimaryKey(*fields, blank=True, editable=False, primary_key=True, serialize=False)


class Migration(migrations.Migration):
    dependencies = [("console", "0007_saved_views"), ("ledger", "0020_recordings")]
    operations = [
        migrations.CreateModel(
            "Recording",
            [
                ("pk", key("tenant_id", "id")),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("file_name", models.CharField(max_length=300)),
                ("digest", models.CharField(max_length=64)),
                ("size", models.BigIntegerField()),
                ("trust", models.CharField(max_length=8)),
                ("version", models.IntegerField()),
                ("contracts", models.CharField(max_length=64)),
                ("conversations", models.IntegerField()),
                ("messages", models.IntegerField()),
                ("calls", models.IntegerField()),
                ("with_findings", models.IntegerField()),
                ("false_claims", models.IntegerField()),
                ("faults", models.IntegerField()),
                ("totals", models.JSONField()),
                ("unread", models.JSONField()),
                ("named", models.UUIDField(null=True)),
                ("at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=~Q(digest=""), fields=["tenant_id", "digest"], name="recording_once_by_its_digest"
                    )
                ]
            },
        ),
        migrations.CreateModel(
            "RecordedConversation",
            [
                ("pk", key("tenant_id", "recording_id", "number")),
                ("tenant_id", models.UUIDField()),
                ("recording_id", models.UUIDField()),
                ("number", models.IntegerField()),
                ("label", models.CharField(max_length=300)),
                ("path", models.CharField(max_length=300)),
                ("format", models.CharField(max_length=32)),
                ("messages", models.IntegerField()),
                ("calls", models.IntegerField()),
                ("false_claims", models.IntegerField()),
                ("severity", models.IntegerField()),
                ("tools_known", models.BooleanField()),
                ("kinds", models.JSONField()),
                ("codes", models.JSONField()),
                ("findings", models.JSONField()),
                ("unread", models.JSONField()),
            ],
            options={
                "indexes": [
                    models.Index(
                        fields=["tenant_id", "recording_id", "-severity", "number"], name="recorded_by_severity"
                    )
                ]
            },
        ),
        migrations.CreateModel(
            "RecordedMessage",
            [
                ("pk", key("tenant_id", "recording_id", "conversation", "number")),
                ("tenant_id", models.UUIDField()),
                ("recording_id", models.UUIDField()),
                ("conversation", models.IntegerField()),
                ("number", models.IntegerField()),
                ("role", models.CharField(max_length=16)),
                ("text", models.CharField(max_length=10_000)),
                ("length", models.IntegerField()),
                ("calls", models.JSONField()),
                ("answers", models.JSONField()),
                ("claims", models.JSONField()),
                ("corrected", models.CharField(max_length=10_000)),
            ],
        ),
        migrations.RunSQL(
            "".join(
                f"SELECT ledger_isolate('{table}'); SELECT ledger_make_append_only('{table}');" for table in TABLES
            ),
            migrations.RunSQL.noop,
        ),
        migrations.RunSQL(BLANK, migrations.RunSQL.noop),
    ]
