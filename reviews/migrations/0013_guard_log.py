from __future__ import annotations

from django.db import migrations, models

# What a hash or a place of a word could still tell goes with the session; codes and states stay.
BLANK = """
INSERT INTO ledger_blank (relation, subject, columns) VALUES
    ('reviews_guardverdict', 'session_id', '{"message_hash": "", "claims": []}');
"""


class Migration(migrations.Migration):
    dependencies = [("reviews", "0012_runs_go_with_their_action"), ("ledger", "0013_erasure")]

    operations = [
        migrations.CreateModel(
            name="GuardVerdict",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("session_id", models.UUIDField()),
                ("event_id", models.UUIDField()),
                ("verdict", models.CharField(max_length=8)),
                ("codes", models.JSONField()),
                ("tags", models.JSONField()),
                ("claims", models.JSONField()),
                ("records", models.JSONField()),
                ("message_hash", models.CharField(max_length=64)),
                ("pointer", models.UUIDField()),
                ("at", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["tenant_id", "session_id", "id"], name="guard_verdict_by_session")],
            },
        ),
        migrations.RunSQL("SELECT ledger_isolate('reviews_guardverdict');", migrations.RunSQL.noop),
        migrations.RunSQL("SELECT ledger_make_append_only('reviews_guardverdict');", migrations.RunSQL.noop),
        migrations.RunSQL(BLANK, migrations.RunSQL.noop),
    ]
