from __future__ import annotations

from django.db import migrations, models

# As it was, with one more column of the present view that a later event can change: `reversed`.
APPEND = """
CREATE OR REPLACE FUNCTION ledger_append(
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
                contradicted, reversed, settled, horizon_at, blocks_until, approval_id) =
            (SELECT v_state, v_seq, v_at, r.discrepancy, r.recovery_row, r.recovery_decision, r.attempt_count,
                r.contradicted, r.reversed, r.settled, r.horizon_at, r.blocks_until, r.approval_id
             FROM jsonb_populate_record(a, p_projection) r)
            WHERE a.tenant_id = v_tenant AND a.id = v_subject;
    END IF;
END $$;
"""

LEGAL = [
    ("unwinding", "", "OPEN"),
    ("unwinding", "DONE", "DONE"),
    ("unwinding", "OPEN", "DONE"),
    ("unwinding", "OPEN", "OPEN"),
    ("unwinding", "OPEN", "STUCK"),
    ("unwinding", "STUCK", "OPEN"),
    ("unwinding", "STUCK", "STUCK"),
]
INSERT = "INSERT INTO ledger_transition (kind, from_state, to_state) VALUES " + ", ".join(
    f"('{kind}', '{start}', '{target}')" for kind, start, target in LEGAL
)


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0005_lock_in_two_reads"),
    ]

    operations = [
        migrations.CreateModel(
            name="Order",
            fields=[
                ("event_id", models.UUIDField(primary_key=True, serialize=False)),
                ("tenant_id", models.UUIDField()),
                ("action_id", models.UUIDField()),
                ("placed_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Unwinding",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("run_id", models.CharField(max_length=128)),
                ("state", models.CharField(max_length=16)),
                ("reason", models.CharField(max_length=1000)),
                ("opened_at", models.DateTimeField()),
                ("changed_at", models.DateTimeField()),
            ],
        ),
        migrations.AddField(
            model_name="action",
            name="parent_id",
            field=models.UUIDField(null=True),
        ),
        migrations.AddField(
            model_name="action",
            name="relation",
            field=models.CharField(default="", max_length=12),
        ),
        migrations.AddField(
            model_name="action",
            name="unwinds",
            field=models.BooleanField(default=False),
        ),
        migrations.AddIndex(
            model_name="action",
            index=models.Index(
                condition=models.Q(("parent_id__isnull", False)),
                fields=["tenant_id", "parent_id", "id"],
                name="action_by_parent",
            ),
        ),
        migrations.AddIndex(
            model_name="order",
            index=models.Index(fields=["placed_at"], name="order_by_time"),
        ),
        migrations.AddIndex(
            model_name="unwinding",
            index=models.Index(fields=["tenant_id", "state", "id"], name="unwinding_by_state"),
        ),
        migrations.AddConstraint(
            model_name="unwinding",
            constraint=models.UniqueConstraint(fields=("tenant_id", "run_id"), name="unwinding_once_per_run"),
        ),
        migrations.AddField(model_name="action", name="reversed", field=models.BooleanField(default=False)),
        migrations.RunSQL(APPEND, migrations.RunSQL.noop),
        migrations.RunSQL(INSERT, migrations.RunSQL.noop),
        migrations.RunSQL("SELECT ledger_isolate('ledger_unwinding');", "DROP POLICY one_tenant ON ledger_unwinding;"),
    ]
