-- What actions are found by beside their ids and targets: each tenant's own. It follows from the record and may be made
-- again, so nothing here is append-only; erasing an action empties what it is found by in the same transaction.

SELECT ledger_isolate(each) FROM unnest(ARRAY['console_searchterm', 'console_searchcursor']::regclass[]) each;

INSERT INTO ledger_blank (relation, subject, columns) VALUES ('console_searchterm', 'action_id', '{"term": ""}')
ON CONFLICT (relation, subject) DO UPDATE SET columns = excluded.columns WHERE ledger_blank.columns <> excluded.columns;
