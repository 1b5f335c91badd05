-- Whose reports of models these are, that they never change, and what of them is erased with their session.

SELECT ledger_isolate('approvals_modelusage');
SELECT ledger_make_append_only('approvals_modelusage');
INSERT INTO ledger_blank (relation, subject, columns) VALUES ('approvals_modelusage', 'session_id', '{"reference": ""}')
ON CONFLICT (relation, subject) DO UPDATE SET columns = excluded.columns WHERE ledger_blank.columns <> excluded.columns;
