-- What an agent may still have done changes behind the tenant's gate only, like all that a start is judged by
-- (ledger/sql/gate.sql); flags and owners do not matter to a start.
SELECT ledger_gate('approvals_agent', 'UPDATE OF version, revoked_at, sessions_since, withdrawn OR DELETE');

-- Nothing is granted or started for an agent that was revoked, also if it was registered again since, nor for a tool
-- that was taken from it. Claim and start look at versions as well (approvals/agents/rules/registry.py).
CREATE OR REPLACE FUNCTION approvals_refuse_stopped() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF ledger_imports() THEN
        RETURN NEW;
    END IF;
    IF EXISTS (
        SELECT FROM ledger_action a
        JOIN approvals_session s ON s.tenant_id = a.tenant_id AND s.id = a.session_id
        JOIN approvals_agent m ON m.tenant_id = a.tenant_id AND m.agent_id = s.agent_id
        JOIN approvals_agentversion v
            ON v.tenant_id = a.tenant_id AND v.agent_id = m.agent_id AND v.version = m.version
        WHERE a.tenant_id = NEW.tenant_id AND a.id = NEW.action_id
            AND (m.revoked_at IS NOT NULL OR s.agent_seq < m.sessions_since OR NOT v.tools ? a.tool
                OR EXISTS (SELECT FROM jsonb_array_elements(m.withdrawn -> a.tool) w
                    WHERE (w ->> 0)::integer > s.agent_seq AND w ->> 1 IS NULL))
    ) THEN
        RAISE EXCEPTION 'the agent of the action % may no longer have it done', NEW.action_id
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER refuse_stopped BEFORE INSERT ON approvals_grant
    FOR EACH ROW EXECUTE FUNCTION approvals_refuse_stopped();
ALTER TABLE approvals_grant ENABLE ALWAYS TRIGGER refuse_stopped;
CREATE OR REPLACE TRIGGER refuse_stopped BEFORE INSERT ON approvals_attempt
    FOR EACH ROW EXECUTE FUNCTION approvals_refuse_stopped();
ALTER TABLE approvals_attempt ENABLE ALWAYS TRIGGER refuse_stopped;
