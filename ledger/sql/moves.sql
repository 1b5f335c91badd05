-- A tenant that is being moved to another installation is not written to: every table with rows of tenants has a trigger
-- that asks the directory. A writer holds a lock of its tenant until its transaction ends, and asks behind it. So whoever
-- has set `moving`, and then got that lock alone, knows that each writer of before has ended, and that each later one is
-- refused. While the queue of events is emptied (`freezing`), the log alone may still grow.
--
-- A transaction asks once: what it noted ends with the lock, also where it goes back to a savepoint.
-- Tables that are kept apart by tenant are written for the tenant of the session; the others say it in each row.
CREATE OR REPLACE FUNCTION ledger_refuse_moving() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    v_tenant uuid;
    v_moving text;
    v_address text;
BEGIN
    IF TG_LEVEL = 'STATEMENT' THEN
        v_tenant := public.ledger_current_tenant();
    ELSIF TG_OP = 'DELETE' THEN
        v_tenant := OLD.tenant_id;
    ELSE
        v_tenant := NEW.tenant_id;
    END IF;
    IF v_tenant::text IS DISTINCT FROM pg_catalog.current_setting('app.here', true) THEN
        PERFORM pg_catalog.pg_advisory_xact_lock_shared(4711006, pg_catalog.hashtext(v_tenant::text));
        SELECT t.moving, t.move ->> 'address' INTO v_moving, v_address FROM public.ledger_tenant t WHERE t.id = v_tenant;
        IF v_moving = '' THEN
            PERFORM pg_catalog.set_config('app.here', v_tenant::text, true);
        ELSIF v_moving <> '' AND NOT (v_moving = 'freezing' AND TG_ARGV[0] = 'log') THEN
            RAISE EXCEPTION 'the tenant is %', v_moving USING ERRCODE = 'object_in_use', HINT = coalesce(v_address, '');
        END IF;
    END IF;
    IF TG_LEVEL = 'STATEMENT' THEN
        RETURN NULL;
    ELSIF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    RETURN NEW;
END $$;

-- Some triggers judge a row by what is in force when it comes: a version, an agent, a standing approval. A tenant that is
-- taken in from another installation brings rows that were judged there long ago, so these pass while it is. Only the
-- owner may take one in, and whoever is not may set the word in vain: what counts is who has signed in, also within a
-- function that runs with the owner's rights. `verify_ledger` judges the rows afterwards.
CREATE OR REPLACE FUNCTION ledger_imports() RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT coalesce(current_setting('app.import', true), '') = 'on' AND pg_catalog.pg_has_role(session_user,
        (SELECT c.relowner FROM pg_catalog.pg_class c WHERE c.oid = 'public.ledger_tenant'::regclass), 'MEMBER')
$$;

-- The triggers ask it as soon as they are there; `prepare_database` then gives it to the application alone.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) right_of
            WHERE p.oid = 'ledger_imports()'::regprocedure AND right_of.grantee <> p.proowner) THEN
        GRANT EXECUTE ON FUNCTION ledger_imports() TO PUBLIC;
    END IF;
END $$;

CREATE OR REPLACE FUNCTION ledger_hold_moving(target regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE OR REPLACE TRIGGER being_moved BEFORE INSERT OR UPDATE OR DELETE ON %s
        FOR EACH %s EXECUTE FUNCTION ledger_refuse_moving(%L)', target,
        (SELECT CASE WHEN relrowsecurity THEN 'STATEMENT' ELSE 'ROW' END FROM pg_class WHERE oid = target),
        CASE WHEN target = ANY(ARRAY['ledger_log', 'ledger_leaf', 'ledger_tile', 'ledger_tip', 'ledger_checkpoint',
            'ledger_pending']::regclass[]) THEN 'log' ELSE '' END);
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER being_moved', target);
END $$;

-- Every table of an app that has rows of tenants.
CREATE OR REPLACE FUNCTION ledger_hold_moving_tables(app text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM ledger_hold_moving(c.oid) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
        AND a.attname = 'tenant_id' AND NOT a.attisdropped AND starts_with(c.relname, app || '_') ORDER BY c.relname;
END $$;
REVOKE ALL ON FUNCTION ledger_refuse_moving(), ledger_hold_moving(regclass), ledger_hold_moving_tables(text) FROM PUBLIC;

SELECT ledger_hold_moving_tables('ledger');
