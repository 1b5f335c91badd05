from __future__ import annotations

from django.db import migrations

MOVES = {
    "approval": (
        ("", "PREPARING"),
        ("PREPARING", "REQUESTED"),
        ("PREPARING", "EXPIRED"),
        ("PREPARING", "VOIDED"),
        ("PREPARING", "PREPARING"),
    ),
    "approver_key": (
        ("", "PENDING"),
        ("PENDING", "ACTIVE"),
        ("PENDING", "REFUSED"),
        ("ACTIVE", "SUSPENDED"),
        ("SUSPENDED", "ACTIVE"),
        ("SUSPENDED", "REMOVED"),
        ("PENDING", "PENDING"),
        ("ACTIVE", "ACTIVE"),
        ("SUSPENDED", "SUSPENDED"),
        ("REFUSED", "REFUSED"),
        ("REMOVED", "REMOVED"),
    ),
    "delegation": (("", "ACTIVE"), ("ACTIVE", "ENDED"), ("ACTIVE", "ACTIVE"), ("ENDED", "ENDED")),
    "absence": (("", "ACTIVE"), ("ACTIVE", "ENDED"), ("ACTIVE", "ACTIVE"), ("ENDED", "ENDED")),
    "emergency": (("", "USED"), ("USED", "REVIEWED"), ("USED", "USED"), ("REVIEWED", "REVIEWED")),
}
LEGAL = [(kind, start, target) for kind, moves in MOVES.items() for start, target in moves]
INSERT = "INSERT INTO ledger_transition (kind, from_state, to_state) VALUES " + ", ".join(
    f"('{kind}', '{start}', '{target}')" for kind, start, target in LEGAL
)


class Migration(migrations.Migration):
    dependencies = [("ledger", "0016_integrity_checks")]
    operations = [migrations.RunSQL(INSERT, migrations.RunSQL.noop)]
