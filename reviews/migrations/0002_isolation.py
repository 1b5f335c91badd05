from __future__ import annotations

from django.db import migrations

TENANT_TABLES = [
    "reviews_observation",
    "reviews_run",
    "reviews_case",
    "reviews_comment",
    "reviews_incident",
    "reviews_report",
]
APPEND_ONLY = ["reviews_observation", "reviews_run", "reviews_comment", "reviews_report"]


class Migration(migrations.Migration):
    dependencies = [("reviews", "0001_initial"), ("ledger", "0004_one_door")]
    operations = [
        migrations.RunSQL(
            "".join(f"SELECT ledger_isolate('{table}');" for table in TENANT_TABLES),
            "".join(f"DROP POLICY one_tenant ON {table};" for table in TENANT_TABLES),
        ),
        migrations.RunSQL(
            "".join(f"SELECT ledger_make_append_only('{table}');" for table in APPEND_ONLY),
            "".join(
                f"DROP TRIGGER no_change ON {table}; DROP TRIGGER no_truncate ON {table};" for table in APPEND_ONLY
            ),
        ),
    ]
