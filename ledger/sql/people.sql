-- Who is one person with whom, read from the events: accounts that were linked, and a key with whoever made it.

-- The person behind an account or a key, by the events before `p_before` (null: by all of them). Who is linked with nobody
-- is a person of their own, and so is a key that no person made.
CREATE OR REPLACE FUNCTION ledger_person(p_tenant uuid, p_actor uuid, p_before uuid DEFAULT NULL) RETURNS uuid
LANGUAGE sql STABLE SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT ledger_own_tenant(p_tenant);
    WITH said AS (
        SELECT e.id, e.kind, e.actor_id, e.actor_kind, convert_from(n.detail, 'UTF8')::jsonb AS detail
            FROM ledger_event e JOIN ledger_entry n
                ON n.tenant_id = e.tenant_id AND n.subject_id = e.subject_id AND n.seq = e.seq
            WHERE e.tenant_id = p_tenant AND (p_before IS NULL OR e.id < p_before)
            AND e.kind IN ('accounts_linked', 'accounts_separated', 'key_issued')
    ), account AS (
        SELECT coalesce((SELECT s.actor_id FROM said s WHERE s.kind = 'key_issued' AND s.actor_kind = 'person'
            AND s.detail ->> 'key_actor' = p_actor::text LIMIT 1), p_actor) AS id
    )
    SELECT coalesce((SELECT (s.detail ->> 'person')::uuid FROM said s JOIN account a ON s.detail ->> 'actor' = a.id::text
        WHERE s.kind <> 'key_issued' ORDER BY s.id DESC LIMIT 1), a.id) FROM account a
$$;

-- Whether two different people did it, whichever accounts they used, by what was known of these when the second one did:
-- read from the events, which nobody can change, and not from the row that pages show.
CREATE OR REPLACE FUNCTION ledger_two_people(p_tenant uuid, p_subject uuid, p_first text, p_second text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT ledger_own_tenant(p_tenant);
    SELECT EXISTS (SELECT FROM ledger_event a JOIN ledger_event b
        ON b.tenant_id = a.tenant_id AND b.subject_id = a.subject_id AND b.seq > a.seq
        WHERE a.tenant_id = p_tenant AND a.subject_id = p_subject
        AND a.kind = p_first AND b.kind = p_second AND a.actor_kind = 'person' AND b.actor_kind = 'person'
        AND ledger_person(p_tenant, a.actor_id, b.id) <> ledger_person(p_tenant, b.actor_id, b.id))
$$;

REVOKE ALL ON FUNCTION ledger_person(uuid, uuid, uuid), ledger_two_people(uuid, uuid, text, text) FROM PUBLIC;
