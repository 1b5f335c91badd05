-- Up to where the spans of a tenant have gone to the collector: each tenant's own.

SELECT ledger_isolate('console_tracecursor');
