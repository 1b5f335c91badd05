from __future__ import annotations

from django.db import migrations

LEGAL = [("recording", "", "IMPORTED"), ("recording", "IMPORTED", "IMPORTED")]
INSERT = "INSERT INTO ledger_transition (kind, from_state, to_state) VALUES " + ", ".join(
    f"('{kind}', '{start}', '{target}')" for kind, start, target in LEGAL
)

# What may be erased: as before, and the conversations that were recorded elsewhere.
RESTS = """
CREATE OR REPLACE FUNCTION ledger_rests(p_kind text, p_state text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE p_kind
        WHEN 'action' THEN p_state IN ('RECONCILED_SUCCESS', 'COMPENSATED', 'ROLLED_BACK', 'ABANDONED', 'FAILED')
        WHEN 'approval' THEN p_state IN ('REJECTED', 'EXPIRED', 'VOIDED', 'CONSUMED')
        WHEN 'case' THEN p_state = 'RESOLVED'
        WHEN 'session' THEN p_state IN ('OPEN', 'CLOSED')
        WHEN 'incident' THEN p_state = 'CLOSED'
        WHEN 'freeze' THEN p_state = 'LIFTED'
        WHEN 'unwinding' THEN p_state = 'DONE'
        WHEN 'recording' THEN p_state = 'IMPORTED'
        ELSE false END
$$;
"""


class Migration(migrations.Migration):
    dependencies = [("ledger", "0019_demonstrated_tools")]
    operations = [
        migrations.RunSQL(INSERT, "DELETE FROM ledger_transition WHERE kind = 'recording'"),
        migrations.RunSQL(RESTS, migrations.RunSQL.noop),
    ]
