-- Whose rows these are, what never changes, and what changes behind the tenant's gate only.

SELECT ledger_isolate(each) FROM unnest(ARRAY[
    'approvals_absence', 'approvals_agent', 'approvals_agentversion', 'approvals_approval', 'approvals_approver',
    'approvals_approverkey', 'approvals_attempt', 'approvals_attention', 'approvals_call', 'approvals_challenge',
    'approvals_comment', 'approvals_delegation', 'approvals_emergency', 'approvals_executor', 'approvals_grant',
    'approvals_session', 'approvals_spending', 'approvals_vote']::regclass[]) each;
SELECT ledger_make_append_only(each) FROM unnest(ARRAY[
    'approvals_agentversion', 'approvals_call', 'approvals_comment', 'approvals_vote']::regclass[]) each;

-- What a start is judged by, beside policies and freezes (ledger/sql/gate.sql). That a passkey was used once more, its
-- counter, is no such change.
SELECT ledger_gate('approvals_executor', 'UPDATE OR DELETE');
SELECT ledger_gate('approvals_approver', 'UPDATE OR DELETE');
SELECT ledger_gate('approvals_approverkey', 'UPDATE OF state OR DELETE');
