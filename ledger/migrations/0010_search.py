from __future__ import annotations

from django.db import migrations

# What is searched for must be found without reading the record, and what is appended a thousand times a second must
# not pay for it: so only what people did is indexed by who, and only what is not in every action by what. The rest is
# so frequent that reading from the newest on finds it (`ledger.queries.search`).
SEARCH = """
CREATE INDEX event_by_person ON ledger_event (tenant_id, actor_id, id)
    WHERE actor_kind IN ('person', 'operator', 'auditor');
CREATE INDEX event_by_kind ON ledger_event (tenant_id, kind, id) WHERE kind NOT IN (
    'proposed', 'validated', 'grant_minted', 'execution_started', 'observed', 'verification_started', 'verified',
    'reconciled', 'session_opened');
"""


class Migration(migrations.Migration):
    dependencies = [("ledger", "0009_merkle_log")]
    operations = [migrations.RunSQL(SEARCH, "DROP INDEX event_by_person, event_by_kind;")]
