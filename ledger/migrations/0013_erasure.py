from __future__ import annotations

from django.db import migrations, models

LEGAL = [
    ("erasure", "", "REQUESTED"),
    ("erasure", "CONFIRMED", "CONFIRMED"),
    ("erasure", "CONFIRMED", "DONE"),
    ("erasure", "CONFIRMED", "REFUSED"),
    ("erasure", "CONFIRMED", "WITHDRAWN"),
    ("erasure", "DONE", "DONE"),
    ("erasure", "REFUSED", "REFUSED"),
    ("erasure", "REQUESTED", "CONFIRMED"),
    ("erasure", "REQUESTED", "REFUSED"),
    ("erasure", "REQUESTED", "REQUESTED"),
    ("erasure", "REQUESTED", "WITHDRAWN"),
    ("erasure", "WITHDRAWN", "WITHDRAWN"),
    ("hold", "", "PLACED"),
    ("hold", "LIFTED", "LIFTED"),
    ("hold", "PLACED", "LIFTED"),
    ("hold", "PLACED", "PLACED"),
    ("retention", "", "PROPOSED"),
    ("retention", "ACTIVE", "ACTIVE"),
    ("retention", "ACTIVE", "SUPERSEDED"),
    ("retention", "PROPOSED", "ACTIVE"),
    ("retention", "PROPOSED", "PROPOSED"),
    ("retention", "PROPOSED", "WITHDRAWN"),
    ("retention", "SUPERSEDED", "SUPERSEDED"),
    ("retention", "WITHDRAWN", "WITHDRAWN"),
]
INSERT = "INSERT INTO ledger_transition (kind, from_state, to_state) VALUES " + ", ".join(
    f"('{kind}', '{start}', '{target}')" for kind, start, target in LEGAL
)

# What erasing leaves empty, table by table: each app says it of its own tables, in a migration of its own. `subject` is
# the column that says whose row it is, `columns` what the row looks like afterwards.
BLANK = """
CREATE TABLE ledger_blank (
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
    ('ledger_unwinding', 'id', '{"reason": ""}');
SELECT ledger_make_append_only('ledger_blank');
"""

# The only change that an append-only row ever sees: the columns above become empty, once the subject is on the list of
# what was erased, and nothing else in the row moves. No setting of a session opens this; only that list does, and only
# `ledger_erase` writes it. Keys of erased subjects may go, and rows of subjects that were pruned.
REFUSE = """
CREATE OR REPLACE FUNCTION ledger_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    v_relation text;
    v_old jsonb;
BEGIN
    IF TG_OP <> 'TRUNCATE' THEN
        v_old := to_jsonb(OLD);
        v_relation := coalesce((SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhparent
            WHERE i.inhrelid = TG_RELID), TG_TABLE_NAME);
        IF TG_OP = 'UPDATE' AND EXISTS (SELECT FROM ledger_blank b JOIN ledger_erased e
                ON e.tenant_id = (v_old ->> 'tenant_id')::uuid AND e.subject_id = (v_old ->> b.subject)::uuid
                WHERE b.relation = v_relation AND to_jsonb(NEW) = v_old || b.columns) THEN
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
"""

