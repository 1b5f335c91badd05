-- Locks what the release of an action depends on, in the order in which everything locks it: where p_gate, the tenant's
-- gate, then the action, then its approval. Each is a statement of its own: the approval is the one that the action has
-- once it is locked. Answers with the heads as `ledger_lock` does, the action's first; with nothing if there is no such
-- action.
CREATE OR REPLACE FUNCTION approvals_lock_release(p_tenant uuid, p_action uuid, p_gate boolean)
RETURNS TABLE (id uuid, kind text, state varchar, seq integer, head bytea, entry bytea)
LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    v_tenant uuid := ledger_own_tenant(p_tenant);
    v_approval uuid;
BEGIN
    IF p_gate THEN
        RETURN QUERY SELECT p_action, 'action', l.state, l.seq, l.head, l.entry
            FROM ledger_enter(v_tenant, p_action, 'action') l;
    ELSE
        RETURN QUERY SELECT p_action, 'action', l.state, l.seq, l.head, l.entry
            FROM ledger_lock(v_tenant, p_action, 'action') l;
    END IF;
    SELECT a.approval_id INTO v_approval FROM ledger_action a
        WHERE a.tenant_id = v_tenant AND a.id = p_action;
    IF v_approval IS NOT NULL THEN
        RETURN QUERY SELECT v_approval, 'approval', l.state, l.seq, l.head, l.entry
            FROM ledger_lock(v_tenant, v_approval, 'approval') l;
    END IF;
END $$;
REVOKE ALL ON FUNCTION approvals_lock_release(uuid, uuid, boolean) FROM PUBLIC;
