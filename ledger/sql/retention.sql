-- How long what is recorded is kept, by a policy that two people put in force.

-- The policy in force as its proposal said it, with its id; null where two people never agreed on one.
CREATE OR REPLACE FUNCTION ledger_retention_in_force(p_tenant uuid) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT ledger_own_tenant(p_tenant);
    SELECT convert_from(n.detail, 'UTF8')::jsonb || jsonb_build_object('id', s.id) FROM ledger_event e
        JOIN ledger_subject s ON s.tenant_id = e.tenant_id AND s.id = e.subject_id
        JOIN ledger_entry n ON n.tenant_id = s.tenant_id AND n.subject_id = s.id AND n.seq = 1
        WHERE e.tenant_id = p_tenant AND e.kind = 'retention_confirmed' AND s.kind = 'retention'
        AND s.state = 'ACTIVE' AND ledger_two_people(p_tenant, s.id, 'retention_proposed', 'retention_confirmed')
        ORDER BY e.id DESC LIMIT 1
$$;

REVOKE ALL ON FUNCTION ledger_retention_in_force(uuid) FROM PUBLIC;
SELECT ledger_isolate('ledger_retention');
