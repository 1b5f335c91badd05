-- The only way into the record. It reads the envelope it is given, so that columns and hashed bytes cannot disagree; it
-- continues the subject's head or refuses; and it keeps the present view of an action in step. It runs with the owner's
-- rights, so the application role needs none on the record's tables; row-level security is forced, so the caller's
-- tenant binds it, and temporary objects are looked up last, so the caller cannot put a table of their own in the way.
--
-- One statement per event: each statement of a function costs a snapshot, an executor and its teardown. The head is
-- moved first, then the rest is written; constraints see all of it at its end, and a head that did not move refuses the
-- whole. Plans are made once: with a year of partitions, planning costs more than doing.
--
-- The event waits for its leaf from the moment at which it exists (ledger_pending). The number is drawn inside the
-- transaction, so an event that began after another was committed always stands behind it (L11).
CREATE OR REPLACE FUNCTION ledger_append(
    p_tenant uuid, p_envelope bytea, p_entry_salt bytea, p_entry bytea, p_detail_salt bytea, p_detail bytea,
    p_projection jsonb
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    e jsonb := convert_from(p_envelope, 'UTF8')::jsonb;
    v_tenant uuid := ledger_own_tenant(p_tenant);
    v_subject uuid := (e #>> '{subject,id}')::uuid;
    v_kind text := e #>> '{subject,kind}';
    v_seq integer := (e ->> 'seq')::integer;
    v_from text := e ->> 'from';
    v_state text := e ->> 'to';
    v_prev bytea := decode(e ->> 'prev', 'hex');
    v_hash bytea := sha256('\x00'::bytea || p_envelope);
    v_at timestamptz := (e ->> 'at')::timestamptz;
BEGIN
    IF e ->> 'origin' IS DISTINCT FROM (SELECT origin FROM ledger_tenant WHERE id = v_tenant) THEN
        -- A restore opened another log meanwhile. Whoever sends the same again writes to that.
        RAISE EXCEPTION 'the envelope is of another log' USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;

    IF v_seq = 1 THEN
        WITH event AS (
            INSERT INTO ledger_event (tenant_id, subject_id, seq, prev_seq, id, subject_kind, kind, from_state, state,
                prev, envelope, entry_hash, actor_kind, actor_id, at)
            VALUES (v_tenant, v_subject, v_seq, nullif(v_seq - 1, 0), (e ->> 'id')::uuid, v_kind, e ->> 'kind', v_from,
                v_state, v_prev, p_envelope, v_hash, e #>> '{actor,kind}', (e #>> '{actor,id}')::uuid, v_at)
        ), entry AS (
            INSERT INTO ledger_entry (tenant_id, subject_id, seq, entry_salt, entry, detail_salt, detail)
            VALUES (v_tenant, v_subject, v_seq, p_entry_salt, p_entry, p_detail_salt, p_detail)
        ), pending AS (
            INSERT INTO ledger_pending (tenant_id, subject_id, seq) VALUES (v_tenant, v_subject, v_seq)
        )
        INSERT INTO ledger_subject (tenant_id, id, kind, state, seq, head, created_at, updated_at)
            VALUES (v_tenant, v_subject, v_kind, v_state, 1, v_hash, v_at, v_at);
        IF v_kind = 'action' THEN
            INSERT INTO ledger_action (
                tenant_id, id, state, seq, tool, tool_version, contract_digest, side_effect_class, reversibility,
                mutating, agent, agent_actor, session_id, run_id, call_id, target, operation_kind, operation_key,
                payload_hash, payload_pointer, approval_id, trace_id, supersedes, ordered_by, parent_id, relation,
                unwinds, discrepancy, recovery_row, recovery_decision, attempt_count, contradicted, reversed,
                settled, noticed, reached_by, horizon_at, blocks_until, proposed_at, changed_at)
            SELECT
                r.tenant_id, r.id, r.state, r.seq, r.tool, r.tool_version, r.contract_digest, r.side_effect_class,
                r.reversibility, r.mutating, r.agent, r.agent_actor, r.session_id, r.run_id, r.call_id, r.target,
                r.operation_kind, r.operation_key, r.payload_hash, r.payload_pointer, r.approval_id, r.trace_id,
                r.supersedes, r.ordered_by, r.parent_id, r.relation, r.unwinds, r.discrepancy, r.recovery_row,
                r.recovery_decision, r.attempt_count, r.contradicted, r.reversed, r.settled, r.noticed, r.reached_by,
                r.horizon_at, r.blocks_until, r.proposed_at, r.changed_at
            FROM jsonb_populate_record(NULL::ledger_action, p_projection
                || jsonb_build_object('tenant_id', v_tenant, 'id', v_subject, 'state', v_state, 'seq', 1,
                    'reached_by', e ->> 'kind',
                    'noticed', (e ->> 'kind' IN ('validation_failed', 'superseded', 'failure_acknowledged',
                            'recovery_acknowledged')
                        OR (e ->> 'kind' = 'cancelled' AND e #>> '{actor,kind}' = 'agent')),
                    'proposed_at', v_at, 'changed_at', v_at)) r;
        END IF;
        RETURN;
    END IF;

    WITH event AS (
        INSERT INTO ledger_event (tenant_id, subject_id, seq, prev_seq, id, subject_kind, kind, from_state, state,
            prev, envelope, entry_hash, actor_kind, actor_id, at)
        VALUES (v_tenant, v_subject, v_seq, nullif(v_seq - 1, 0), (e ->> 'id')::uuid, v_kind, e ->> 'kind', v_from,
            v_state, v_prev, p_envelope, v_hash, e #>> '{actor,kind}', (e #>> '{actor,id}')::uuid, v_at)
    ), entry AS (
        INSERT INTO ledger_entry (tenant_id, subject_id, seq, entry_salt, entry, detail_salt, detail)
        VALUES (v_tenant, v_subject, v_seq, p_entry_salt, p_entry, p_detail_salt, p_detail)
    ), pending AS (
        INSERT INTO ledger_pending (tenant_id, subject_id, seq) VALUES (v_tenant, v_subject, v_seq)
    ), action AS (
        -- A later event changes what its projection names, and leaves the rest as it is.
        UPDATE ledger_action SET state = v_state, seq = v_seq, changed_at = v_at,
            discrepancy = CASE WHEN p_projection ? 'discrepancy'
                THEN (p_projection ->> 'discrepancy')::text ELSE discrepancy END,
            recovery_row = CASE WHEN p_projection ? 'recovery_row'
                THEN (p_projection ->> 'recovery_row')::text ELSE recovery_row END,
            recovery_decision = CASE WHEN p_projection ? 'recovery_decision'
                THEN (p_projection ->> 'recovery_decision')::text ELSE recovery_decision END,
            attempt_count = CASE WHEN p_projection ? 'attempt_count'
                THEN (p_projection ->> 'attempt_count')::integer ELSE attempt_count END,
            contradicted = CASE WHEN p_projection ? 'contradicted'
                THEN (p_projection ->> 'contradicted')::boolean ELSE contradicted END,
            reversed = CASE WHEN p_projection ? 'reversed'
                THEN (p_projection ->> 'reversed')::boolean ELSE reversed END,
            settled = CASE WHEN p_projection ? 'settled'
                THEN (p_projection ->> 'settled')::boolean ELSE settled END,
            horizon_at = CASE WHEN p_projection ? 'horizon_at'
                THEN (p_projection ->> 'horizon_at')::timestamptz ELSE horizon_at END,
            blocks_until = CASE WHEN p_projection ? 'blocks_until'
                THEN (p_projection ->> 'blocks_until')::timestamptz ELSE blocks_until END,
            approval_id = CASE WHEN p_projection ? 'approval_id'
                THEN (p_projection ->> 'approval_id')::uuid ELSE approval_id END,
            -- The kind of the event by which the action came to where it stands: each step, and the events that settle
            -- or open something without one.
            reached_by = CASE WHEN v_from IS DISTINCT FROM v_state OR e ->> 'kind' IN ('approval_granted',
                    'approval_asked_again', 'approval_revalidated', 'attested_present', 'accepted_as_it_is',
                    'attested_absent', 'compensated', 'compensation_attested')
                THEN e ->> 'kind' ELSE reached_by END,
            -- Whether the action's agent knows how it ended.
            noticed = noticed OR (e ->> 'kind' IN ('validation_failed', 'superseded', 'failure_acknowledged',
                    'recovery_acknowledged')
                OR (e ->> 'kind' = 'cancelled' AND e #>> '{actor,kind}' = 'agent'))
            WHERE v_kind = 'action' AND tenant_id = v_tenant AND id = v_subject
    )
    UPDATE ledger_subject SET state = v_state, seq = v_seq, head = v_hash, updated_at = v_at
        WHERE tenant_id = v_tenant AND id = v_subject AND kind = v_kind AND seq = v_seq - 1 AND head = v_prev
            AND state = v_from;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the event does not continue the head of its subject' USING ERRCODE = 'serialization_failure';
    END IF;
END $$;
REVOKE ALL ON FUNCTION ledger_append(uuid, bytea, bytea, bytea, bytea, bytea, jsonb) FROM PUBLIC;
