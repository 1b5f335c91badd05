from __future__ import annotations

from importlib import import_module

from django.db import migrations, models
from django.db.models import Q

_before = import_module("ledger.migrations.0022_what_the_gate_asks")

# What an action's outcome follows from beside its state: the kind of the event by which it came there. The one door
# writes it down with every step, and with the events that settle or open something without one.
KINDS = """('approval_granted', 'approval_asked_again', 'approval_revalidated', 'attested_present', 'attested_absent',
                'compensated', 'compensation_attested')"""
FIRST = "'noticed', "
LATER = "noticed = noticed OR "
APPEND = _before.APPEND.replace(FIRST, f"'reached_by', e ->> 'kind', {FIRST}").replace(
    LATER,
    "reached_by = CASE WHEN v_from IS DISTINCT FROM v_state OR e ->> 'kind' IN "
    f"{KINDS} THEN e ->> 'kind' ELSE reached_by END,\n            {LATER}",
)

SET_APART = (
    "approval_expired",
    "approval_voided",
    "attested_absent",
    "attested_present",
    "cancelled",
    "changes_requested",
    "compensation_attested",
    "failed_by_review",
    "outside_autonomy",
    "preflight_refused",
    "provider_outage",
    "rejected",
    "superseded",
    "validation_failed",
)

# What is on record already, of all tenants at once: only here, and by the owner, row-level security stands aside.
FILL = f"""
ALTER TABLE ledger_action NO FORCE ROW LEVEL SECURITY;
ALTER TABLE ledger_event NO FORCE ROW LEVEL SECURITY;
UPDATE ledger_action a SET reached_by = e.kind FROM (
    SELECT DISTINCT ON (tenant_id, subject_id) tenant_id, subject_id, kind FROM ledger_event
    WHERE subject_kind = 'action' AND (from_state <> state OR kind IN {KINDS})
    ORDER BY tenant_id, subject_id, seq DESC) e
    WHERE a.tenant_id = e.tenant_id AND a.id = e.subject_id;
ALTER TABLE ledger_event FORCE ROW LEVEL SECURITY;
ALTER TABLE ledger_action FORCE ROW LEVEL SECURITY;
"""


class Migration(migrations.Migration):
    dependencies = [("ledger", "0022_what_the_gate_asks")]
    operations = [
        migrations.AddField("action", "reached_by", models.CharField(db_default="", max_length=64)),
        migrations.RunSQL(APPEND, _before.APPEND),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
        migrations.AddIndex(
            "action",
            models.Index(
                fields=["tenant_id", "reached_by", "id"],
                condition=Q(reached_by__in=SET_APART),
                name="action_by_outcome",
            ),
        ),
        migrations.AddIndex(
            "action",
            models.Index(
                fields=["tenant_id", "id"], condition=Q(contradicted=True) | Q(reversed=True), name="action_turned"
            ),
        ),
    ]
