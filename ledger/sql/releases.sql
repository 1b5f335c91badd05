-- Releases of policies and contracts: whose rows they are, what never changes, and that no policy, and no contract that
-- changes what is verified, comes in force, and none is tried on live actions, without the gates that it needs.

SELECT ledger_isolate(each) FROM unnest(ARRAY['ledger_release', 'ledger_releasegate']::regclass[]) each;
SELECT ledger_make_append_only('ledger_releasegate'::regclass);

-- Whatever changes which versions of one kind of policy, or of one tool's contract, are in force waits here for whoever
-- does so already, and then reads what they left. It is a lock and no row, since a tool's first version has none.
CREATE OR REPLACE FUNCTION ledger_lock_versions(p_tenant uuid, p_kind text, p_tool text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(4711005, hashtext(concat_ws('/', ledger_own_tenant(p_tenant), p_kind, p_tool)));
END $$;

-- A release moves on, but what was drafted stays as it was checked and signed, and its two people stay who they were.
CREATE OR REPLACE FUNCTION ledger_release_keeps_its_draft() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE'
        AND (NEW.tenant_id, NEW.id, NEW.kind, NEW.tool, NEW.version, NEW.digest, NEW.document, NEW.author)
            = (OLD.tenant_id, OLD.id, OLD.kind, OLD.tool, OLD.version, OLD.digest, OLD.document, OLD.author)
        AND NEW.created_at = OLD.created_at
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

-- Which of the gates named are not passed: the newest result of each counts.
CREATE OR REPLACE FUNCTION ledger_red_gates(p_tenant uuid, p_release uuid, p_wanted text[]) RETURNS text LANGUAGE sql
STABLE SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT ledger_own_tenant(p_tenant);
    SELECT string_agg(wanted.gate, ', ' ORDER BY wanted.gate) FROM unnest(p_wanted) AS wanted (gate)
        WHERE NOT coalesce((SELECT g.passed FROM ledger_releasegate g WHERE g.tenant_id = p_tenant
            AND g.release_id = p_release AND g.gate = wanted.gate ORDER BY g.seq DESC LIMIT 1), false)
$$;

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
    IF NOT row_security_active('public.ledger_release') OR ledger_imports() THEN
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
        v_red := ledger_red_gates(NEW.tenant_id, NEW.release_id, v_wanted);
        v_fault := CASE
            WHEN v_release.id IS NULL THEN 'it has no release'
            WHEN NEW.canary IS NOT NULL AND NEW.kind NOT IN ('verification', 'recovery')
                THEN 'a policy of this kind is not tried on live actions'
            WHEN (v_release.kind, v_release.version, v_release.digest)
                IS DISTINCT FROM (NEW.kind, NEW.version, NEW.digest) THEN 'its release is of another draft'
            WHEN v_red IS NOT NULL THEN 'these gates are not passed: ' || v_red
            WHEN NEW.active AND NOT ledger_two_people(NEW.tenant_id, NEW.release_id, 'release_confirmed', 'release_promoted')
                THEN 'two people have not promoted it' END;
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

-- What of a contract's document decides what is verified (`VERIFIED_PARTS` of the rules): two versions verify alike where
-- these parts are the same. What a tool that only reads names there is no outcome, and is left out.
CREATE OR REPLACE FUNCTION ledger_verified_parts(p_document bytea) RETURNS jsonb LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT coalesce(jsonb_object_agg(part.key, part.value), '{}')
    FROM (SELECT convert_from(p_document, 'UTF8')::jsonb AS document) AS read
    CROSS JOIN LATERAL jsonb_each(read.document) AS part
    WHERE part.key = 'side_effect_class' OR (read.document ->> 'side_effect_class' <> 'READ_ONLY' AND part.key = ANY(ARRAY[
        'cost', 'data_sensitivity', 'no_op_success_allowed', 'required_effects', 'reversibility', 'stale_errors',
        'unverifiable_acknowledged', 'user_impact', 'verification']))
$$;

-- A version of a contract that verifies as the one in force does (or, where none is, as the last that was retired) comes
-- by registration, and so does the first one of a tool. Any other one is released, by two people and its gates, which
-- compared it with what is in force now. A role that row security does not bind loads a record as a whole, as with
-- policies.
CREATE OR REPLACE FUNCTION ledger_contract_is_released() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    v_release ledger_release;
    v_before ledger_contractversion;
    v_red text;
    v_fault text;
BEGIN
    IF NOT row_security_active('public.ledger_release') OR ledger_imports() THEN
        RETURN NEW;
    END IF;
    PERFORM ledger_lock_versions(NEW.tenant_id, 'contract', NEW.name);
    SELECT c.* INTO v_before FROM ledger_contractversion c JOIN ledger_subject s
        ON s.tenant_id = c.tenant_id AND s.id = c.id AND s.state IN ('REGISTERED', 'RETIRED')
        WHERE c.tenant_id = NEW.tenant_id AND c.name = NEW.name
        ORDER BY s.state = 'REGISTERED' DESC, c.id DESC LIMIT 1;
    IF NEW.release_id IS NULL THEN
        IF FOUND AND ledger_verified_parts(v_before.document) <> ledger_verified_parts(NEW.document) THEN
            v_fault := 'it changes what is verified and has no release';
        END IF;
    ELSE
        SELECT * INTO v_release FROM ledger_release r WHERE r.tenant_id = NEW.tenant_id AND r.id = NEW.release_id;
        v_red := ledger_red_gates(NEW.tenant_id, NEW.release_id,
            ARRAY['RG-01', 'RG-02', 'RG-04', 'RG-06', 'RG-07', 'RG-08']);
        v_fault := CASE
            WHEN v_release.id IS NULL THEN 'it has no release'
            WHEN (v_release.kind, v_release.tool, v_release.version, v_release.digest)
                IS DISTINCT FROM ('contract', NEW.name, NEW.version, NEW.digest) THEN 'its release is of another draft'
            WHEN v_release.basis IS DISTINCT FROM v_before.digest THEN 'its gates compared it with another version'
            WHEN v_red IS NOT NULL THEN 'these gates are not passed: ' || v_red
            WHEN NOT ledger_two_people(NEW.tenant_id, NEW.release_id, 'release_confirmed', 'release_promoted')
                THEN 'two people have not promoted it' END;
    END IF;
    IF v_fault IS NOT NULL THEN
        RAISE EXCEPTION 'version % of the contract of % is not released: %', NEW.version, NEW.name, v_fault
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER is_released BEFORE INSERT ON ledger_contractversion
    FOR EACH ROW EXECUTE FUNCTION ledger_contract_is_released();
ALTER TABLE ledger_contractversion ENABLE ALWAYS TRIGGER is_released;
