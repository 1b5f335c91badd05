-- Whose alert rules and alerts these are.

SELECT ledger_isolate(each) FROM unnest(ARRAY['console_alertrule', 'console_alert']::regclass[]) each;
