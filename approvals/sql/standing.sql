-- Standing approvals: whose rows these are, what two persons agreed to never changes, and nothing passes beyond it.

SELECT ledger_isolate(each) FROM unnest(ARRAY[
    'approvals_standingapproval', 'approvals_standingpass']::regclass[]) each;
SELECT ledger_make_append_only('approvals_standingpass');

-- Each pass waits for the one before it: the row of the standing approval is locked, and what is left is counted there
-- and nowhere else. The later of the two clocks decides what is over.
CREATE OR REPLACE FUNCTION approvals_count_pass() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    v approvals_standingapproval;
BEGIN
    IF ledger_imports() THEN
        RETURN NEW;
    END IF;
    SELECT * INTO v FROM approvals_standingapproval s
        WHERE s.tenant_id = NEW.tenant_id AND s.id = NEW.standing_id FOR UPDATE;
    IF v.id IS NULL OR v.state <> 'ACTIVE' OR greatest(NEW.at, clock_timestamp()) >= v.ends_at THEN
        RAISE EXCEPTION 'the standing approval % is not in force', NEW.standing_id USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.number <> v.used_count + 1 OR v.used_count >= v.max_count OR v.used_minor + NEW.minor > v.max_minor THEN
        RAISE EXCEPTION 'the standing approval % has no room for this', NEW.standing_id USING ERRCODE = 'check_violation';
    END IF;
    UPDATE approvals_standingapproval s SET used_count = s.used_count + 1, used_minor = s.used_minor + NEW.minor
        WHERE s.tenant_id = NEW.tenant_id AND s.id = NEW.standing_id;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER count_pass BEFORE INSERT ON approvals_standingpass
    FOR EACH ROW EXECUTE FUNCTION approvals_count_pass();
ALTER TABLE approvals_standingpass ENABLE ALWAYS TRIGGER count_pass;

CREATE OR REPLACE FUNCTION approvals_keep_standing() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    v_moves text[] := ARRAY['state', 'reason', 'policies', 'proposed_by', 'proposed_person', 'answered_by',
        'answered_person', 'answered_at', 'used_count', 'used_minor', 'paused_at', 'pause_reason', 'pause_action',
        'case_id', 'ended_at', 'ended_because'];
BEGIN
    IF TG_OP = 'DELETE' OR to_jsonb(NEW) - v_moves <> to_jsonb(OLD) - v_moves
        OR ((NEW.used_count, NEW.used_minor) <> (OLD.used_count, OLD.used_minor) AND pg_trigger_depth() < 2)
        OR (NEW.state <> OLD.state AND OLD.state || '>' || NEW.state NOT IN ('PROPOSED>ACTIVE', 'PROPOSED>DECLINED',
            'PROPOSED>ENDED', 'ACTIVE>PAUSED', 'ACTIVE>ENDED', 'PAUSED>PROPOSED', 'PAUSED>ENDED'))
        OR ((NEW.proposed_by, NEW.proposed_person) <> (OLD.proposed_by, OLD.proposed_person)
            AND (OLD.state, NEW.state) <> ('PAUSED', 'PROPOSED'))
        OR (OLD.is_time_boxed AND (NEW.reason, NEW.policies) <> (OLD.reason, OLD.policies)) THEN
        RAISE EXCEPTION 'what people agreed to in the standing approval % does not change', OLD.id
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER keep_standing BEFORE UPDATE OR DELETE ON approvals_standingapproval
    FOR EACH ROW EXECUTE FUNCTION approvals_keep_standing();
ALTER TABLE approvals_standingapproval ENABLE ALWAYS TRIGGER keep_standing;
-- It comes to be by a proposal and by nothing else, so that nobody puts a finished one there; a time-boxed one by what the
-- approval policy in force allows one person, for an hour from now at most. The minute is what clocks may differ.
CREATE OR REPLACE FUNCTION approvals_begin_standing() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    v_bounds jsonb;
BEGIN
    IF ledger_imports() THEN
        RETURN NEW;
    END IF;
    IF NEW.is_time_boxed THEN
        SELECT convert_from(p.document, 'UTF8')::jsonb #> '{standing_approvals,time_boxes}' INTO v_bounds
            FROM ledger_policyversion p WHERE p.tenant_id = NEW.tenant_id AND p.kind = 'approval' AND p.active;
        IF NEW.state <> 'ACTIVE' OR NEW.used_count <> 0 OR NEW.used_minor <> 0
            OR NEW.max_count > coalesce((v_bounds ->> 'most_count')::integer, 0)
            OR NEW.ends_at > NEW.proposed_at + coalesce((v_bounds ->> 'most_minutes')::integer, 0) * interval '1 minute'
            OR NEW.ends_at > clock_timestamp() + interval '61 minutes' THEN
            RAISE EXCEPTION 'the approval policy does not allow this time-boxed pass' USING ERRCODE = 'check_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF NEW.state <> 'PROPOSED' OR NEW.used_count <> 0 OR NEW.used_minor <> 0 OR NEW.answered_by IS NOT NULL THEN
        RAISE EXCEPTION 'a standing approval begins as a proposal' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER begin_standing BEFORE INSERT ON approvals_standingapproval
    FOR EACH ROW EXECUTE FUNCTION approvals_begin_standing();
ALTER TABLE approvals_standingapproval ENABLE ALWAYS TRIGGER begin_standing;

-- A start looks whether what passed may still run: nothing is paused or ended in the middle of one.
SELECT ledger_gate('approvals_standingapproval', 'UPDATE OF state');
