-- The keys that sign grants: what was introduced or retired stays so, whoever writes.
SELECT ledger_make_append_only('approvals_grantkeychange');
