-- Erasing: what two people decided to erase becomes empty, unless a hold, its age or its state forbids it.

-- What erasing leaves empty, table by table: each app says it of its own tables, in an erasure.sql of its own. `subject`
-- is the column that says whose row it is, `columns` what the row looks like afterwards. A line may come to name more
-- columns than the table has of it already; one that differs otherwise is refused by the fence, so such a file fails and
-- is not half obeyed.
CREATE TABLE IF NOT EXISTS ledger_blank (
    relation text NOT NULL,
    subject text NOT NULL,
    columns jsonb NOT NULL,
    PRIMARY KEY (relation, subject)
);
INSERT INTO ledger_blank (relation, subject, columns) VALUES
    ('ledger_entry', 'subject_id', '{"entry": null, "entry_salt": null, "detail": null, "detail_salt": null}'),
    ('ledger_evidence', 'subject_id', '{"salt": null, "sealed": null, "source": ""}'),
    ('ledger_action', 'id', '{"target": "", "payload_hash": "", "operation_key": "", "call_id": ""}'),
    ('ledger_idempotency', 'action_id', '{"key": "", "request_hash": ""}'),
    ('ledger_freeze', 'id', '{"value": "", "reason": ""}'),
    ('ledger_unwinding', 'id', '{"reason": ""}')
ON CONFLICT (relation, subject) DO UPDATE SET columns = excluded.columns WHERE ledger_blank.columns <> excluded.columns;
SELECT ledger_make_append_only('ledger_blank');
SELECT ledger_isolate(each) FROM unnest(ARRAY['ledger_erasure', 'ledger_erased', 'ledger_hold']::regclass[]) each;

