-- Each tenant has a gate. Starts of executions pass it together, and whatever changes what they are judged by (a policy,
-- a freeze, an executor, somebody who may decide) passes it alone: so a start is ordered before such a change or behind
-- it, and sees all of it or nothing. A freeze that is not there yet has no row to lock; the gate is there always.
-- It is a lock and no row: nothing is written for it, and nobody needs a right to write anything.

-- Takes the gate first and the subject behind it, in two statements, so that what is read after it is as new as the gate.
CREATE OR REPLACE FUNCTION ledger_enter(p_tenant uuid, p_subject uuid, p_kind text)
RETURNS TABLE (state varchar, seq integer, head bytea, entry bytea)
LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    v_tenant uuid := ledger_own_tenant(p_tenant);
BEGIN
    PERFORM pg_advisory_xact_lock_shared(4711004, hashtext(v_tenant::text));
    RETURN QUERY SELECT l.state, l.seq, l.head, l.entry FROM ledger_lock(v_tenant, p_subject, p_kind) l;
END $$;

CREATE OR REPLACE FUNCTION ledger_pass_alone() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(4711004, hashtext(ledger_current_tenant()::text));
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION ledger_gate(p_table regclass, p_when text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    EXECUTE format('CREATE OR REPLACE TRIGGER gate BEFORE %s ON %s
        FOR EACH STATEMENT EXECUTE FUNCTION ledger_pass_alone()', p_when, p_table);
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER gate', p_table);
END $$;

REVOKE ALL ON FUNCTION ledger_enter(uuid, uuid, text), ledger_gate(regclass, text), ledger_pass_alone() FROM PUBLIC;
SELECT ledger_gate('ledger_policyversion', 'INSERT OR UPDATE OR DELETE');
SELECT ledger_gate('ledger_freeze', 'INSERT OR UPDATE OR DELETE');
