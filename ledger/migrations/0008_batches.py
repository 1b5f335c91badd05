from __future__ import annotations

from django.db import migrations

LEGAL = [
    ("batch", "", "RUNNING"),
    ("batch", "CANCELLED", "CANCELLED"),
    ("batch", "DONE", "DONE"),
    ("batch", "PAUSED", "CANCELLED"),
    ("batch", "PAUSED", "PAUSED"),
    ("batch", "PAUSED", "RUNNING"),
    ("batch", "RUNNING", "CANCELLED"),
    ("batch", "RUNNING", "DONE"),
    ("batch", "RUNNING", "PAUSED"),
    ("batch", "RUNNING", "RUNNING"),
]
INSERT = "INSERT INTO ledger_transition (kind, from_state, to_state) VALUES " + ", ".join(
    f"('{kind}', '{start}', '{target}')" for kind, start, target in LEGAL
)


class Migration(migrations.Migration):
    dependencies = [("ledger", "0007_order_queue")]
    operations = [migrations.RunSQL(INSERT, migrations.RunSQL.noop)]
