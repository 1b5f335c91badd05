-- Which tenants have work before the effect (ledger/sql/surveys.sql).

SELECT ledger_open_to_surveys(each) FROM unnest(ARRAY[
    'approvals_approval', 'approvals_call', 'approvals_agent', 'approvals_standingapproval', 'approvals_approverkey',
    'approvals_attention']::regclass[]) each;

CREATE OR REPLACE FUNCTION approvals_survey(p_kind text, p_at timestamptz) RETURNS SETOF uuid LANGUAGE plpgsql STABLE
SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    PERFORM set_config('app.survey', 'on', true);
    CASE p_kind
    WHEN 'deadlines' THEN
        RETURN QUERY SELECT DISTINCT d.tenant_id FROM approvals_due d WHERE d.due_at <= p_at AND d.what <> 'stop';
    WHEN 'stopped_agents' THEN
        RETURN QUERY SELECT DISTINCT d.tenant_id FROM approvals_due d WHERE d.due_at <= p_at AND d.what = 'stop';
    WHEN 'preparing_approvals' THEN
        RETURN QUERY SELECT DISTINCT d.tenant_id FROM approvals_due d WHERE d.what = 'prepare';
    WHEN 'spent_approvals' THEN
        RETURN QUERY SELECT DISTINCT a.tenant_id FROM ledger_action a JOIN approvals_approval p
            ON p.tenant_id = a.tenant_id AND p.id = a.approval_id AND p.state = 'CONSUMED'
            WHERE a.phase = 'VALIDATED' AND a.state = 'VALIDATED' AND a.attempt_count > 0;
    WHEN 'moved_clocks' THEN
        -- A freeze that was lifted lately may have left a clock standing (LOOK_BACK in approvals/tasks.py).
        RETURN QUERY SELECT DISTINCT p.tenant_id FROM approvals_approval p WHERE p.state IN ('REQUESTED', 'APPROVED')
            AND (p.paused_at IS NOT NULL OR EXISTS (SELECT FROM ledger_freeze f
                WHERE f.tenant_id = p.tenant_id AND (f.lifted_at IS NULL OR f.lifted_at > p_at - interval '1 hour')));
    WHEN 'watched_agents' THEN
        -- Called within the time that the tenant's policy looks back, or flagged.
        RETURN QUERY SELECT t.id FROM ledger_tenant t
            WHERE EXISTS (SELECT FROM approvals_call c WHERE c.tenant_id = t.id AND c.id > ledger_uuid_from(p_at - make_interval(
                hours => coalesce((SELECT (convert_from(v.document, 'UTF8')::jsonb #>> '{watch,window_h}')::integer
                    FROM ledger_policyversion v WHERE v.tenant_id = t.id AND v.kind = 'autonomy' AND v.active), 24))))
            UNION SELECT a.tenant_id FROM approvals_agent a WHERE a.flags <> '{}';
    WHEN 'unstarted_steps' THEN
        RETURN QUERY SELECT DISTINCT u.tenant_id FROM ledger_unwinding u JOIN ledger_action a
            ON a.tenant_id = u.tenant_id AND a.run_id = u.run_id AND a.state = 'VALIDATED' AND a.relation = ''
            WHERE u.state IN ('OPEN', 'STUCK');
    WHEN 'standing_approvals' THEN
        RETURN QUERY SELECT DISTINCT s.tenant_id FROM approvals_standingapproval s WHERE s.state = 'ACTIVE'
            OR s.state = 'PAUSED' AND s.case_id IS NULL AND s.pause_reason <> 'BY_HAND'
            OR s.state = 'PROPOSED' AND s.ends_at <= p_at OR s.state = 'PAUSED' AND s.is_time_boxed AND s.ends_at <= p_at;
    WHEN 'old_displays' THEN
        RETURN QUERY SELECT DISTINCT d.tenant_id FROM approvals_attention d WHERE d.served_at < p_at;
    END CASE;
    PERFORM set_config('app.survey', '', true);
END $$;
REVOKE ALL ON FUNCTION approvals_survey(text, timestamptz) FROM PUBLIC;