# Two different people, or a standing policy that two different people have put in force: read from the events, which
# nobody can change, and not from the row that pages show.
CHECKS = """
CREATE FUNCTION ledger_two_people(p_subject uuid, p_first text, p_second text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT EXISTS (SELECT FROM ledger_event a JOIN ledger_event b
        ON b.tenant_id = a.tenant_id AND b.subject_id = a.subject_id AND b.seq > a.seq
        WHERE a.tenant_id = ledger_current_tenant() AND a.subject_id = p_subject
        AND a.kind = p_first AND b.kind = p_second AND a.actor_kind = 'person' AND b.actor_kind = 'person'
        AND a.actor_id <> b.actor_id)
$$;

CREATE FUNCTION ledger_rests(p_kind text, p_state text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE p_kind
        WHEN 'action' THEN p_state IN ('RECONCILED_SUCCESS', 'COMPENSATED', 'ROLLED_BACK', 'ABANDONED', 'FAILED')
        WHEN 'approval' THEN p_state IN ('REJECTED', 'EXPIRED', 'VOIDED', 'CONSUMED')
        WHEN 'case' THEN p_state = 'RESOLVED'
        WHEN 'session' THEN p_state IN ('OPEN', 'CLOSED')
        WHEN 'incident' THEN p_state = 'CLOSED'
        WHEN 'freeze' THEN p_state = 'LIFTED'
        WHEN 'unwinding' THEN p_state = 'DONE'
        ELSE false END
$$;

-- The policy in force as its proposal said it, with its id; null where two people never agreed on one.
CREATE FUNCTION ledger_retention_in_force() RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT convert_from(n.detail, 'UTF8')::jsonb || jsonb_build_object('id', s.id) FROM ledger_event e
        JOIN ledger_subject s ON s.tenant_id = e.tenant_id AND s.id = e.subject_id
        JOIN ledger_entry n ON n.tenant_id = s.tenant_id AND n.subject_id = s.id AND n.seq = 1
        WHERE e.tenant_id = ledger_current_tenant() AND e.kind = 'retention_confirmed' AND s.kind = 'retention'
        AND s.state = 'ACTIVE' AND ledger_two_people(s.id, 'retention_proposed', 'retention_confirmed')
        ORDER BY e.id DESC LIMIT 1
$$;

-- Whether a hold that nobody has lifted covers one of these subjects; also read from the events.
CREATE FUNCTION ledger_on_hold(p_subjects uuid[]) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT EXISTS (SELECT FROM ledger_event e
        JOIN ledger_subject s ON s.tenant_id = e.tenant_id AND s.id = e.subject_id
        JOIN ledger_entry n ON n.tenant_id = s.tenant_id AND n.subject_id = s.id AND n.seq = 1
        CROSS JOIN LATERAL jsonb_to_record(convert_from(n.detail, 'UTF8')::jsonb) AS h (scope text, value text)
        WHERE e.tenant_id = ledger_current_tenant() AND e.kind = 'hold_placed' AND e.seq = 1 AND s.kind = 'hold'
        AND s.state = 'PLACED' AND (h.scope = 'all' OR (h.scope = 'action' AND h.value = ANY(p_subjects::text[]))
            OR EXISTS (SELECT FROM ledger_action a WHERE a.tenant_id = s.tenant_id AND a.id = ANY(p_subjects)
                AND ((h.scope = 'target' AND a.target = h.value) OR (h.scope = 'agent' AND a.agent = h.value)))))
$$;

-- Whose turn it is: holds and the beginning of an erasure wait for each other, tenant by tenant.
CREATE FUNCTION ledger_take_turn() RETURNS void LANGUAGE sql SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT pg_advisory_xact_lock(4711002, hashtext(ledger_current_tenant()::text))
$$;

-- The subjects of a confirmed request, as its first event names them; the request is locked until the commit.
CREATE FUNCTION ledger_erasure_scope(p_erasure uuid) RETURNS uuid[]
LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    v_tenant uuid := ledger_current_tenant();
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
    IF NOT ledger_two_people(p_erasure, 'erasure_requested', 'erasure_confirmed') AND (v_policy IS NULL
            OR NOT ledger_two_people(v_policy, 'retention_proposed', 'retention_confirmed')
            OR (ledger_retention_in_force() ->> 'id')::uuid IS DISTINCT FROM v_policy
            OR NOT (ledger_retention_in_force() ->> 'standing')::boolean) THEN
        RAISE EXCEPTION 'the erasure is not of two people' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN (SELECT array_agg((each ->> 'id')::uuid) FROM jsonb_array_elements(v_detail -> 'subjects') each);
END $$;
"""

# What the eraser's role may call, and nobody else.
ERASE = """
CREATE FUNCTION ledger_begin_erasure(p_erasure uuid) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    v_tenant uuid := ledger_current_tenant();
    v_scope uuid[] := ledger_erasure_scope(p_erasure);
    v_policy jsonb;
    v_age integer;
BEGIN
    PERFORM FROM ledger_erasure x WHERE x.tenant_id = v_tenant AND x.id = p_erasure AND x.begun_at IS NOT NULL;
    IF FOUND THEN
        RETURN '';
    END IF;
    PERFORM ledger_take_turn();
    IF ledger_on_hold(v_scope) THEN
        RETURN 'ON_HOLD';
    END IF;
    v_policy := ledger_retention_in_force();
    v_age := coalesce((v_policy ->> 'floor_days')::integer, 0);
    IF NOT ledger_two_people(p_erasure, 'erasure_requested', 'erasure_confirmed') THEN
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
CREATE FUNCTION ledger_erase(p_erasure uuid, p_most integer)
RETURNS TABLE (subject_id uuid, kind text, seq integer, evidence uuid[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    v_tenant uuid := ledger_current_tenant();
    v_scope uuid[] := ledger_erasure_scope(p_erasure);
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

CREATE FUNCTION ledger_keys_to_destroy(p_erasure uuid) RETURNS TABLE (key_id uuid)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT e.key_id FROM ledger_erased e WHERE e.tenant_id = ledger_current_tenant()
        AND e.erasure_id = p_erasure AND e.key_id IS NOT NULL
$$;

CREATE FUNCTION ledger_keys_destroyed(p_keys uuid[]) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    UPDATE ledger_erased e SET key_id = NULL WHERE e.tenant_id = ledger_current_tenant() AND e.key_id = ANY(p_keys)
$$;

CREATE FUNCTION ledger_erasure_head(p_erasure uuid)
RETURNS TABLE (state varchar, seq integer, head bytea, entry bytea)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT * FROM ledger_lock(p_erasure, 'erasure')
$$;

-- What the eraser did, or why it did not: the only events that its role can write.
CREATE FUNCTION ledger_tell_erasure(
    p_envelope bytea, p_entry_salt bytea, p_entry bytea, p_detail_salt bytea, p_detail bytea, p_projection jsonb
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    e jsonb := convert_from(p_envelope, 'UTF8')::jsonb;
    v_id uuid := (e #>> '{subject,id}')::uuid;
BEGIN
    IF e #>> '{subject,kind}' <> 'erasure' OR e #>> '{actor,kind}' <> 'system' OR (e ->> 'seq')::integer < 2
            OR e ->> 'kind' NOT IN ('erased', 'erasure_done', 'erasure_refused') THEN
        RAISE EXCEPTION 'this is not for the eraser to tell' USING ERRCODE = 'insufficient_privilege';
    END IF;
    PERFORM ledger_append(p_envelope, p_entry_salt, p_entry, p_detail_salt, p_detail, p_projection);
    UPDATE ledger_erasure x SET state = e ->> 'to',
        ended_at = CASE WHEN e ->> 'to' = 'CONFIRMED' THEN NULL ELSE (e ->> 'at')::timestamptz END,
        erased = (SELECT count(*) FROM ledger_erased d WHERE d.tenant_id = x.tenant_id AND d.erasure_id = v_id)
        WHERE x.tenant_id = ledger_current_tenant() AND x.id = v_id;
END $$;

REVOKE ALL ON FUNCTION ledger_two_people(uuid, text, text), ledger_rests(text, text), ledger_take_turn(),
    ledger_retention_in_force(), ledger_on_hold(uuid[]),
    ledger_erasure_scope(uuid), ledger_begin_erasure(uuid), ledger_erase(uuid, integer), ledger_keys_to_destroy(uuid),
    ledger_keys_destroyed(uuid[]), ledger_erasure_head(uuid),
    ledger_tell_erasure(bytea, bytea, bytea, bytea, bytea, jsonb) FROM PUBLIC;
"""

