from __future__ import annotations

from django.db import migrations, models

# As it was, with one more row: the event waits for its leaf from the moment at which it exists. The number is drawn
# inside the transaction, so an event that began after another was committed always stands behind it (L11).
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
    INSERT INTO ledger_pending (tenant_id, subject_id, seq) VALUES (v_tenant, v_subject, v_seq);
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

# A queue whose rows live for milliseconds: without frequent vacuum its head would be a graveyard.
QUEUE = """
ALTER TABLE ledger_pending ALTER COLUMN at SET DEFAULT clock_timestamp();
ALTER TABLE ledger_pending SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 100000
);
"""

# What a tree is made of only grows: a tile keeps its hashes and gets more, a tip moves on, nothing goes away.
GROW = """
CREATE FUNCTION ledger_only_grows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- A record of one table has no fields of the other, so the tables are told apart before any field is named.
    IF TG_OP = 'UPDATE' AND TG_TABLE_NAME = 'ledger_tile' THEN
        IF (NEW.tenant_id, NEW.log, NEW.level, NEW.index) = (OLD.tenant_id, OLD.log, OLD.level, OLD.index)
            AND substr(NEW.hashes, 1, length(OLD.hashes)) = OLD.hashes THEN
            RETURN NEW;
        END IF;
    ELSIF TG_OP = 'UPDATE' AND TG_TABLE_NAME = 'ledger_tip' THEN
        IF (NEW.tenant_id, NEW.log) = (OLD.tenant_id, OLD.log) AND NEW.signed_size >= OLD.signed_size
            AND (NEW.size > OLD.size OR (NEW.size = OLD.size AND NEW.root = OLD.root)) THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION 'the log only grows: % on % is refused', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE FUNCTION ledger_make_growing(target regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE TRIGGER only_grows BEFORE UPDATE OR DELETE ON %s
        FOR EACH ROW EXECUTE FUNCTION ledger_only_grows()', target);
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER only_grows', target);
    EXECUTE format('CREATE TRIGGER no_truncate BEFORE TRUNCATE ON %s
        FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse()', target);
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER no_truncate', target);
END $$;

ALTER TABLE ledger_tile ADD CONSTRAINT tile_holds_whole_hashes
    CHECK (length(hashes) BETWEEN 32 AND 8192 AND length(hashes) % 32 = 0);
SELECT ledger_make_growing('ledger_tile');
SELECT ledger_make_growing('ledger_tip');
SELECT ledger_make_append_only(each) FROM unnest(ARRAY[
    'ledger_log', 'ledger_leaf', 'ledger_checkpoint', 'ledger_anchor']::regclass[]) each;
REVOKE ALL ON FUNCTION ledger_make_growing(regclass) FROM PUBLIC;
"""

TENANT_TABLES = ["log", "leaf", "tile", "tip", "checkpoint", "anchor", "alarm"]

# What was written before there was a log waits for it too, in the order in which it was written.
WAITING = """
DO $$
DECLARE
    one uuid;
BEGIN
    FOR one IN SELECT id FROM ledger_tenant ORDER BY created_at LOOP
        PERFORM set_config('app.tenant', one::text, true);
        INSERT INTO ledger_pending (tenant_id, subject_id, seq)
            SELECT tenant_id, subject_id, seq FROM ledger_event WHERE tenant_id = one ORDER BY recorded_at, id;
    END LOOP;
    PERFORM set_config('app.tenant', '', true);
END $$;
"""

LEGAL = [("log", "", "OPEN"), ("log", "OPEN", "OPEN"), ("log", "OPEN", "CLOSED"), ("log", "CLOSED", "CLOSED")]
INSERT = "INSERT INTO ledger_transition (kind, from_state, to_state) VALUES " + ", ".join(
    f"('{kind}', '{start}', '{target}')" for kind, start, target in LEGAL
)


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0008_batches"),
    ]

    operations = [
        migrations.CreateModel(
            name="Checkpoint",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "log", "size", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("log", models.IntegerField()),
                ("size", models.BigIntegerField()),
                ("note", models.BinaryField()),
                ("signed_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Log",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "number", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("number", models.IntegerField()),
                ("id", models.UUIDField()),
                ("origin", models.CharField(max_length=255)),
                ("opened_at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("tenant_id", "origin"), name="log_origin_is_unique"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Pending",
            fields=[
                ("position", models.BigAutoField(primary_key=True, serialize=False)),
                ("tenant_id", models.UUIDField()),
                ("subject_id", models.UUIDField()),
                ("seq", models.IntegerField()),
                ("at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Tile",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "log",
                        "level",
                        "index",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("log", models.IntegerField()),
                ("level", models.SmallIntegerField()),
                ("index", models.BigIntegerField()),
                ("hashes", models.BinaryField()),
            ],
        ),
        migrations.CreateModel(
            name="Alarm",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("kind", models.CharField(max_length=32)),
                ("detail", models.CharField(max_length=1000)),
                ("raised_at", models.DateTimeField()),
                ("closed_at", models.DateTimeField(null=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("closed_at__isnull", True)),
                        fields=("tenant_id", "kind"),
                        name="alarm_one_open_of_a_kind",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Anchor",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("id", models.UUIDField()),
                ("log", models.IntegerField()),
                ("size", models.BigIntegerField()),
                ("kind", models.CharField(max_length=8)),
                ("name", models.CharField(max_length=255)),
                ("evidence", models.BinaryField()),
                ("at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("kind__in", ["witness", "tsa"])), name="anchor_kind_is_known"
                    ),
                    models.UniqueConstraint(fields=("tenant_id", "log", "size", "kind", "name"), name="anchor_once"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Leaf",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "log", "index", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("log", models.IntegerField()),
                ("index", models.BigIntegerField()),
                ("subject_id", models.UUIDField()),
                ("seq", models.IntegerField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("tenant_id", "subject_id", "seq"), name="leaf_one_per_event")
                ],
            },
        ),
        migrations.CreateModel(
            name="Tip",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "log", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                ("log", models.IntegerField()),
                ("size", models.BigIntegerField()),
                ("root", models.BinaryField()),
                ("integrated_at", models.DateTimeField()),
                ("signed_size", models.BigIntegerField()),
                ("signed_at", models.DateTimeField(null=True)),
                ("note", models.BinaryField(null=True)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("signed_size__lte", models.F("size"))), name="tip_signed_is_integrated"
                    )
                ],
            },
        ),
        migrations.RunSQL(QUEUE + GROW, "DROP FUNCTION ledger_make_growing, ledger_only_grows CASCADE;"),
        migrations.RunSQL(
            "".join(f"SELECT ledger_isolate('ledger_{table}');" for table in TENANT_TABLES), migrations.RunSQL.noop
        ),
        migrations.RunSQL(APPEND, migrations.RunSQL.noop),
        migrations.RunSQL(INSERT, migrations.RunSQL.noop),
        migrations.RunSQL(WAITING, migrations.RunSQL.noop),
    ]
