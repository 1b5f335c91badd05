-- What people who run the installation must see of all tenants, in numbers: open alarms by kind, confirmed erasures that nobody
-- has begun, outsiders that did not vouch for the newest log when asked last. It reads the rows themselves, and returns no
-- tenant. Row-level security binds the owner, too: for the owner, and while a function has set this, a policy shows
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
            GROUP BY o.kind, f.key;
    PERFORM set_config('app.survey', '', true);
END $$;
REVOKE ALL ON FUNCTION ledger_count_concerns(timestamptz) FROM PUBLIC;
