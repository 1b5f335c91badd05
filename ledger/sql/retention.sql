-- How long what is recorded is kept, by a policy that two people put in force.

-- Two different people, or a standing policy that two different people have put in force: read from the events, which
-- nobody can change, and not from the row that pages show.
CREATE OR REPLACE FUNCTION ledger_two_people(p_subject uuid, p_first text, p_second text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT EXISTS (SELECT FROM ledger_event a JOIN ledger_event b
        ON b.tenant_id = a.tenant_id AND b.subject_id = a.subject_id AND b.seq > a.seq
        WHERE a.tenant_id = ledger_current_tenant() AND a.subject_id = p_subject
        AND a.kind = p_first AND b.kind = p_second AND a.actor_kind = 'person' AND b.actor_kind = 'person'
        AND a.actor_id <> b.actor_id)
$$;

-- The policy in force as its proposal said it, with its id; null where two people never agreed on one.
CREATE OR REPLACE FUNCTION ledger_retention_in_force() RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT convert_from(n.detail, 'UTF8')::jsonb || jsonb_build_object('id', s.id) FROM ledger_event e
        JOIN ledger_subject s ON s.tenant_id = e.tenant_id AND s.id = e.subject_id
        JOIN ledger_entry n ON n.tenant_id = s.tenant_id AND n.subject_id = s.id AND n.seq = 1
        WHERE e.tenant_id = ledger_current_tenant() AND e.kind = 'retention_confirmed' AND s.kind = 'retention'
        AND s.state = 'ACTIVE' AND ledger_two_people(s.id, 'retention_proposed', 'retention_confirmed')
        ORDER BY e.id DESC LIMIT 1
$$;

REVOKE ALL ON FUNCTION ledger_two_people(uuid, text, text), ledger_retention_in_force() FROM PUBLIC;
SELECT ledger_isolate('ledger_retention');
