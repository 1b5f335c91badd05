-- Whose figures these are. They follow from the record and may be made again, so nothing here is append-only.

SELECT ledger_isolate(each) FROM unnest(ARRAY[
    'console_metricaction', 'console_metricrollup', 'console_metricdelay', 'console_metriccursor']::regclass[]) each;