TENANT_TABLES = ("erasure", "erased", "hold", "retention")


class Migration(migrations.Migration):
    dependencies = [("ledger", "0012_one_statement")]
    operations = [
        migrations.RunSQL(INSERT, migrations.RunSQL.noop),
        migrations.CreateModel(
            name="Erased",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "subject_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("subject_id", models.UUIDField()),
                ("kind", models.CharField(max_length=20)),
                ("erasure_id", models.UUIDField()),
                ("seq", models.IntegerField()),
                ("at", models.DateTimeField()),
                ("key_id", models.UUIDField(null=True)),
                ("pruned_by", models.UUIDField(null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["tenant_id", "erasure_id", "subject_id"], name="erased_by_request")],
            },
        ),
        migrations.CreateModel(
            name="Erasure",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("state", models.CharField(max_length=16)),
                ("legal_basis", models.CharField(max_length=300)),
                ("reason", models.CharField(max_length=4000)),
                ("subjects", models.IntegerField()),
                ("erased", models.IntegerField(default=0)),
                ("retention_id", models.UUIDField(null=True)),
                ("requested_by", models.UUIDField()),
                ("requested_at", models.DateTimeField()),
                ("confirmed_by", models.UUIDField(null=True)),
                ("confirmed_at", models.DateTimeField(null=True)),
                ("begun_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["tenant_id", "state", "id"], name="erasure_by_state")],
            },
        ),
        migrations.CreateModel(
            name="Hold",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("scope", models.CharField(max_length=8)),
                ("value", models.CharField(max_length=512)),
                ("reason", models.CharField(max_length=4000)),
                ("placed_by", models.UUIDField()),
                ("placed_at", models.DateTimeField()),
                ("lifted_at", models.DateTimeField(null=True)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("scope__in", ["action", "target", "agent", "all"])),
                        name="hold_scope_is_known",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("lifted_at__isnull", True)),
                        fields=("tenant_id", "scope", "value"),
                        name="hold_one_in_force",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Retention",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("state", models.CharField(max_length=16)),
                ("payload_days", models.IntegerField()),
                ("envelope_days", models.IntegerField()),
                ("floor_days", models.IntegerField()),
                ("standing", models.BooleanField()),
                ("proposed_by", models.UUIDField()),
                ("proposed_at", models.DateTimeField()),
                ("confirmed_by", models.UUIDField(null=True)),
                ("confirmed_at", models.DateTimeField(null=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("state", "ACTIVE")), fields=("tenant_id",), name="retention_one_in_force"
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("state", "PROPOSED")), fields=("tenant_id",), name="retention_one_proposed"
                    ),
                ],
            },
        ),
        migrations.AlterField(model_name="evidence", name="salt", field=models.BinaryField(null=True)),
        migrations.AlterField(model_name="evidence", name="sealed", field=models.BinaryField(null=True)),
        migrations.RunSQL(
            "".join(f"SELECT ledger_isolate('ledger_{table}');" for table in TENANT_TABLES), migrations.RunSQL.noop
        ),
        migrations.RunSQL(BLANK, migrations.RunSQL.noop),
        migrations.RunSQL(REFUSE, migrations.RunSQL.noop),
        migrations.RunSQL(CHECKS, migrations.RunSQL.noop),
        migrations.RunSQL(ERASE, migrations.RunSQL.noop),
    ]
