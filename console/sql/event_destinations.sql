-- Whose destinations of events these are.

SELECT ledger_isolate('console_eventdestination');
