from __future__ import annotations

from django.db import migrations

BLANK = """
INSERT INTO ledger_blank (relation, subject, columns) VALUES
    ('approvals_session', 'id', '{"goal": "", "pin_hash": ""}'),
    ('approvals_call', 'action_id',
        '{"call_id": "", "tool": "", "restated_goal": "", "reason": "", "result": {}, "request_hash": ""}'),
    ('approvals_call', 'session_id',
        '{"call_id": "", "tool": "", "restated_goal": "", "reason": "", "result": {}, "request_hash": ""}'),
    ('approvals_approval', 'id', '{"payload_hash": "", "rendering_digest": ""}'),
    ('approvals_vote', 'approval_id', '{"statement": "\\\\x", "statement_hash": "", "reason": ""}');
"""


class Migration(migrations.Migration):
    dependencies = [("approvals", "0003_session_unwinds"), ("ledger", "0013_erasure")]
    operations = [migrations.RunSQL(BLANK, migrations.RunSQL.noop)]
