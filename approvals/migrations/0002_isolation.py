from __future__ import annotations

from django.db import migrations

TENANT_TABLES = [
    "approvals_agent",
    "approvals_agentversion",
    "approvals_session",
    "approvals_call",
    "approvals_approval",
    "approvals_vote",
    "approvals_executor",
    "approvals_grant",
    "approvals_attempt",
]
APPEND_ONLY = ["approvals_agentversion", "approvals_call", "approvals_vote"]


class Migration(migrations.Migration):
    dependencies = [("approvals", "0001_initial"), ("ledger", "0004_one_door")]
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
