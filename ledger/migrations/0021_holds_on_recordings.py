from __future__ import annotations

from django.db import migrations, models

# As before, and of a recording by its id.
HELD = """
CREATE OR REPLACE FUNCTION ledger_on_hold(p_subjects uuid[]) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT EXISTS (SELECT FROM ledger_event e
        JOIN ledger_subject s ON s.tenant_id = e.tenant_id AND s.id = e.subject_id
        JOIN ledger_entry n ON n.tenant_id = s.tenant_id AND n.subject_id = s.id AND n.seq = 1
        CROSS JOIN LATERAL jsonb_to_record(convert_from(n.detail, 'UTF8')::jsonb) AS h (scope text, value text)
        WHERE e.tenant_id = ledger_current_tenant() AND e.kind = 'hold_placed' AND e.seq = 1 AND s.kind = 'hold'
        AND s.state = 'PLACED' AND (h.scope = 'all'
            OR (h.scope IN ('action', 'recording') AND h.value = ANY(p_subjects::text[]))
            OR EXISTS (SELECT FROM ledger_action a WHERE a.tenant_id = s.tenant_id AND a.id = ANY(p_subjects)
                AND ((h.scope = 'target' AND a.target = h.value) OR (h.scope = 'agent' AND a.agent = h.value)))))
$$;
"""


class Migration(migrations.Migration):
    dependencies = [("ledger", "0020_recordings")]
    operations = [
        migrations.RemoveConstraint("hold", "hold_scope_is_known"),
        migrations.AlterField("hold", "scope", models.CharField(max_length=16)),
        migrations.AddConstraint(
            "hold",
            models.CheckConstraint(
                condition=models.Q(scope__in=["action", "target", "agent", "recording", "all"]),
                name="hold_scope_is_known",
            ),
        ),
        migrations.RunSQL(HELD, migrations.RunSQL.noop),
    ]
