-- Surveys: which tenants have work of a kind, asked once for all of them. A worker visits those and no others, so a tenant
-- with nothing to do costs nothing. A survey reads the rows that the work itself reads: no second list of what is due
-- has to agree with them, and none can lose an entry in a crash. It may name a tenant too many, never one too few.
--
-- Tenants are kept apart by row-level security, which binds the owner too. A survey runs with the owner's rights and says
-- so in a setting; only for the owner, and only while that is set, a policy shows the rows of all tenants. What it
-- returns is the ids of tenants.
CREATE OR REPLACE FUNCTION ledger_open_to_surveys(target regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('%s TO %I USING ((SELECT current_setting(''app.survey'', true) = ''on''))', format(
        CASE WHEN EXISTS (SELECT FROM pg_policy WHERE polrelid = target AND polname = 'all_tenants')
            THEN 'ALTER POLICY all_tenants ON %s' ELSE 'CREATE POLICY all_tenants ON %s FOR SELECT' END, target), current_user);
END $$;
SELECT ledger_open_to_surveys(each) FROM unnest(ARRAY[
    'ledger_action', 'ledger_event', 'ledger_leaf', 'ledger_tip', 'ledger_anchor', 'ledger_anchoring', 'ledger_alarm',
    'ledger_erasure', 'ledger_export', 'ledger_integritycheck', 'ledger_unwinding', 'ledger_system', 'ledger_release',
    'ledger_freeze', 'ledger_retention', 'ledger_policyversion', 'ledger_contractversion', 'ledger_subject'
    ]::regclass[]) each;

-- The tenants whose events wait for their place in the log, each found by one look-up in the key of the queue.
CREATE OR REPLACE FUNCTION ledger_queued_tenants() RETURNS SETOF uuid LANGUAGE sql STABLE AS $$
    WITH RECURSIVE queued AS (
        (SELECT tenant_id FROM ledger_pending ORDER BY tenant_id LIMIT 1)
        UNION ALL SELECT (SELECT p.tenant_id FROM ledger_pending p WHERE p.tenant_id > q.tenant_id
                ORDER BY p.tenant_id LIMIT 1)
            FROM queued q WHERE q.tenant_id IS NOT NULL)
    SELECT tenant_id FROM queued WHERE tenant_id IS NOT NULL
$$;

-- How many events have their place in the logs of each tenant. Whoever reads new events keeps the number that there was
-- when it began, and has work where there are more now or some wait: so no clock decides what is new.
CREATE OR REPLACE FUNCTION ledger_logged_events() RETURNS TABLE (tenant_id uuid, count bigint) LANGUAGE sql STABLE AS $$
    SELECT p.tenant_id, sum(p.size)::bigint FROM ledger_tip p GROUP BY p.tenant_id
$$;

CREATE OR REPLACE FUNCTION ledger_survey(p_kind text, p_at timestamptz) RETURNS SETOF uuid LANGUAGE plpgsql STABLE
SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    PERFORM set_config('app.survey', 'on', true);
    CASE p_kind
    WHEN 'unsigned_logs' THEN
        -- What was never signed of a log that a restore closed waits for nothing. p_at: signed before that is long ago.
        RETURN QUERY SELECT p.tenant_id FROM ledger_tip p
            WHERE (p.signed_size < p.size OR p.stopped <> '' OR p.signed_at < p_at) AND NOT EXISTS
                (SELECT FROM ledger_tip n WHERE n.tenant_id = p.tenant_id AND n.log > p.log)
            UNION SELECT t.id FROM ledger_tenant t WHERE t.epoch IS NULL
                OR NOT EXISTS (SELECT FROM ledger_tip p WHERE p.tenant_id = t.id);
    WHEN 'late_logs' THEN
        RETURN QUERY SELECT p.tenant_id FROM ledger_tip p WHERE p.signed_size < p.size
            AND p.integrated_at < clock_timestamp() - interval '1 second'
            UNION SELECT q FROM ledger_queued_tenants() q CROSS JOIN LATERAL (SELECT p.at FROM ledger_pending p
                WHERE p.tenant_id = q ORDER BY p.position LIMIT 1) oldest
                WHERE oldest.at < clock_timestamp() - interval '1 second'
                OR EXISTS (SELECT FROM ledger_pending p WHERE p.tenant_id = q OFFSET 1000);
    WHEN 'due_cosignatures' THEN
        RETURN QUERY SELECT * FROM ledger_unanchored('witness', p_at);
    WHEN 'due_time_stamps' THEN
        RETURN QUERY SELECT * FROM ledger_unanchored('tsa', p_at);
    WHEN 'confirmed_erasures' THEN
        RETURN QUERY SELECT DISTINCT e.tenant_id FROM ledger_erasure e WHERE e.state = 'CONFIRMED';
    WHEN 'running_exports' THEN
        RETURN QUERY SELECT DISTINCT e.tenant_id FROM ledger_export e WHERE e.state = 'REQUESTED';
    WHEN 'ended_exports' THEN
        RETURN QUERY SELECT DISTINCT e.tenant_id FROM ledger_export e
            WHERE e.state = 'FINISHED' AND e.expires_at <= p_at OR e.state = 'FAILED';
    WHEN 'running_checks' THEN
        RETURN QUERY SELECT c.tenant_id FROM ledger_integritycheck c
            WHERE c.state IN ('RUNNING', 'PAUSED') AND c.state = 'RUNNING';
    WHEN 'unproposed_orders' THEN
        RETURN QUERY SELECT DISTINCT o.tenant_id FROM ledger_order o WHERE NOT o.proposed AND o.due_at <= p_at;
    WHEN 'proposed_orders' THEN
        RETURN QUERY SELECT DISTINCT o.tenant_id FROM ledger_order o WHERE o.proposed AND o.due_at <= p_at;
    END CASE;
    PERFORM set_config('app.survey', '', true);
END $$;

-- The tenants whose log somebody outside is to vouch for now: it was not asked for a while, and either something other
-- than the log's own notes of anchoring came behind what was anchored, or it did not answer.
CREATE OR REPLACE FUNCTION ledger_unanchored(p_kind text, p_at timestamptz) RETURNS SETOF uuid LANGUAGE sql STABLE AS $$
    SELECT p.tenant_id FROM ledger_tip p
        LEFT JOIN ledger_anchoring a ON a.tenant_id = p.tenant_id AND a.log = p.log AND a.kind = p_kind
        WHERE p.kept_size > 0 AND (a.due_at IS NULL OR a.due_at <= p_at)
        AND NOT EXISTS (SELECT FROM ledger_tip n WHERE n.tenant_id = p.tenant_id AND n.log > p.log)
        AND (a.faults <> '{}' OR EXISTS (SELECT FROM ledger_leaf l JOIN ledger_event e
            ON e.tenant_id = l.tenant_id AND e.subject_id = l.subject_id AND e.seq = l.seq
            WHERE l.tenant_id = p.tenant_id AND l.log = p.log AND l.index < p.kept_size
            AND l.index >= coalesce((SELECT max(known.size) FROM ledger_anchor known
                WHERE known.tenant_id = p.tenant_id AND known.log = p.log AND known.kind = p_kind), 0)
            AND e.kind <> 'checkpoint_anchored'))
$$;
REVOKE ALL ON FUNCTION ledger_open_to_surveys(regclass), ledger_queued_tenants(), ledger_logged_events(),
    ledger_unanchored(text, timestamptz), ledger_survey(text, timestamptz) FROM PUBLIC;
