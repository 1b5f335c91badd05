-- Finding an action by a part of its target. Under row-level security no index serves LIKE: it could tell of rows that
-- the policy hides, so the policy is asked first, row by row. What is searched therefore stands in a narrow table of its
-- own, which the application may not touch; one function reads it, for the current tenant alone.
--
-- The table follows ledger_action by a trigger, whoever writes there: a new action is found by the transaction that
-- proposed it, and what erasing empties is empty here in the same statement.

CREATE TABLE IF NOT EXISTS ledger_actionsearch (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    target text NOT NULL,
    PRIMARY KEY (tenant_id, id)
);
-- What waits to be sorted into the index is read by every search, so little may wait.
CREATE INDEX IF NOT EXISTS action_search_words ON ledger_actionsearch USING gin (tenant_id, target gin_trgm_ops)
    WITH (gin_pending_list_limit = 256);

CREATE OR REPLACE FUNCTION ledger_follow_target() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO ledger_actionsearch (tenant_id, id, target) VALUES (NEW.tenant_id, NEW.id, NEW.target);
    ELSIF TG_OP = 'UPDATE' THEN
        UPDATE ledger_actionsearch SET target = NEW.target WHERE id = NEW.id AND tenant_id = NEW.tenant_id;
    ELSE
        DELETE FROM ledger_actionsearch WHERE id = OLD.id AND tenant_id = OLD.tenant_id;
    END IF;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER search_follows AFTER INSERT OR UPDATE OF target OR DELETE ON ledger_action
    FOR EACH ROW EXECUTE FUNCTION ledger_follow_target();
ALTER TABLE ledger_action ENABLE ALWAYS TRIGGER search_follows;

-- The newest actions of the current tenant whose target is like p_like, from the id p_upto downwards. Frequent matches are found among
-- the newest p_through, looked at one after another in the order of their ids, which costs the same whatever is behind them. If
-- there are fewer than p_most, the index finds them among all. The inner part of that has one index to go by, whatever the planner knows of
-- the table; the ids are put in their order afterwards.
DROP FUNCTION IF EXISTS ledger_search(uuid, text, uuid, integer);
CREATE OR REPLACE FUNCTION ledger_search(p_tenant uuid, p_like text, p_upto uuid, p_most integer, p_through integer)
RETURNS TABLE (action_id uuid)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
DECLARE
    v_tenant uuid := ledger_own_tenant(p_tenant);
    v_found uuid[];
BEGIN
    IF p_through > 0 THEN
        v_found := ARRAY(SELECT f.id FROM (SELECT s.id, s.target FROM ledger_actionsearch s
                WHERE s.tenant_id = v_tenant AND s.id <= p_upto ORDER BY s.id DESC LIMIT p_through) f
            WHERE f.target ILIKE p_like ORDER BY f.id DESC LIMIT p_most);
        IF cardinality(v_found) = p_most THEN
            RETURN QUERY SELECT unnest(v_found);
            RETURN;
        END IF;
    END IF;
    RETURN QUERY SELECT f.id FROM (SELECT s.id FROM ledger_actionsearch s
            WHERE s.tenant_id = v_tenant AND s.target ILIKE p_like OFFSET 0) f
        WHERE f.id <= p_upto ORDER BY f.id DESC LIMIT p_most;
END $$;

-- An action of the current tenant that would be found by another target than it has, or none.
CREATE OR REPLACE FUNCTION ledger_search_fault(p_tenant uuid) RETURNS uuid
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT ledger_own_tenant(p_tenant);
    SELECT coalesce(a.id, s.id) FROM (SELECT id, target FROM ledger_action WHERE tenant_id = p_tenant) a
        FULL JOIN (SELECT id, target FROM ledger_actionsearch WHERE tenant_id = p_tenant) s ON s.id = a.id
        WHERE a.target IS DISTINCT FROM s.target LIMIT 1
$$;

-- Makes the table anew for the current tenant; for its owner alone, when a check has found a fault.
CREATE OR REPLACE FUNCTION ledger_rebuild_search(p_tenant uuid) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT ledger_own_tenant(p_tenant);
    DELETE FROM ledger_actionsearch WHERE tenant_id = p_tenant;
    INSERT INTO ledger_actionsearch (tenant_id, id, target)
        SELECT tenant_id, id, target FROM ledger_action WHERE tenant_id = p_tenant;
$$;

REVOKE ALL ON FUNCTION ledger_search(uuid, text, uuid, integer, integer), ledger_search_fault(uuid), ledger_rebuild_search(uuid)
    FROM PUBLIC;
