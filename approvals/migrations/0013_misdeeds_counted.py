from __future__ import annotations

from django.db import migrations, models

# What is on record already, of all tenants at once: only here, and by the owner, row-level security stands aside.
FILL = """
ALTER TABLE approvals_session NO FORCE ROW LEVEL SECURITY;
ALTER TABLE approvals_call NO FORCE ROW LEVEL SECURITY;
UPDATE approvals_session s SET undisclosed_attempts = c.undisclosed_attempts, drifts = c.drifts FROM (
    SELECT tenant_id, session_id, count(*) FILTER (WHERE code = 'UNDISCLOSED_TOOL') AS undisclosed_attempts,
        count(*) FILTER (WHERE code = 'ASK_DRIFT') AS drifts
    FROM approvals_call WHERE NOT accepted AND code IN ('UNDISCLOSED_TOOL', 'ASK_DRIFT')
    GROUP BY tenant_id, session_id) c
    WHERE s.tenant_id = c.tenant_id AND s.id = c.session_id;
ALTER TABLE approvals_call FORCE ROW LEVEL SECURITY;
ALTER TABLE approvals_session FORCE ROW LEVEL SECURITY;
"""


class Migration(migrations.Migration):
    dependencies = [("approvals", "0012_budgets")]
    operations = [
        migrations.AddField("session", "undisclosed_attempts", models.IntegerField(db_default=0)),
        migrations.AddField("session", "drifts", models.IntegerField(db_default=0)),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
    ]
