-- Passes a tenant's gate alone (gate.sql): every start that passed it before has ended then, and every later one sees
-- what was committed before. For what belongs to no tenant and therefore has no trigger that does it.
CREATE OR REPLACE FUNCTION ledger_pass_gate(p_tenant uuid) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(4711004, hashtext(ledger_own_tenant(p_tenant)::text));
END $$;

REVOKE ALL ON FUNCTION ledger_pass_gate(uuid) FROM PUBLIC;
