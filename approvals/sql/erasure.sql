-- What erasing leaves empty in the tables of this app (ledger/sql/erasure.sql).

INSERT INTO ledger_blank (relation, subject, columns) VALUES
    ('approvals_session', 'id', '{"goal": "", "pin_hash": ""}'),
    ('approvals_call', 'action_id',
        '{"call_id": "", "tool": "", "restated_goal": "", "reason": "", "result": {}, "request_hash": ""}'),
    ('approvals_call', 'session_id',
        '{"call_id": "", "tool": "", "restated_goal": "", "reason": "", "result": {}, "request_hash": ""}'),
    ('approvals_approval', 'id', '{"payload_hash": "", "rendering_digest": ""}'),
    ('approvals_vote', 'approval_id',
        '{"statement": "\\x", "statement_hash": "", "reason": "", "assertion": null, "credential_id": ""}'),
    ('approvals_challenge', 'approval_id', '{"statement": "\\x", "statement_hash": "", "reason": "", "salt": "\\x"}'),
    ('approvals_comment', 'approval_id', '{"text": ""}'),
    ('approvals_emergency', 'approval_id', '{"reason": ""}')
ON CONFLICT (relation, subject) DO UPDATE SET columns = excluded.columns WHERE ledger_blank.columns <> excluded.columns;
