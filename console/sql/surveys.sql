-- Which tenants have figures to count, people to notify and proposals that end (ledger/sql/surveys.sql).

SELECT ledger_open_to_surveys(each) FROM unnest(ARRAY[
    'console_notice', 'console_message', 'console_noticesettings', 'console_noticecursor', 'console_metriccursor',
    'console_searchcursor', 'console_tracecursor', 'console_eventdestination', 'console_metricrollup',
    'console_metricaction', 'console_alertrule', 'console_alert', 'console_costbudget']::regclass[]) each;

CREATE OR REPLACE FUNCTION console_survey(p_kind text, p_at timestamptz) RETURNS SETOF uuid LANGUAGE plpgsql STABLE
SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    PERFORM set_config('app.survey', 'on', true);
    CASE p_kind
    WHEN 'uncounted_events' THEN
        -- Calls and reports are no events. They are counted for good a minute after they came (console/metrics/operations.py),
        -- and whoever watches a figure is told when its time runs out.
        RETURN QUERY SELECT l.tenant_id FROM ledger_logged_events() l LEFT JOIN console_metriccursor c USING (tenant_id)
                WHERE c.seen IS DISTINCT FROM l.count
            UNION SELECT * FROM ledger_queued_tenants()
            UNION SELECT r.tenant_id FROM console_alertrule r WHERE r.ended_at IS NULL
            UNION SELECT c.tenant_id FROM console_metriccursor c
                CROSS JOIN LATERAL ledger_uuid_from(c.looked_at - interval '60 seconds') since
                -- The newest alone: for "is there one" the planner reads the table from its beginning.
                WHERE (SELECT made.id FROM approvals_call made WHERE made.tenant_id = c.tenant_id
                    ORDER BY made.id DESC LIMIT 1) > since
                OR (SELECT made.id FROM reviews_report made WHERE made.tenant_id = c.tenant_id
                    ORDER BY made.id DESC LIMIT 1) > since;
    WHEN 'unindexed_events' THEN
        RETURN QUERY SELECT l.tenant_id FROM ledger_logged_events() l LEFT JOIN console_searchcursor c USING (tenant_id)
                WHERE c.seen IS DISTINCT FROM l.count
            UNION SELECT * FROM ledger_queued_tenants();
    WHEN 'alert_rules' THEN
        RETURN QUERY SELECT DISTINCT r.tenant_id FROM console_alertrule r WHERE r.ended_at IS NULL;
    WHEN 'budgets' THEN
        RETURN QUERY SELECT DISTINCT b.tenant_id FROM console_costbudget b WHERE b.ended_at IS NULL;
    WHEN 'compared_versions' THEN
        -- p_at: the beginning of the compared time, less a day.
        RETURN QUERY SELECT t.id FROM ledger_tenant t WHERE EXISTS (SELECT FROM console_metricrollup m
                WHERE m.tenant_id = t.id AND m.span = 24 AND m.start >= p_at)
                OR EXISTS (SELECT FROM console_metricaction m WHERE m.tenant_id = t.id AND m.hour >= p_at)
            UNION SELECT a.tenant_id FROM console_alert a WHERE a.cleared_at IS NULL AND a.rule_id IS NULL;
    WHEN 'ended_spans' THEN
        RETURN QUERY SELECT p.tenant_id FROM ledger_tip p LEFT JOIN console_tracecursor c USING (tenant_id)
                WHERE c.log IS NULL OR (p.log, p.size - 1) > (c.log, c.index)
            UNION SELECT c.tenant_id FROM console_tracecursor c WHERE EXISTS (SELECT FROM reviews_report r
                WHERE r.tenant_id = c.tenant_id AND r.id > ledger_uuid_from(c.reports_to) AND r.at > c.reports_to);
    WHEN 'event_destinations' THEN
        RETURN QUERY SELECT DISTINCT d.tenant_id FROM console_eventdestination d
            WHERE d.ended_at IS NULL AND (d.retry_at IS NULL OR d.retry_at <= p_at) AND EXISTS (SELECT FROM ledger_tip p
                WHERE p.tenant_id = d.tenant_id AND (p.log, p.size - 1) > (d.log, d.index));
    WHEN 'alarm_notices' THEN
        RETURN QUERY SELECT a.tenant_id FROM ledger_alarm a WHERE a.closed_at IS NULL
            UNION SELECT n.tenant_id FROM console_notice n WHERE n.sent_at IS NULL AND n.given_up_at IS NULL
                AND n.topic = 'alarm' AND n.due_at <= p_at;
    WHEN 'notices' THEN
        -- New events, messages that are due or that are updated where they stand, and what was missed
        -- (console/notifications/collect.py).
        RETURN QUERY SELECT l.tenant_id FROM ledger_logged_events() l LEFT JOIN console_noticecursor c USING (tenant_id)
                WHERE c.seen IS DISTINCT FROM l.count
            UNION SELECT * FROM ledger_queued_tenants()
            UNION SELECT n.tenant_id FROM console_notice n WHERE n.sent_at IS NULL AND n.given_up_at IS NULL
                AND n.topic = 'approval' AND n.due_at <= p_at
            UNION SELECT n.tenant_id FROM console_notice n WHERE n.posted <> '' AND n.waiting > 0
            UNION SELECT p.tenant_id FROM approvals_approval p WHERE p.state = 'REQUESTED'
                AND p.requested_at > p_at - interval '6 hours' AND p.requested_at < p_at - interval '2 minutes'
                AND NOT EXISTS (SELECT FROM console_message m
                    WHERE m.tenant_id = p.tenant_id AND m.about_id = p.id AND m.kind = 'requested')
            UNION SELECT a.tenant_id FROM ledger_action a WHERE a.phase IN ('UNKNOWN', 'VERIFICATION_TIMEOUT')
                AND a.changed_at > p_at - interval '6 hours' AND a.changed_at < p_at - interval '2 minutes'
                AND NOT EXISTS (SELECT FROM console_message m
                    WHERE m.tenant_id = a.tenant_id AND m.about_id = a.id AND m.kind = 'unknown');
    WHEN 'handoffs' THEN
        RETURN QUERY SELECT s.tenant_id FROM console_noticesettings s
                WHERE jsonb_array_length(coalesce(s.document -> 'handoffs', '[]')) > 0
            UNION SELECT n.tenant_id FROM console_notice n WHERE n.sent_at IS NULL AND n.given_up_at IS NULL
                AND n.topic = 'handoff' AND n.due_at <= p_at;
    WHEN 'old_notices' THEN
        RETURN QUERY SELECT m.tenant_id FROM console_message m WHERE m.raised_at < p_at
            UNION SELECT n.tenant_id FROM console_notice n WHERE n.raised_at < p_at AND n.topic IN ('approval', 'handoff')
                AND (n.sent_at IS NOT NULL OR n.given_up_at IS NOT NULL);
    WHEN 'standing_retention' THEN
        RETURN QUERY SELECT r.tenant_id FROM ledger_retention r WHERE r.state = 'ACTIVE' AND r.standing;
    WHEN 'open_proposals' THEN
        RETURN QUERY SELECT c.tenant_id FROM ledger_contractversion c
                JOIN ledger_subject s ON s.tenant_id = c.tenant_id AND s.id = c.id WHERE s.state = 'PENDING'
            UNION SELECT s.tenant_id FROM ledger_system s WHERE s.proposal IS NOT NULL
            UNION SELECT k.tenant_id FROM approvals_approverkey k WHERE k.state = 'PENDING'
            UNION SELECT m.tenant_id FROM console_membership m WHERE m.proposal IS NOT NULL AND m.removed_at IS NULL
            UNION SELECT e.tenant_id FROM ledger_erasure e WHERE e.state = 'REQUESTED'
            UNION SELECT r.tenant_id FROM ledger_retention r WHERE r.state = 'PROPOSED'
            UNION SELECT t.id FROM ledger_tenant t JOIN ledger_event e ON e.tenant_id = t.id AND e.subject_id = t.id
                WHERE e.kind = 'off_boarding_requested';
    END CASE;
    PERFORM set_config('app.survey', '', true);
END $$;
REVOKE ALL ON FUNCTION console_survey(text, timestamptz) FROM PUBLIC;
