-- What people who run the installation must see of all tenants, in numbers: open alarms by kind, confirmed erasures that nobody
-- has begun, outsiders that did not vouch for the newest log when asked last, entries without a signature, the last
-- anchor. It reads the rows themselves, and returns no tenant. Row-level security binds the owner, too: for the owner, and while a function has set this, a policy shows
-- the rows of all tenants.
DO $$
DECLARE
    v_table regclass;
BEGIN
    FOREACH v_table IN ARRAY ARRAY['ledger_alarm', 'ledger_erasure', 'ledger_anchoring', 'ledger_tip']::regclass[] LOOP
        IF NOT EXISTS (SELECT FROM pg_policy WHERE polrelid = v_table AND polname = 'all_tenants') THEN
            EXECUTE format('CREATE POLICY all_tenants ON %s FOR SELECT TO %I
                USING ((SELECT current_setting(''app.survey'', true) = ''on''))', v_table, current_user);
        END IF;
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION ledger_count_concerns(p_before timestamptz)
RETURNS TABLE (what text, name text, count bigint, since timestamptz) LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('app.survey', 'on', true);
    RETURN QUERY SELECT 'alarm', a.kind::text, count(*), min(a.raised_at) FROM ledger_alarm a
            WHERE a.closed_at IS NULL AND a.raised_at <= p_before GROUP BY a.kind
        UNION ALL SELECT 'erasure', '', count(*), min(e.confirmed_at) FROM ledger_erasure e
            WHERE e.state = 'CONFIRMED' AND e.begun_at IS NULL AND e.confirmed_at <= p_before
        UNION ALL SELECT o.kind::text, f.key, count(*), min((f.value ->> 'since')::timestamptz)
            FROM ledger_anchoring o CROSS JOIN LATERAL jsonb_each(o.faults) f
            WHERE o.faults <> '{}' AND (f.value ->> 'since')::timestamptz <= p_before
            AND NOT EXISTS (SELECT FROM ledger_tip n WHERE n.tenant_id = o.tenant_id AND n.log > o.log)
            GROUP BY o.kind, f.key
        -- The first entry behind the signed head of each log that goes on; surveys.sql opens these tables.
        UNION ALL SELECT 'unsigned', '', coalesce(sum(p.size - p.signed_size), 0)::bigint, min(f.at) FROM ledger_tip p
            CROSS JOIN LATERAL (SELECT l.subject_id, l.seq FROM ledger_leaf l WHERE l.tenant_id = p.tenant_id
                AND l.log = p.log AND l.index = p.signed_size OFFSET 0) l
            CROSS JOIN LATERAL (SELECT e.at FROM ledger_event e WHERE e.tenant_id = p.tenant_id
                AND e.subject_id = l.subject_id AND e.seq = l.seq OFFSET 0) f
            WHERE p.signed_size < p.size
            AND NOT EXISTS (SELECT FROM ledger_tip n WHERE n.tenant_id = p.tenant_id AND n.log > p.log)
        UNION ALL SELECT 'anchored', k.kind, 1::bigint, n.at FROM unnest(ARRAY['witness', 'tsa']) k (kind)
            CROSS JOIN LATERAL (SELECT a.at FROM ledger_anchor a WHERE a.kind = k.kind ORDER BY a.at DESC LIMIT 1) n;
    PERFORM set_config('app.survey', '', true);
END $$;
REVOKE ALL ON FUNCTION ledger_count_concerns(timestamptz) FROM PUBLIC;
