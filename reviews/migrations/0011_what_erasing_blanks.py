from __future__ import annotations

from django.db import migrations

BLANK = """
INSERT INTO ledger_blank (relation, subject, columns) VALUES
    ('reviews_observation', 'action_id', '{"error_code": ""}'),
    ('reviews_case', 'id', '{"target": "", "proposed_reason": "", "proposed_evidence": [], "snooze_reason": ""}'),
    ('reviews_comment', 'subject_id', '{"text": ""}'),
    ('reviews_incident', 'id', '{"title": "", "closing_note": "", "about": ""}'),
    ('reviews_batchitem', 'case_id', '{"detail": ""}'),
    ('reviews_report', 'action_id', '{"text": ""}');
"""


class Migration(migrations.Migration):
    dependencies = [("reviews", "0010_what_readings_cost"), ("ledger", "0013_erasure")]
    operations = [migrations.RunSQL(BLANK, migrations.RunSQL.noop)]
