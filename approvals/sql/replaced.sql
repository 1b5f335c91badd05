-- A function that another one has replaced, which takes the tenant as its first argument.

DROP FUNCTION IF EXISTS approvals_lock_release(uuid, boolean);
