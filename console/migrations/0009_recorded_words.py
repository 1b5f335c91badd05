from __future__ import annotations

from itertools import islice
from typing import Any

import django.contrib.postgres.fields
from django.db import migrations, models

from console.recordings import words

BLANK = """
INSERT INTO ledger_blank (relation, subject, columns) VALUES
    ('console_recordedword', 'recording_id', '{"word": "", "conversations": []}');
"""
PORTION = 500


def gather(apps: Any, schema_editor: Any) -> None:
    """The words of what was imported before; each tenant's are read and written as that tenant's."""
    connection = schema_editor.connection

    def rows(app: str, name: str) -> Any:
        return apps.get_model(app, name).objects.using(connection.alias)

    word = apps.get_model("console", "RecordedWord")
    for tenant_id in rows("ledger", "Tenant").values_list("id", flat=True):
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('app.tenant', %s, true)", [str(tenant_id)])
        for recording_id in rows("console", "Recording").filter(tenant_id=tenant_id).values_list("id", flat=True):
            here = {"tenant_id": tenant_id, "recording_id": recording_id}
            conversations = rows("console", "RecordedConversation").filter(**here).order_by("number")
            messages = rows("console", "RecordedMessage").filter(**here).order_by("conversation", "number")
            found = words.rows(
                conversations.values("number", "label").iterator(),
                messages.values("conversation", "text", "calls").iterator(),
            )
            while portion := list(islice(found, PORTION)):
                rows("console", "RecordedWord").bulk_create([word(**here, **each) for each in portion])


class Migration(migrations.Migration):
    dependencies = [("console", "0008_recordings")]
    operations = [
        migrations.CreateModel(
            "RecordedWord",
            [
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "recording_id",
                        "number",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("recording_id", models.UUIDField()),
                ("number", models.IntegerField()),
                ("word", models.TextField(db_collation="C")),
                ("conversations", django.contrib.postgres.fields.ArrayField(models.IntegerField())),
            ],
            options={
                "indexes": [models.Index(fields=["tenant_id", "word", "recording_id"], name="recorded_words")],
            },
        ),
        migrations.RunSQL(
            "SELECT ledger_isolate('console_recordedword'); SELECT ledger_make_append_only('console_recordedword');"
            + BLANK,
            migrations.RunSQL.noop,
        ),
        migrations.RunPython(gather, migrations.RunPython.noop),
    ]
