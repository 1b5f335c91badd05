-- What the database refuses, to the owner too: triggers that always fire, whatever session_replication_role says. No
-- setting of a session opens them. A trigger that goes by the table is given its name, since a part of the table, be it of
-- a month or of some tenants, has another one.

-- The table that this one is a part of, or itself.
CREATE OR REPLACE FUNCTION ledger_whole_table(target regclass) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT w.relname FROM pg_inherits i JOIN pg_class w ON w.oid = i.inhparent
        WHERE i.inhrelid = target), (SELECT c.relname FROM pg_class c WHERE c.oid = target))
$$;

-- The only change that an append-only row ever sees: the columns that ledger_blank names become empty, once the subject
-- is on the list of what was erased, and nothing else in the row moves. Only that list opens this, and only
-- `ledger_erase` writes it. Keys of erased subjects may go, and rows of subjects that were pruned. And ledger_blank
-- itself may name more columns of a table, never fewer and no other content for those it names.
CREATE OR REPLACE FUNCTION ledger_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    v_relation text := TG_ARGV[0];
    v_old jsonb;
BEGIN
    IF TG_OP <> 'TRUNCATE' THEN
        v_old := to_jsonb(OLD);
        IF TG_OP = 'UPDATE' AND EXISTS (SELECT FROM ledger_blank b JOIN ledger_erased e
                ON e.tenant_id = (v_old ->> 'tenant_id')::uuid AND e.subject_id = (v_old ->> b.subject)::uuid
                WHERE b.relation = v_relation AND to_jsonb(NEW) = v_old || b.columns) THEN
            RETURN NEW;
        END IF;
        IF TG_OP = 'UPDATE' AND v_relation = 'ledger_blank'
                AND to_jsonb(NEW) = v_old || jsonb_build_object('columns', to_jsonb(NEW) -> 'columns')
                AND to_jsonb(NEW) -> 'columns' = (to_jsonb(NEW) -> 'columns') || (v_old -> 'columns') THEN
            RETURN NEW;
        END IF;
        IF TG_OP = 'DELETE' AND v_relation = 'ledger_subjectkey' AND EXISTS (SELECT FROM ledger_erased e
                WHERE e.tenant_id = (v_old ->> 'tenant_id')::uuid
                AND e.subject_id = (v_old ->> 'subject_id')::uuid) THEN
            RETURN OLD;
        END IF;
        IF TG_OP = 'DELETE' AND EXISTS (SELECT FROM ledger_erased e, ledger_blank b
                WHERE e.tenant_id = (v_old ->> 'tenant_id')::uuid AND e.subject_id = (v_old ->> b.subject)::uuid
                AND b.relation = v_relation AND e.pruned_by IS NOT NULL) THEN
            RETURN OLD;
        END IF;
    END IF;
    RAISE EXCEPTION 'the record is append-only: % on % is refused', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE OR REPLACE FUNCTION ledger_make_append_only(target regclass) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_name text := ledger_whole_table(target);
