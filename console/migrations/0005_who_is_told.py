from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("console", "0004_signing_in"),
    ]

    operations = [
        migrations.CreateModel(
            name="Message",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("actor_id", models.UUIDField()),
                ("kind", models.CharField(max_length=32)),
                ("risk", models.CharField(max_length=6)),
                ("about_kind", models.CharField(max_length=20)),
                ("about_id", models.UUIDField()),
                ("source_id", models.UUIDField()),
                ("raised_at", models.DateTimeField()),
                ("read_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="NoticeCursor",
            fields=[
                ("tenant_id", models.UUIDField(primary_key=True, serialize=False)),
                ("read_to", models.DateTimeField()),
                ("recent", models.JSONField(default=list)),
            ],
        ),
        migrations.CreateModel(
            name="NoticeSettings",
            fields=[
                ("tenant_id", models.UUIDField(primary_key=True, serialize=False)),
                ("document", models.JSONField()),
                ("changed_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="NoticeWish",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "actor_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("actor_id", models.UUIDField()),
                ("email", models.JSONField(default=dict)),
                ("digest_min", models.IntegerField(null=True)),
                ("quiet_from", models.TimeField(null=True)),
                ("quiet_until", models.TimeField(null=True)),
                ("zone", models.CharField(default="UTC", max_length=64)),
                ("urgent_passes", models.BooleanField(default=True)),
                ("changed_at", models.DateTimeField()),
            ],
        ),
        migrations.AddField(
            model_name="notice",
            name="actor_id",
            field=models.UUIDField(null=True),
        ),
        migrations.AddField(
            model_name="notice",
            name="lines",
            field=models.JSONField(default=list),
        ),
        migrations.AddField(
            model_name="notice",
            name="risk",
            field=models.CharField(default="", max_length=6),
        ),
        migrations.AddField(
            model_name="notice",
            name="topic",
            field=models.CharField(default="alarm", max_length=8),
        ),
        migrations.AddIndex(
            model_name="notice",
            index=models.Index(
                condition=models.Q(("given_up_at__isnull", False)),
                fields=["tenant_id", "id"],
                name="notice_undelivered",
            ),
        ),
        migrations.AddIndex(
            model_name="notice",
            index=models.Index(fields=["tenant_id", "actor_id", "channel", "raised_at"], name="notice_lately"),
        ),
        migrations.AddIndex(
            model_name="message",
            index=models.Index(fields=["tenant_id", "actor_id", "id"], name="message_by_person"),
        ),
        migrations.AddIndex(
            model_name="message",
            index=models.Index(
                condition=models.Q(("read_at__isnull", True)),
                fields=["tenant_id", "actor_id", "id"],
                name="message_unread",
            ),
        ),
        migrations.AddIndex(
            model_name="message",
            index=models.Index(fields=["tenant_id", "about_id", "actor_id"], name="message_by_subject"),
        ),
        migrations.AddConstraint(
            model_name="message",
            constraint=models.UniqueConstraint(
                fields=("tenant_id", "source_id", "actor_id"), name="message_once_to_each"
            ),
        ),
        migrations.RunSQL(
            "SELECT ledger_isolate('console_message'); SELECT ledger_isolate('console_noticesettings');"
            "SELECT ledger_isolate('console_noticewish'); SELECT ledger_isolate('console_noticecursor');",
            migrations.RunSQL.noop,
        ),
    ]
