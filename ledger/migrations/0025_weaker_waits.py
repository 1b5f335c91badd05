from __future__ import annotations

from django.db import migrations, models

LEGAL = [
    ("contract", "", "PENDING"),
    ("contract", "PENDING", "PENDING"),
    ("contract", "PENDING", "REGISTERED"),
    ("contract", "PENDING", "DECLINED"),
    ("contract", "DECLINED", "DECLINED"),
]
INSERT = "INSERT INTO ledger_transition (kind, from_state, to_state) VALUES " + ", ".join(
    f"('{kind}', '{start}', '{target}')" for kind, start, target in LEGAL
)

# Whatever the code above it forgets: no action begins under a version that nobody has confirmed, or somebody declined.
FENCE = """
CREATE FUNCTION ledger_contract_in_force() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF EXISTS (
        SELECT FROM ledger_contractversion c JOIN ledger_subject s ON s.tenant_id = c.tenant_id AND s.id = c.id
        WHERE c.tenant_id = NEW.tenant_id AND c.name = NEW.tool AND c.version = NEW.tool_version
            AND s.state <> 'REGISTERED'
    ) THEN
        RAISE EXCEPTION 'version % of % is not in force', NEW.tool_version, NEW.tool USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER contract_in_force BEFORE INSERT ON ledger_action
    FOR EACH ROW EXECUTE FUNCTION ledger_contract_in_force();
ALTER TABLE ledger_action ENABLE ALWAYS TRIGGER contract_in_force;
"""
GONE = "DROP TRIGGER contract_in_force ON ledger_action; DROP FUNCTION ledger_contract_in_force();"


class Migration(migrations.Migration):
    dependencies = [("ledger", "0024_one_idempotency_status")]
    operations = [
        migrations.AddField(
            model_name="contractversion",
            name="weakens",
            field=models.JSONField(db_default=[], default=list),
        ),
        migrations.AddField(
            model_name="contractversion",
            name="compared_with",
            field=models.CharField(db_default="", default="", max_length=64),
        ),
        migrations.AddField(
            model_name="contractversion",
            name="sent_by",
            field=models.UUIDField(null=True),
        ),
        migrations.AddField(
            model_name="system",
            name="proposal",
            field=models.JSONField(null=True),
        ),
        migrations.RunSQL(INSERT, migrations.RunSQL.noop),
        migrations.RunSQL(FENCE, GONE),
    ]