BEGIN
    EXECUTE format('CREATE OR REPLACE TRIGGER no_truncate BEFORE TRUNCATE ON %s
        FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse(%L)', target, v_name);
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER no_truncate', target);
    -- A partition has that of its table.
    IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = target AND tgname = 'no_change' AND tgparentid <> 0) THEN
        EXECUTE format('CREATE OR REPLACE TRIGGER no_change BEFORE UPDATE OR DELETE ON %s
            FOR EACH ROW EXECUTE FUNCTION ledger_refuse(%L)', target, v_name);
    END IF;
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER no_change', target);
END $$;

-- What a tree is made of only grows: a tile keeps its hashes and gets more, a tip moves on, nothing goes away.
CREATE OR REPLACE FUNCTION ledger_only_grows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- A record of one table has no fields of the other, so the tables are told apart before any field is named.
    IF TG_OP = 'UPDATE' AND TG_ARGV[0] = 'ledger_tile' THEN
        IF (NEW.tenant_id, NEW.log, NEW.level, NEW.index) = (OLD.tenant_id, OLD.log, OLD.level, OLD.index)
            AND substr(NEW.hashes, 1, length(OLD.hashes)) = OLD.hashes THEN
            RETURN NEW;
        END IF;
    ELSIF TG_OP = 'UPDATE' AND TG_ARGV[0] = 'ledger_tip' THEN
        IF (NEW.tenant_id, NEW.log) = (OLD.tenant_id, OLD.log) AND NEW.signed_size >= OLD.signed_size
            AND (NEW.size > OLD.size OR (NEW.size = OLD.size AND NEW.root = OLD.root)) THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION 'the log only grows: % on % is refused', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE OR REPLACE FUNCTION ledger_make_growing(target regclass) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_name text := ledger_whole_table(target);
BEGIN
    EXECUTE format('CREATE OR REPLACE TRIGGER only_grows BEFORE UPDATE OR DELETE ON %s
        FOR EACH ROW EXECUTE FUNCTION ledger_only_grows(%L)', target, v_name);
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER only_grows', target);
    EXECUTE format('CREATE OR REPLACE TRIGGER no_truncate BEFORE TRUNCATE ON %s
        FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse(%L)', target, v_name);
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER no_truncate', target);
END $$;

-- Whatever the code above it forgets: no action begins under a version that nobody has confirmed, or somebody declined.
CREATE OR REPLACE FUNCTION ledger_contract_in_force() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF ledger_imports() THEN
        RETURN NEW;
    END IF;
    IF EXISTS (
        SELECT FROM ledger_contractversion c JOIN ledger_subject s ON s.tenant_id = c.tenant_id AND s.id = c.id
        WHERE c.tenant_id = NEW.tenant_id AND c.name = NEW.tool AND c.version = NEW.tool_version
            AND s.state <> 'REGISTERED'
    ) THEN
        RAISE EXCEPTION 'version % of % is not in force', NEW.tool_version, NEW.tool USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER contract_in_force BEFORE INSERT ON ledger_action
    FOR EACH ROW EXECUTE FUNCTION ledger_contract_in_force();
ALTER TABLE ledger_action ENABLE ALWAYS TRIGGER contract_in_force;

-- What no event tells of is not part of the record: at its commit, a transaction that stored evidence has also written an
-- event of the same subject that commits to it. The newest events are looked at first, so of a long chain one or two.
-- What was erased or pruned meanwhile is spared. A role that row security does not bind loads a record as a whole,
-- in an order of its own; `verify_ledger` finds what it leaves behind.
CREATE OR REPLACE FUNCTION ledger_evidence_has_event() RETURNS trigger LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_tenant text := current_setting('app.tenant', true);
    v_commitment bytea;
BEGIN
    IF NOT row_security_active('public.ledger_event') THEN
        RETURN NULL;
    END IF;
    -- A transaction may end under another tenant than it wrote for.
    PERFORM set_config('app.tenant', NEW.tenant_id::text, true);
    -- An envelope is canonical JSON, so a commitment has one way to be written.
    v_commitment := convert_to(format('{"digest":"%s","length":%s,"pointer":"%s","purpose":%s}',
        NEW.commitment, NEW.length, NEW.id, to_json(NEW.purpose)), 'UTF8');
    PERFORM FROM public.ledger_event e WHERE e.tenant_id = NEW.tenant_id AND e.subject_id = NEW.subject_id
        AND position(v_commitment IN e.envelope) > 0 ORDER BY e.seq DESC LIMIT 1;
    IF NOT FOUND AND NOT EXISTS (SELECT FROM public.ledger_erased x
            WHERE x.tenant_id = NEW.tenant_id AND x.subject_id = NEW.subject_id) THEN
        RAISE EXCEPTION 'no event of its subject commits to the evidence %', NEW.id USING ERRCODE = 'check_violation';
    END IF;
    PERFORM set_config('app.tenant', coalesce(v_tenant, ''), true);
    RETURN NULL;
END $$;
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'ledger_evidence'::regclass AND tgname = 'has_event') THEN
        CREATE CONSTRAINT TRIGGER has_event AFTER INSERT ON ledger_evidence DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION ledger_evidence_has_event();
    END IF;
    ALTER TABLE ledger_evidence ENABLE ALWAYS TRIGGER has_event;
END $$;

-- Those that there are already, also of other apps.
SELECT ledger_make_append_only(tgrelid) FROM pg_trigger WHERE tgname = 'no_change';
SELECT ledger_make_growing(tgrelid) FROM pg_trigger WHERE tgname = 'only_grows';

REVOKE ALL ON FUNCTION ledger_whole_table(regclass), ledger_make_append_only(regclass), ledger_make_growing(regclass)
    FROM PUBLIC;
