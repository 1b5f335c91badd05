-- A verification run is listed by the event that tells of it: at its commit, a transaction that stored the row of a run has
-- also written an event of the action that names this row (`ledger/sql/fences.sql` says the same of evidence).
CREATE OR REPLACE FUNCTION reviews_run_has_event() RETURNS trigger LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_tenant text := current_setting('app.tenant', true);
    v_named bytea;
BEGIN
    IF NOT row_security_active('public.ledger_entry') THEN
        RETURN NULL;
    END IF;
    PERFORM set_config('app.tenant', NEW.tenant_id::text, true);
    v_named := convert_to(format('"id":"%s"', NEW.id), 'UTF8');
    PERFORM FROM public.ledger_entry n WHERE n.tenant_id = NEW.tenant_id AND n.subject_id = NEW.action_id
        AND position(v_named IN n.detail) > 0 AND position('"listed":{'::bytea IN n.detail) > 0
        ORDER BY n.seq DESC LIMIT 1;
    IF NOT FOUND AND NOT EXISTS (SELECT FROM public.ledger_erased x
            WHERE x.tenant_id = NEW.tenant_id AND x.subject_id = NEW.action_id) THEN
        RAISE EXCEPTION 'no event of its action lists the run %', NEW.id USING ERRCODE = 'check_violation';
    END IF;
    PERFORM set_config('app.tenant', coalesce(v_tenant, ''), true);
    RETURN NULL;
END $$;
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'reviews_run'::regclass AND tgname = 'has_event') THEN
        CREATE CONSTRAINT TRIGGER has_event AFTER INSERT ON reviews_run DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION reviews_run_has_event();
    END IF;
    ALTER TABLE reviews_run ENABLE ALWAYS TRIGGER has_event;
END $$;
