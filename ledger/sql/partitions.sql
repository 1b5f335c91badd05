-- One partition of events and one of entries for each month; subjects of any other time are in the default ones.

CREATE OR REPLACE FUNCTION ledger_uuid_from(at timestamptz) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
$$;

-- The present month and as many as this ahead, or behind where it is negative: a record that is loaded into a new
-- database brings months that are over.
CREATE OR REPLACE FUNCTION ledger_ensure_partitions(months integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    base text;
    start_at timestamptz;
    name text;
BEGIN
    PERFORM pg_advisory_xact_lock(4711001);
    FOREACH base IN ARRAY ARRAY['ledger_event', 'ledger_entry'] LOOP
        FOR ahead IN least(months, 0)..greatest(months, 0) LOOP
            start_at := date_trunc('month', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'
                + make_interval(months => ahead);
            name := base || to_char(start_at AT TIME ZONE 'UTC', '"_y"YYYY"m"MM');
            CONTINUE WHEN to_regclass(name) IS NOT NULL;
            EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)', name, base,
                ledger_uuid_from(start_at), ledger_uuid_from(start_at + interval '1 month'));
            PERFORM ledger_isolate(name::regclass), ledger_make_append_only(name::regclass);
        END LOOP;
        IF to_regclass(base || '_other') IS NULL THEN
            EXECUTE format('CREATE TABLE %I PARTITION OF %I DEFAULT', base || '_other', base);
            name := base || '_other';
            PERFORM ledger_isolate(name::regclass), ledger_make_append_only(name::regclass);
        END IF;
    END LOOP;
END $$;

REVOKE ALL ON FUNCTION ledger_ensure_partitions(integer) FROM PUBLIC;
SELECT ledger_ensure_partitions(1);
