-- Which tenants have work after the attempt (ledger/sql/surveys.sql).

SELECT ledger_open_to_surveys(each) FROM unnest(ARRAY[
    'reviews_case', 'reviews_claim', 'reviews_batch', 'reviews_hookdelivery', 'reviews_readingcount', 'reviews_report'
    ]::regclass[]) each;

CREATE OR REPLACE FUNCTION reviews_survey(p_kind text, p_at timestamptz) RETURNS SETOF uuid LANGUAGE plpgsql STABLE
SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    PERFORM set_config('app.survey', 'on', true);
    CASE p_kind
    WHEN 'wanted_readings' THEN
        RETURN QUERY SELECT DISTINCT a.tenant_id FROM ledger_action a WHERE a.phase = 'VALIDATED' AND a.state = 'VALIDATED'
            AND 'reading_wanted' = (SELECT e.kind FROM ledger_event e WHERE e.tenant_id = a.tenant_id
                AND e.subject_id = a.id AND e.kind IN ('reading_wanted', 'reading_taken') ORDER BY e.seq DESC LIMIT 1);
    WHEN 'unscheduled_actions' THEN
        RETURN QUERY SELECT DISTINCT a.tenant_id FROM ledger_action a
            WHERE a.phase IN ('PENDING', 'UNKNOWN', 'FORWARD_RECOVERY', 'RECONCILIATION_FAILED')
            AND a.state IN ('ACCEPTED', 'PENDING', 'UNKNOWN', 'FORWARD_RECOVERY', 'RECONCILIATION_FAILED')
            AND NOT a.settled AND NOT EXISTS
                (SELECT FROM reviews_schedule s WHERE s.tenant_id = a.tenant_id AND s.action_id = a.id);
    WHEN 'unscheduled_claims' THEN
        RETURN QUERY SELECT DISTINCT c.tenant_id FROM reviews_claim c WHERE c.state = 'OPEN' AND NOT EXISTS
            (SELECT FROM reviews_schedule s WHERE s.tenant_id = c.tenant_id AND s.action_id = c.id);
    WHEN 'held_actions' THEN
        RETURN QUERY SELECT DISTINCT a.tenant_id FROM ledger_action a WHERE a.phase = 'REVIEW_REQUIRED' AND NOT EXISTS
            (SELECT FROM reviews_case c WHERE c.tenant_id = a.tenant_id AND c.action_id = a.id AND c.state <> 'RESOLVED');
    WHEN 'stalled_actions' THEN
        RETURN QUERY SELECT a.tenant_id FROM (SELECT o.tenant_id, min(o.changed_at) AS since FROM ledger_action o
                WHERE o.phase IN ('COMPENSATING', 'COMPENSATION_FAILED', 'FORWARD_RECOVERY', 'PARTIALLY_COMMITTED',
                    'PENDING', 'RECONCILIATION_FAILED', 'REVIEW_REQUIRED', 'UNKNOWN', 'VALIDATED', 'VERIFICATION_TIMEOUT')
                AND o.mutating AND o.attempt_count > 0 GROUP BY o.tenant_id) a
            LEFT JOIN ledger_policyversion v ON v.tenant_id = a.tenant_id AND v.kind = 'verification' AND v.active
            WHERE a.since < p_at - make_interval(secs =>
                coalesce((convert_from(v.document, 'UTF8')::jsonb ->> 'idempotency_ttl_s')::integer, 2592000));
    WHEN 'away_systems' THEN
        RETURN QUERY SELECT DISTINCT l.tenant_id FROM reviews_lane l WHERE l.held_until IS NOT NULL;
    WHEN 'rollbacks' THEN
        RETURN QUERY SELECT DISTINCT u.tenant_id FROM ledger_unwinding u WHERE u.state IN ('OPEN', 'STUCK');
    WHEN 'watched_systems' THEN
        RETURN QUERY SELECT DISTINCT s.tenant_id FROM ledger_system s WHERE s.settings ? 'changes';
    WHEN 'canaries' THEN
        RETURN QUERY SELECT DISTINCT r.tenant_id FROM ledger_release r
            WHERE r.state IN ('CANARY', 'READY') AND r.canary IS NOT NULL;
    WHEN 'running_batches' THEN
        RETURN QUERY SELECT DISTINCT b.tenant_id FROM reviews_batch b WHERE b.state = 'RUNNING';
    WHEN 'old_deliveries' THEN
        RETURN QUERY SELECT DISTINCT d.tenant_id FROM reviews_hookdelivery d WHERE d.at < p_at;
    WHEN 'old_counts' THEN
        RETURN QUERY SELECT DISTINCT c.tenant_id FROM reviews_readingcount c WHERE c.day < (p_at AT TIME ZONE 'UTC')::date;
    END CASE;
    PERFORM set_config('app.survey', '', true);
END $$;
REVOKE ALL ON FUNCTION reviews_survey(text, timestamptz) FROM PUBLIC;
