-- Whose rows these are, and what never changes.

SELECT ledger_isolate(each) FROM unnest(ARRAY[
    'reviews_batch', 'reviews_batchitem', 'reviews_case', 'reviews_comment', 'reviews_guardverdict', 'reviews_health',
    'reviews_hook', 'reviews_hookdelivery', 'reviews_incident', 'reviews_incidentlink', 'reviews_observation', 'reviews_readingcount',
    'reviews_readingtotal', 'reviews_report', 'reviews_run', 'reviews_stray', 'reviews_watch']::regclass[]) each;
SELECT ledger_make_append_only(each) FROM unnest(ARRAY[
    'reviews_comment', 'reviews_guardverdict', 'reviews_incidentlink', 'reviews_observation', 'reviews_report',
    'reviews_run']::regclass[]) each;
