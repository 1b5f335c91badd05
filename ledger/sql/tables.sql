-- Actions, their evidence, and the contracts and policies they are judged by: whose rows they are, and what never changes.

SELECT ledger_isolate(each) FROM unnest(ARRAY[
    'ledger_subject', 'ledger_action', 'ledger_idempotency', 'ledger_evidence', 'ledger_subjectkey',
    'ledger_contractversion', 'ledger_policyversion', 'ledger_system', 'ledger_freeze', 'ledger_unwinding',
    'ledger_export']::regclass[]) each;
SELECT ledger_make_append_only(each) FROM unnest(ARRAY[
    'ledger_evidence', 'ledger_subjectkey', 'ledger_contractversion']::regclass[]) each;

-- Room in each page for the next version of a row that changes ten times.
ALTER TABLE ledger_subject SET (fillfactor = 80);
ALTER TABLE ledger_action SET (fillfactor = 70);
