from __future__ import annotations

from django.db import migrations

# The only way in. It reads the envelope it is given, so that columns and hashed bytes cannot disagree; it continues the
# subject's head or refuses; and it keeps the present view of an action in step. It runs with the owner's rights, so the
# application role needs none on the record's tables; row-level security is forced, so the caller's tenant binds it, and
# temporary objects are looked up last, so the caller cannot put a table of their own in the way.
APPEND = """
CREATE FUNCTION ledger_append(
    p_envelope bytea, p_entry_salt bytea, p_entry bytea, p_detail_salt bytea, p_detail bytea, p_projection jsonb
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    e jsonb := convert_from(p_envelope, 'UTF8')::jsonb;
    v_tenant uuid := ledger_current_tenant();
    v_subject uuid := (e #>> '{subject,id}')::uuid;
    v_kind text := e #>> '{subject,kind}';
    v_seq integer := (e ->> 'seq')::integer;
    v_state text := e ->> 'to';
    v_prev bytea := decode(e ->> 'prev', 'hex');
    v_hash bytea := sha256('\\x00'::bytea || p_envelope);
    v_at timestamptz := (e ->> 'at')::timestamptz;
BEGIN
    IF v_tenant IS NULL THEN
        RAISE EXCEPTION 'no tenant is set' USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF e ->> 'origin' IS DISTINCT FROM (SELECT origin FROM ledger_tenant WHERE id = v_tenant) THEN
        RAISE EXCEPTION 'the envelope is of another log' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    INSERT INTO ledger_event (tenant_id, subject_id, seq, prev_seq, id, subject_kind, kind, from_state, state, prev,
            envelope, entry_hash, actor_kind, actor_id, at)
        VALUES (v_tenant, v_subject, v_seq, nullif(v_seq - 1, 0), (e ->> 'id')::uuid, v_kind, e ->> 'kind',
            e ->> 'from', v_state, v_prev, p_envelope, v_hash, e #>> '{actor,kind}', (e #>> '{actor,id}')::uuid, v_at);
    INSERT INTO ledger_entry (tenant_id, subject_id, seq, entry_salt, entry, detail_salt, detail)
        VALUES (v_tenant, v_subject, v_seq, p_entry_salt, p_entry, p_detail_salt, p_detail);
    IF v_seq = 1 THEN
        INSERT INTO ledger_subject (tenant_id, id, kind, state, seq, head, created_at, updated_at)
            VALUES (v_tenant, v_subject, v_kind, v_state, 1, v_hash, v_at, v_at);
        IF v_kind = 'action' THEN
            INSERT INTO ledger_action SELECT r.* FROM jsonb_populate_record(NULL::ledger_action, p_projection
                || jsonb_build_object('tenant_id', v_tenant, 'id', v_subject, 'state', v_state, 'seq', 1,
                    'proposed_at', v_at, 'changed_at', v_at)) r;
        END IF;
        RETURN;
    END IF;
    UPDATE ledger_subject SET state = v_state, seq = v_seq, head = v_hash, updated_at = v_at
        WHERE tenant_id = v_tenant AND id = v_subject AND kind = v_kind AND seq = v_seq - 1 AND head = v_prev
            AND state = e ->> 'from';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the event does not continue the head of its subject' USING ERRCODE = 'serialization_failure';
    END IF;
    IF v_kind = 'action' THEN
        UPDATE ledger_action a SET (state, seq, changed_at, discrepancy, recovery_row, recovery_decision, attempt_count,
                contradicted, settled, horizon_at, blocks_until, approval_id) =
            (SELECT v_state, v_seq, v_at, r.discrepancy, r.recovery_row, r.recovery_decision, r.attempt_count,
                r.contradicted, r.settled, r.horizon_at, r.blocks_until, r.approval_id
             FROM jsonb_populate_record(a, p_projection) r)
            WHERE a.tenant_id = v_tenant AND a.id = v_subject;
    END IF;
END $$;

-- Locks first and reads afterwards, in statements of their own: a joined read could pair a moved row with an old entry.
CREATE FUNCTION ledger_lock(p_subject uuid, p_kind text)
RETURNS TABLE (state varchar, seq integer, head bytea, entry bytea)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    v_tenant uuid := ledger_current_tenant();
BEGIN
    PERFORM 1 FROM ledger_subject s WHERE s.tenant_id = v_tenant AND s.id = p_subject FOR UPDATE;
    RETURN QUERY SELECT s.state, s.seq, s.head, e.entry FROM ledger_subject s
        LEFT JOIN ledger_entry e ON e.tenant_id = s.tenant_id AND e.subject_id = s.id AND e.seq = s.seq
        WHERE s.tenant_id = v_tenant AND s.id = p_subject AND s.kind = p_kind;
END $$;
REVOKE ALL ON FUNCTION ledger_lock(uuid, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION ledger_append(bytea, bytea, bytea, bytea, bytea, jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION ledger_ensure_partitions(integer), ledger_finish_partition(regclass, boolean),
    ledger_make_append_only(regclass), ledger_isolate(regclass) FROM PUBLIC;
"""


class Migration(migrations.Migration):
    dependencies = [("ledger", "0003_legal_transitions")]
    operations = [
        migrations.RunSQL(
            APPEND, "DROP FUNCTION ledger_lock(uuid, text), ledger_append(bytea, bytea, bytea, bytea, bytea, jsonb);"
        ),
    ]
