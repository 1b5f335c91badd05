-- Whose devices these are.

SELECT ledger_isolate('console_pushdevice');
