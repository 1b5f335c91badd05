from __future__ import annotations

from django.db import migrations

# Transitions and their legality are data of the record: a changed lifecycle is a new migration.
LEGAL = """
CREATE TABLE ledger_transition (
    kind text NOT NULL,
    from_state text NOT NULL,
    to_state text NOT NULL,
    PRIMARY KEY (kind, from_state, to_state)
);
"""

EVENT = """
CREATE TABLE ledger_event (
    tenant_id uuid NOT NULL,
    subject_id uuid NOT NULL,
    seq integer NOT NULL,
    prev_seq integer,
    id uuid NOT NULL,
    subject_kind text NOT NULL,
    kind text NOT NULL,
    from_state text NOT NULL,
    state text NOT NULL,
    prev bytea,
    envelope bytea NOT NULL,
    entry_hash bytea NOT NULL,
    actor_kind text NOT NULL,
    actor_id uuid NOT NULL,
    at timestamptz NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT event_is_unique PRIMARY KEY (tenant_id, subject_id, seq),
    CONSTRAINT event_sequence_has_no_gap CHECK (
        seq >= 1 AND prev_seq IS NOT DISTINCT FROM nullif(seq - 1, 0) AND (prev IS NULL) = (seq = 1)
    ),
    CONSTRAINT event_hash_is_of_the_envelope CHECK (entry_hash = sha256('\\x00'::bytea || envelope)),
    CONSTRAINT event_transition_is_legal
        FOREIGN KEY (subject_kind, from_state, state) REFERENCES ledger_transition (kind, from_state, to_state)
) PARTITION BY RANGE (subject_id);
CREATE INDEX event_by_time ON ledger_event (tenant_id, recorded_at);
CREATE INDEX event_by_id ON ledger_event (tenant_id, id);
"""

ENTRY = """
CREATE TABLE ledger_entry (
    tenant_id uuid NOT NULL,
    subject_id uuid NOT NULL,
    seq integer NOT NULL,
    entry_salt bytea,
    entry bytea,
    detail_salt bytea,
    detail bytea,
    CONSTRAINT entry_is_unique PRIMARY KEY (tenant_id, subject_id, seq)
) PARTITION BY RANGE (subject_id);
"""

# The owner could still try; triggers that always fire (whatever session_replication_role says) refuse.
REFUSE = """
CREATE FUNCTION ledger_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the record is append-only: % on % is refused', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE FUNCTION ledger_make_append_only(target regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE OR REPLACE TRIGGER no_truncate BEFORE TRUNCATE ON %s
        FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse()', target);
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER no_truncate', target);
    IF NOT EXISTS (SELECT 1 FROM pg_trigger WHERE tgrelid = target AND tgname = 'no_change') THEN
        EXECUTE format('CREATE TRIGGER no_change BEFORE UPDATE OR DELETE ON %s
            FOR EACH ROW EXECUTE FUNCTION ledger_refuse()', target);
    END IF;
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER no_change', target);
END $$;
"""

PARTITIONS = """
CREATE FUNCTION ledger_uuid_from(at timestamptz) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
$$;

CREATE FUNCTION ledger_finish_partition(part regclass, is_event boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF is_event THEN
        -- Continuity, per partition so that an old one can be detached: a subject lives in one partition.
        EXECUTE format('ALTER TABLE %s ADD UNIQUE (tenant_id, subject_id, seq, state)', part);
        EXECUTE format('ALTER TABLE %s ADD FOREIGN KEY (tenant_id, subject_id, prev_seq, from_state)
            REFERENCES %s (tenant_id, subject_id, seq, state)', part, part);
    END IF;
    PERFORM ledger_isolate(part);
    PERFORM ledger_make_append_only(part);
END $$;

CREATE FUNCTION ledger_ensure_partitions(months integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    base text;
    start_at timestamptz;
    name text;
BEGIN
    PERFORM pg_advisory_xact_lock(4711001);
    FOREACH base IN ARRAY ARRAY['ledger_event', 'ledger_entry'] LOOP
        FOR ahead IN 0..months LOOP
            start_at := date_trunc('month', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'
                + make_interval(months => ahead);
            name := base || to_char(start_at AT TIME ZONE 'UTC', '"_y"YYYY"m"MM');
            CONTINUE WHEN to_regclass(name) IS NOT NULL;
            EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)', name, base,
                ledger_uuid_from(start_at), ledger_uuid_from(start_at + interval '1 month'));
            PERFORM ledger_finish_partition(name::regclass, base = 'ledger_event');
        END LOOP;
        IF to_regclass(base || '_other') IS NULL THEN
            EXECUTE format('CREATE TABLE %I PARTITION OF %I DEFAULT', base || '_other', base);
            PERFORM ledger_finish_partition((base || '_other')::regclass, base = 'ledger_event');
        END IF;
    END LOOP;
END $$;
"""

TENANT = """
CREATE FUNCTION ledger_current_tenant() RETURNS uuid LANGUAGE sql STABLE AS $$
    SELECT nullif(current_setting('app.tenant', true), '')::uuid
$$;

CREATE FUNCTION ledger_isolate(target regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', target);
    EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', target);
    EXECUTE format('CREATE POLICY one_tenant ON %s USING (tenant_id = ledger_current_tenant())
        WITH CHECK (tenant_id = ledger_current_tenant())', target);
END $$;
"""

TENANT_TABLES = [
    "ledger_subject",
    "ledger_event",
    "ledger_entry",
    "ledger_action",
    "ledger_idempotency",
    "ledger_evidence",
    "ledger_subjectkey",
    "ledger_contractversion",
    "ledger_policyversion",
    "ledger_system",
    "ledger_freeze",
]


class Migration(migrations.Migration):
    dependencies = [("ledger", "0001_initial")]
    operations = [
        migrations.RunSQL(
            TENANT + LEGAL + REFUSE + EVENT + ENTRY + PARTITIONS,
            "DROP TABLE ledger_entry, ledger_event, ledger_transition;"
            "DROP FUNCTION ledger_ensure_partitions, ledger_finish_partition, ledger_uuid_from,"
            " ledger_make_append_only, ledger_refuse CASCADE;"
            "DROP FUNCTION ledger_isolate, ledger_current_tenant CASCADE;",
        ),
        migrations.RunSQL(
            "".join(f"SELECT ledger_isolate('{table}');" for table in TENANT_TABLES), migrations.RunSQL.noop
        ),
    ]
