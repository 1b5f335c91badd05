-- What erasing leaves empty in the tables of this app (ledger/sql/erasure.sql).

INSERT INTO ledger_blank (relation, subject, columns) VALUES
    ('reviews_observation', 'action_id', '{"error_code": ""}'),
    -- A run holds codes only, so it stays as it is, but for what a system said of its own freshness.
    ('reviews_run', 'action_id', '{"freshness": ""}'),
    ('reviews_case', 'id', '{"target": "", "proposed_reason": "", "proposed_evidence": [], "snooze_reason": ""}'),
    ('reviews_claim', 'id', '{"operation": "", "target": "", "said_by": ""}'),
    ('reviews_comment', 'subject_id', '{"text": ""}'),
    ('reviews_incident', 'id', '{"title": "", "closing_note": "", "about": ""}'),
    ('reviews_batchitem', 'case_id', '{"detail": ""}'),
    ('reviews_report', 'action_id', '{"text": ""}'),
    -- What a hash or a place of a word could still tell goes with the session; codes and states stay.
    ('reviews_guardverdict', 'session_id', '{"message_hash": "", "claims": []}')
ON CONFLICT (relation, subject) DO UPDATE SET columns = excluded.columns WHERE ledger_blank.columns <> excluded.columns;
