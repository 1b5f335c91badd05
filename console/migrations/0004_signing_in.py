from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    """Where Django's cache keeps which codes were used, and how many were wrong."""

    dependencies = [("console", "0003_notices")]
    operations = [
        migrations.RunSQL(
            "CREATE TABLE console_cache (cache_key varchar(255) PRIMARY KEY, value text NOT NULL,"
            " expires timestamptz NOT NULL); CREATE INDEX console_cache_expires ON console_cache (expires);",
            "DROP TABLE console_cache;",
        ),
    ]
