-- What erasing leaves empty in the tables of this app (ledger/sql/erasure.sql): whatever came out of a file goes with the
-- recording; numbers, codes and kinds of findings stay.

INSERT INTO ledger_blank (relation, subject, columns) VALUES
    ('console_recording', 'id', '{"file_name": "", "digest": "", "totals": {}, "unread": []}'),
    ('console_recordedconversation', 'recording_id', '{"label": "", "path": "", "findings": [], "unread": []}'),
    ('console_recordedmessage', 'recording_id',
        '{"text": "", "calls": [], "answers": [], "claims": [], "corrected": ""}'),
    ('console_recordedword', 'recording_id', '{"word": "", "conversations": []}')
ON CONFLICT (relation, subject) DO UPDATE SET columns = excluded.columns WHERE ledger_blank.columns <> excluded.columns;