-- What may be erased: what has come to its end, and the conversations that were recorded elsewhere.
CREATE OR REPLACE FUNCTION ledger_rests(p_kind text, p_state text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE p_kind
        WHEN 'action' THEN p_state IN ('RECONCILED_SUCCESS', 'COMPENSATED', 'ROLLED_BACK', 'ABANDONED', 'FAILED')
        WHEN 'approval' THEN p_state IN ('REJECTED', 'EXPIRED', 'VOIDED', 'CONSUMED')
        WHEN 'case' THEN p_state = 'RESOLVED'
        WHEN 'session' THEN p_state IN ('OPEN', 'CLOSED')
        WHEN 'incident' THEN p_state = 'CLOSED'
        WHEN 'freeze' THEN p_state = 'LIFTED'
        WHEN 'unwinding' THEN p_state = 'DONE'
        WHEN 'recording' THEN p_state = 'IMPORTED'
        ELSE false END
$$;

-- Whether a hold that nobody has lifted covers one of these subjects; read from the events, as who decided is.
CREATE OR REPLACE FUNCTION ledger_on_hold(p_tenant uuid, p_subjects uuid[]) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT ledger_own_tenant(p_tenant);
    SELECT EXISTS (SELECT FROM ledger_event e
        JOIN ledger_subject s ON s.tenant_id = e.tenant_id AND s.id = e.subject_id
        JOIN ledger_entry n ON n.tenant_id = s.tenant_id AND n.subject_id = s.id AND n.seq = 1
        CROSS JOIN LATERAL jsonb_to_record(convert_from(n.detail, 'UTF8')::jsonb) AS h (scope text, value text)
        WHERE e.tenant_id = p_tenant AND e.kind = 'hold_placed' AND e.seq = 1 AND s.kind = 'hold'
        AND s.state = 'PLACED' AND (h.scope = 'all'
            OR (h.scope IN ('action', 'recording') AND h.value = ANY(p_subjects::text[]))
            OR EXISTS (SELECT FROM ledger_action a WHERE a.tenant_id = s.tenant_id AND a.id = ANY(p_subjects)
                AND ((h.scope = 'target' AND a.target = h.value) OR (h.scope = 'agent' AND a.agent = h.value)))))
$$;

-- Whose turn it is: holds and the beginning of an erasure wait for each other, tenant by tenant.
CREATE OR REPLACE FUNCTION ledger_take_turn(p_tenant uuid) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT pg_advisory_xact_lock(4711002, hashtext(ledger_own_tenant(p_tenant)::text))
$$;

-- The subjects of a confirmed request, as its first event names them; the request is locked until the commit.
CREATE OR REPLACE FUNCTION ledger_erasure_scope(p_tenant uuid, p_erasure uuid) RETURNS uuid[]
LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    v_tenant uuid := ledger_own_tenant(p_tenant);
    v_detail jsonb;
    v_policy uuid;
BEGIN
    PERFORM FROM ledger_subject s WHERE s.tenant_id = v_tenant AND s.id = p_erasure AND s.kind = 'erasure'
        AND s.state = 'CONFIRMED' FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the erasure is not confirmed' USING ERRCODE = 'insufficient_privilege';
    END IF;
    SELECT convert_from(n.detail, 'UTF8')::jsonb INTO v_detail FROM ledger_entry n
        WHERE n.tenant_id = v_tenant AND n.subject_id = p_erasure AND n.seq = 1;
    v_policy := (v_detail ->> 'retention')::uuid;
    IF NOT ledger_two_people(v_tenant, p_erasure, 'erasure_requested', 'erasure_confirmed') AND (v_policy IS NULL
            OR NOT ledger_two_people(v_tenant, v_policy, 'retention_proposed', 'retention_confirmed')
            OR (ledger_retention_in_force(v_tenant) ->> 'id')::uuid IS DISTINCT FROM v_policy
            OR NOT (ledger_retention_in_force(v_tenant) ->> 'standing')::boolean) THEN
        RAISE EXCEPTION 'the erasure is not of two people' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN (SELECT array_agg((each ->> 'id')::uuid) FROM jsonb_array_elements(v_detail -> 'subjects') each);
END $$;

-- What the eraser's role may call, and nobody else.

-- Whether the request may begin: empty, or why it may not.
CREATE OR REPLACE FUNCTION ledger_begin_erasure(p_tenant uuid, p_erasure uuid) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    v_tenant uuid := ledger_own_tenant(p_tenant);
    v_scope uuid[] := ledger_erasure_scope(v_tenant, p_erasure);
    v_policy jsonb;
    v_age integer;
BEGIN
    PERFORM FROM ledger_erasure x WHERE x.tenant_id = v_tenant AND x.id = p_erasure AND x.begun_at IS NOT NULL;
    IF FOUND THEN
        RETURN '';
    END IF;
    PERFORM ledger_take_turn(v_tenant);
    IF ledger_on_hold(v_tenant, v_scope) THEN
        RETURN 'ON_HOLD';
    END IF;
    v_policy := ledger_retention_in_force(v_tenant);
    v_age := coalesce((v_policy ->> 'floor_days')::integer, 0);
    IF NOT ledger_two_people(v_tenant, p_erasure, 'erasure_requested', 'erasure_confirmed') THEN
        v_age := greatest(v_age, (v_policy ->> 'payload_days')::integer);
    END IF;
    IF v_age > 0 AND EXISTS (SELECT FROM ledger_subject s WHERE s.tenant_id = v_tenant AND s.id = ANY(v_scope)
            AND s.created_at > clock_timestamp() - make_interval(days => v_age)) THEN
        RETURN 'TOO_YOUNG';
    END IF;
    IF EXISTS (SELECT FROM unnest(v_scope) wanted LEFT JOIN ledger_subject s
            ON s.tenant_id = v_tenant AND s.id = wanted WHERE NOT coalesce(ledger_rests(s.kind, s.state), false)) THEN
        RETURN 'STILL_OPEN';
    END IF;
    UPDATE ledger_erasure SET begun_at = clock_timestamp() WHERE tenant_id = v_tenant AND id = p_erasure;
    RETURN '';
END $$;

-- The next subjects of a request that has begun: everything personal of theirs becomes empty, and their keys wait to be
-- destroyed. Called again it goes on where the last commit left it.
CREATE OR REPLACE FUNCTION ledger_erase(p_tenant uuid, p_erasure uuid, p_most integer)
RETURNS TABLE (subject_id uuid, kind text, seq integer, evidence uuid[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    v_tenant uuid := ledger_own_tenant(p_tenant);
    v_scope uuid[] := ledger_erasure_scope(v_tenant, p_erasure);
    v_next uuid[];
    v_blank record;
    v_names text;
BEGIN
    PERFORM FROM ledger_erasure x WHERE x.tenant_id = v_tenant AND x.id = p_erasure AND x.begun_at IS NOT NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the erasure has not begun' USING ERRCODE = 'insufficient_privilege';
    END IF;
    SELECT coalesce(array_agg(id), '{}') INTO v_next FROM (SELECT s.id FROM ledger_subject s
        WHERE s.tenant_id = v_tenant AND s.id = ANY(v_scope) AND NOT EXISTS (SELECT FROM ledger_erased e
            WHERE e.tenant_id = v_tenant AND e.subject_id = s.id)
        ORDER BY s.id LIMIT p_most FOR UPDATE) todo;
    INSERT INTO ledger_erased (tenant_id, subject_id, kind, erasure_id, seq, at, key_id)
        SELECT v_tenant, s.id, s.kind, p_erasure, s.seq, clock_timestamp(), k.key_id FROM ledger_subject s
        LEFT JOIN ledger_subjectkey k ON k.tenant_id = v_tenant AND k.subject_id = s.id
        WHERE s.tenant_id = v_tenant AND s.id = ANY(v_next);
    FOR v_blank IN SELECT b.relation, b.subject, b.columns FROM ledger_blank b LOOP
        SELECT string_agg(format('%I = b.%I', name, name), ', ') INTO v_names
            FROM jsonb_object_keys(v_blank.columns) name;
        EXECUTE format('UPDATE %I t SET %s FROM jsonb_populate_record(NULL::%I, $3) b
            WHERE t.tenant_id = $1 AND t.%I = ANY($2)',
            v_blank.relation, v_names, v_blank.relation, v_blank.subject) USING v_tenant, v_next, v_blank.columns;
    END LOOP;
    DELETE FROM ledger_subjectkey k WHERE k.tenant_id = v_tenant AND k.subject_id = ANY(v_next);
    RETURN QUERY SELECT e.subject_id, e.kind::text, e.seq, ARRAY(SELECT v.id FROM ledger_evidence v
            WHERE v.tenant_id = v_tenant AND v.subject_id = e.subject_id ORDER BY v.id)
        FROM ledger_erased e WHERE e.tenant_id = v_tenant AND e.subject_id = ANY(v_next) ORDER BY e.subject_id;
END $$;

CREATE OR REPLACE FUNCTION ledger_keys_to_destroy(p_tenant uuid, p_erasure uuid) RETURNS TABLE (key_id uuid)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT ledger_own_tenant(p_tenant);
    SELECT e.key_id FROM ledger_erased e WHERE e.tenant_id = p_tenant
        AND e.erasure_id = p_erasure AND e.key_id IS NOT NULL
$$;

CREATE OR REPLACE FUNCTION ledger_keys_destroyed(p_tenant uuid, p_keys uuid[]) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT ledger_own_tenant(p_tenant);
    UPDATE ledger_erased e SET key_id = NULL WHERE e.tenant_id = p_tenant AND e.key_id = ANY(p_keys)
$$;

CREATE OR REPLACE FUNCTION ledger_erasure_head(p_tenant uuid, p_erasure uuid)
RETURNS TABLE (state varchar, seq integer, head bytea, entry bytea)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT * FROM ledger_lock(p_tenant, p_erasure, 'erasure')
$$;

-- What the eraser did, or why it did not: the only events that its role can write.
CREATE OR REPLACE FUNCTION ledger_tell_erasure(
    p_tenant uuid, p_envelope bytea, p_entry_salt bytea, p_entry bytea, p_detail_salt bytea, p_detail bytea,
    p_projection jsonb
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    e jsonb := convert_from(p_envelope, 'UTF8')::jsonb;
    v_id uuid := (e #>> '{subject,id}')::uuid;
BEGIN
    IF e #>> '{subject,kind}' <> 'erasure' OR e #>> '{actor,kind}' <> 'system' OR (e ->> 'seq')::integer < 2
            OR e ->> 'kind' NOT IN ('erased', 'erasure_done', 'erasure_refused') THEN
        RAISE EXCEPTION 'this is not for the eraser to tell' USING ERRCODE = 'insufficient_privilege';
    END IF;
    PERFORM ledger_append(p_tenant, p_envelope, p_entry_salt, p_entry, p_detail_salt, p_detail, p_projection);
    UPDATE ledger_erasure x SET state = e ->> 'to',
        ended_at = CASE WHEN e ->> 'to' = 'CONFIRMED' THEN NULL ELSE (e ->> 'at')::timestamptz END,
        erased = (SELECT count(*) FROM ledger_erased d WHERE d.tenant_id = x.tenant_id AND d.erasure_id = v_id)
        WHERE x.tenant_id = p_tenant AND x.id = v_id;
END $$;

REVOKE ALL ON FUNCTION ledger_rests(text, text), ledger_take_turn(uuid), ledger_on_hold(uuid, uuid[]),
    ledger_erasure_scope(uuid, uuid), ledger_begin_erasure(uuid, uuid), ledger_erase(uuid, uuid, integer),
    ledger_keys_to_destroy(uuid, uuid), ledger_keys_destroyed(uuid, uuid[]), ledger_erasure_head(uuid, uuid),
    ledger_tell_erasure(uuid, bytea, bytea, bytea, bytea, bytea, jsonb) FROM PUBLIC;
