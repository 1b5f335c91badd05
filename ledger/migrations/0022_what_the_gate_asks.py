from __future__ import annotations

from importlib import import_module

from django.db import migrations, models
from django.db.models import Q

_before = import_module("ledger.migrations.0012_one_statement")

# Whether an action's agent knows how it ended is in the kinds of its events: the one door writes it down as they come.
NOTICE = """(e ->> 'kind' IN ('validation_failed', 'superseded', 'failure_acknowledged', 'recovery_acknowledged')
            OR (e ->> 'kind' = 'cancelled' AND e #>> '{actor,kind}' = 'agent'))"""
PARTS = {"event": _before.EVENT, "entry": _before.ENTRY, "pending": _before.PENDING}
CHANGING = "".join(_before._changed(name, kind) for name, kind in _before.CHANGING.items())
FIRST = "'state', v_state, 'seq', 1,"
APPEND = _before.APPEND.replace(FIRST, f"{FIRST} 'noticed', {NOTICE},") % (
    PARTS | {"changing": f"{CHANGING},\n            noticed = noticed OR {NOTICE}"}
)
UNDO = _before.APPEND % (PARTS | {"changing": CHANGING})

# What is on record already, of all tenants at once: only here, and by the owner, row-level security stands aside.
FILL = """
ALTER TABLE ledger_action NO FORCE ROW LEVEL SECURITY;
ALTER TABLE ledger_event NO FORCE ROW LEVEL SECURITY;
UPDATE ledger_action a SET noticed = true FROM (
    SELECT DISTINCT tenant_id, subject_id FROM ledger_event
    WHERE kind IN ('validation_failed', 'superseded', 'failure_acknowledged', 'recovery_acknowledged')
        OR (kind = 'cancelled' AND actor_kind = 'agent')) e
    WHERE a.tenant_id = e.tenant_id AND a.id = e.subject_id;
ALTER TABLE ledger_event FORCE ROW LEVEL SECURITY;
ALTER TABLE ledger_action FORCE ROW LEVEL SECURITY;
"""

OPEN = [
    "ACCEPTED",
    "COMMITTED",
    "COMPENSATING",
    "COMPENSATION_FAILED",
    "EXECUTING",
    "FORWARD_RECOVERY",
    "PARTIALLY_COMMITTED",
    "PENDING",
    "PROPOSED",
    "RECONCILIATION_FAILED",
    "REVIEW_REQUIRED",
    "UNKNOWN",
    "VALIDATED",
    "VERIFICATION_TIMEOUT",
]
IS_OPEN = Q(contradicted=True) | Q(state__in=OPEN)
ENDED_OTHERWISE = Q(state__in=["ABANDONED", "COMPENSATED", "FAILED", "ROLLED_BACK"])

INDEXES = {
    "action_open_in_run": (["tenant_id", "run_id", "target", "id"], IS_OPEN),
    "action_open_in_session": (["tenant_id", "session_id", "contradicted", "state"], IS_OPEN),
    "action_failed_in_run": (
        ["tenant_id", "run_id", "id"],
        Q(relation="", mutating=True, noticed=False) & (ENDED_OTHERWISE | Q(state="RECONCILED_SUCCESS", reversed=True)),
    ),
    "action_succeeded_in_run": (["tenant_id", "run_id", "contract_digest"], Q(state="RECONCILED_SUCCESS")),
    "action_may_still_happen": (
        ["tenant_id", "operation_key", "blocks_until"],
        Q(mutating=True, state="FAILED", blocks_until__isnull=False),
    ),
    "action_contradicted": (["tenant_id", "operation_key", "id"], Q(mutating=True, contradicted=True)),
}


class Migration(migrations.Migration):
    dependencies = [("ledger", "0021_holds_on_recordings")]
    operations = [
        migrations.AddField("action", "noticed", models.BooleanField(db_default=False)),
        migrations.RunSQL(APPEND, UNDO),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
        *(
            migrations.AddIndex("action", models.Index(fields=fields, condition=condition, name=name))
            for name, (fields, condition) in INDEXES.items()
        ),
    ]
