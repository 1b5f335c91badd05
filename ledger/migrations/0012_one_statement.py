from __future__ import annotations

from django.db import migrations

# As it was, in one statement per event instead of five: each statement of a function costs a snapshot, an executor and
# its teardown. The head is moved first, then the rest is written; constraints see all of it at its end, and a head that
# did not move refuses the whole. Plans are made once: with a year of partitions, planning costs more than doing.
APPEND = """
CREATE OR REPLACE FUNCTION ledger_append(
    p_envelope bytea, p_entry_salt bytea, p_entry bytea, p_detail_salt bytea, p_detail bytea, p_projection jsonb
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    e jsonb := convert_from(p_envelope, 'UTF8')::jsonb;
    v_tenant uuid := ledger_current_tenant();
    v_subject uuid := (e #>> '{subject,id}')::uuid;
    v_kind text := e #>> '{subject,kind}';
    v_seq integer := (e ->> 'seq')::integer;
    v_from text := e ->> 'from';
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
    IF v_seq = 1 THEN
        WITH event AS (%(event)s), entry AS (%(entry)s), pending AS (%(pending)s)
        INSERT INTO ledger_subject (tenant_id, id, kind, state, seq, head, created_at, updated_at)
            VALUES (v_tenant, v_subject, v_kind, v_state, 1, v_hash, v_at, v_at);
        IF v_kind = 'action' THEN
            INSERT INTO ledger_action SELECT r.* FROM jsonb_populate_record(NULL::ledger_action, p_projection
                || jsonb_build_object('tenant_id', v_tenant, 'id', v_subject, 'state', v_state, 'seq', 1,
                    'proposed_at', v_at, 'changed_at', v_at)) r;
        END IF;
        RETURN;
    END IF;
    WITH event AS (%(event)s), entry AS (%(entry)s), pending AS (%(pending)s), action AS (
        UPDATE ledger_action SET state = v_state, seq = v_seq, changed_at = v_at%(changing)s
            WHERE v_kind = 'action' AND tenant_id = v_tenant AND id = v_subject)
    UPDATE ledger_subject SET state = v_state, seq = v_seq, head = v_hash, updated_at = v_at
        WHERE tenant_id = v_tenant AND id = v_subject AND kind = v_kind AND seq = v_seq - 1 AND head = v_prev
            AND state = v_from;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the event does not continue the head of its subject' USING ERRCODE = 'serialization_failure';
    END IF;
END $$;
ALTER FUNCTION ledger_lock(uuid, text) SET plan_cache_mode = force_generic_plan;
"""

EVENT = """INSERT INTO ledger_event (tenant_id, subject_id, seq, prev_seq, id, subject_kind, kind, from_state, state,
            prev, envelope, entry_hash, actor_kind, actor_id, at)
        VALUES (v_tenant, v_subject, v_seq, nullif(v_seq - 1, 0), (e ->> 'id')::uuid, v_kind, e ->> 'kind', v_from,
            v_state, v_prev, p_envelope, v_hash, e #>> '{actor,kind}', (e #>> '{actor,id}')::uuid, v_at)"""
ENTRY = """INSERT INTO ledger_entry (tenant_id, subject_id, seq, entry_salt, entry, detail_salt, detail)
        VALUES (v_tenant, v_subject, v_seq, p_entry_salt, p_entry, p_detail_salt, p_detail)"""
PENDING = "INSERT INTO ledger_pending (tenant_id, subject_id, seq) VALUES (v_tenant, v_subject, v_seq)"

# The columns of the present view that a later event can change: named in the projection, or left as they are.
CHANGING = {
    "discrepancy": "text",
    "recovery_row": "text",
    "recovery_decision": "text",
    "attempt_count": "integer",
    "contradicted": "boolean",
    "reversed": "boolean",
    "settled": "boolean",
    "horizon_at": "timestamptz",
    "blocks_until": "timestamptz",
    "approval_id": "uuid",
}


def _changed(name: str, kind: str) -> str:
    given = f"(p_projection ->> '{name}')::{kind}"
    return f",\n            {name} = CASE WHEN p_projection ? '{name}' THEN {given} ELSE {name} END"


# Room in each page for the next version of a row that changes ten times.
ROOM = """
ALTER TABLE ledger_subject SET (fillfactor = 80);
ALTER TABLE ledger_action SET (fillfactor = 80);
"""


class Migration(migrations.Migration):
    dependencies = [("ledger", "0011_keys_apart")]
    operations = [
        migrations.RunSQL(
            APPEND
            % {
                "event": EVENT,
                "entry": ENTRY,
                "pending": PENDING,
                "changing": "".join(_changed(name, kind) for name, kind in CHANGING.items()),
            },
            migrations.RunSQL.noop,
        ),
        migrations.RunSQL(ROOM, migrations.RunSQL.noop),
    ]
