-- Releases of policies: whose rows they are, what never changes, and that no policy comes in force, and none is tried on
-- live actions, without the gates that it needs.

SELECT ledger_isolate(each) FROM unnest(ARRAY['ledger_release', 'ledger_releasegate']::regclass[]) each;
SELECT ledger_make_append_only('ledger_releasegate'::regclass);

-- A release moves on, but what was drafted stays as it was checked and signed, and its two people stay who they were.
CREATE OR REPLACE FUNCTION ledger_release_keeps_its_draft() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE'
        AND (NEW.tenant_id, NEW.id, NEW.kind, NEW.version, NEW.digest, NEW.document, NEW.author, NEW.created_at)
            = (OLD.tenant_id, OLD.id, OLD.kind, OLD.version, OLD.digest, OLD.document, OLD.author, OLD.created_at)
        AND NEW.first_by IS NOT DISTINCT FROM coalesce(OLD.first_by, NEW.first_by)
        AND NEW.promoted_by IS NOT DISTINCT FROM coalesce(OLD.promoted_by, NEW.promoted_by) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'a release keeps its draft: % on % is refused', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE OR REPLACE TRIGGER keeps_its_draft BEFORE UPDATE OR DELETE ON ledger_release
    FOR EACH ROW EXECUTE FUNCTION ledger_release_keeps_its_draft();
ALTER TABLE ledger_release ENABLE ALWAYS TRIGGER keeps_its_draft;

-- A result names evidence of its own release; a result that nothing was stored for is none.
CREATE OR REPLACE FUNCTION ledger_gate_has_evidence() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM ledger_evidence e WHERE e.tenant_id = NEW.tenant_id AND e.id = NEW.pointer
            AND e.subject_id = NEW.release_id) THEN
        RAISE EXCEPTION 'gate % of this release has no evidence', NEW.gate USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER has_evidence BEFORE INSERT ON ledger_releasegate
    FOR EACH ROW EXECUTE FUNCTION ledger_gate_has_evidence();
ALTER TABLE ledger_releasegate ENABLE ALWAYS TRIGGER has_evidence;

-- The first version of a kind comes with the installation; every other one is released by its gates and two people. A
-- verification or recovery policy takes all eight gates to come in force, and all but the canary to be tried on live
-- actions; an approval or autonomy policy the simulation, the difference and the schemas. One that was in force may come
-- in force again, since what it was released by never goes away. A role that row security does not bind could take the
-- trigger away as well: it loads a record as a whole, versions before releases, and `verify_ledger` looks at it then.
CREATE OR REPLACE FUNCTION ledger_policy_is_released() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    v_release ledger_release;
    v_wanted text[] := ARRAY['RG-01', 'RG-02', 'RG-04', 'RG-05', 'RG-06', 'RG-07', 'RG-08'];
    v_red text;
    v_fault text;
BEGIN
    IF TG_OP = 'UPDATE' AND ((NEW.tenant_id, NEW.id, NEW.kind, NEW.version, NEW.digest, NEW.document)
            IS DISTINCT FROM (OLD.tenant_id, OLD.id, OLD.kind, OLD.version, OLD.digest, OLD.document)
            OR NEW.release_id IS DISTINCT FROM OLD.release_id) THEN
        RAISE EXCEPTION 'a version of a policy never changes' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NOT row_security_active('public.ledger_release') THEN
        RETURN NEW;
    END IF;
    IF NEW.release_id IS NULL THEN
        IF NEW.canary IS NOT NULL OR (TG_OP = 'INSERT' AND EXISTS (SELECT FROM ledger_policyversion p
                WHERE p.tenant_id = NEW.tenant_id AND p.kind = NEW.kind)) THEN
            v_fault := 'it has no release';
        END IF;
    ELSIF NEW.active OR NEW.canary IS NOT NULL THEN
        SELECT * INTO v_release FROM ledger_release r WHERE r.tenant_id = NEW.tenant_id AND r.id = NEW.release_id;
        IF NEW.kind NOT IN ('verification', 'recovery') THEN
            v_wanted := ARRAY['SIMULATION', 'RG-02', 'RG-06'];
        ELSIF NEW.active THEN
            v_wanted := v_wanted || 'RG-03'::text;
        END IF;
        SELECT string_agg(wanted.gate, ', ' ORDER BY wanted.gate) INTO v_red FROM unnest(v_wanted) AS wanted (gate)
            WHERE NOT coalesce((SELECT g.passed FROM ledger_releasegate g WHERE g.tenant_id = NEW.tenant_id
                AND g.release_id = NEW.release_id AND g.gate = wanted.gate ORDER BY g.seq DESC LIMIT 1), false);
        v_fault := CASE
            WHEN v_release.id IS NULL THEN 'it has no release'
            WHEN NEW.canary IS NOT NULL AND NEW.kind NOT IN ('verification', 'recovery')
                THEN 'a policy of this kind is not tried on live actions'
            WHEN (v_release.kind, v_release.version, v_release.digest)
                IS DISTINCT FROM (NEW.kind, NEW.version, NEW.digest) THEN 'its release is of another draft'
            WHEN v_red IS NOT NULL THEN 'these gates are not passed: ' || v_red
            WHEN NEW.active AND (v_release.first_by IS NULL OR v_release.promoted_by IS NULL
                OR v_release.first_by = v_release.promoted_by) THEN 'two people have not promoted it' END;
    END IF;
    IF v_fault IS NOT NULL THEN
        RAISE EXCEPTION 'the % policy % is not released: %', NEW.kind, NEW.version, v_fault
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER is_released BEFORE INSERT OR UPDATE ON ledger_policyversion
    FOR EACH ROW EXECUTE FUNCTION ledger_policy_is_released();
ALTER TABLE ledger_policyversion ENABLE ALWAYS TRIGGER is_released;
