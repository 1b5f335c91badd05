from __future__ import annotations

from django.db import migrations

# What a start is judged by, beside policies and freezes: it changes behind the tenant's gate (ledger 0018). That a
# passkey was used once more (its counter) is no such change.
TABLES = {
    "approvals_executor": "UPDATE OR DELETE",
    "approvals_approver": "UPDATE OR DELETE",
    "approvals_approverkey": "UPDATE OF state OR DELETE",
}


class Migration(migrations.Migration):
    dependencies = [("approvals", "0007_who_has_a_stake"), ("ledger", "0018_one_gate")]
    operations = [
        migrations.RunSQL(
            "".join(f"SELECT ledger_gate('{table}', '{when}');" for table, when in TABLES.items()),
            "".join(f"DROP TRIGGER gate ON {table};" for table in TABLES),
        )
    ]
