-- The key database, which is another one than the record's: `prepare_database` runs this there, each time. The keys of
-- payloads, evidence and grant keys, wrapped; made by the application, destroyed by the eraser. Only the owner of the table may
-- wrap one anew. Beside them, which grant keys are retired: the record says that too, and a restore of one of the two databases
-- brings no retired key back.

CREATE TABLE IF NOT EXISTS data_key (
    id uuid PRIMARY KEY,
    wrapped bytea NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now()
);

CREATE OR REPLACE FUNCTION data_key_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF NEW.id = OLD.id AND NEW.made_at = OLD.made_at AND NEW.wrapped <> OLD.wrapped
            AND current_user::regrole = (SELECT relowner FROM pg_catalog.pg_class WHERE oid = TG_RELID) THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION 'a key is made and destroyed, never changed' USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE OR REPLACE TRIGGER no_change BEFORE UPDATE ON data_key
    FOR EACH ROW EXECUTE FUNCTION data_key_stays();
CREATE OR REPLACE TRIGGER no_truncate BEFORE TRUNCATE ON data_key
    FOR EACH STATEMENT EXECUTE FUNCTION data_key_stays();
ALTER TABLE data_key ENABLE ALWAYS TRIGGER no_change;
ALTER TABLE data_key ENABLE ALWAYS TRIGGER no_truncate;

CREATE TABLE IF NOT EXISTS retired_grant_key (
    kid text PRIMARY KEY,
    retired_at timestamptz NOT NULL
);

CREATE OR REPLACE FUNCTION retired_grant_key_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a retired grant key stays retired' USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE OR REPLACE TRIGGER no_change BEFORE UPDATE OR DELETE ON retired_grant_key
    FOR EACH ROW EXECUTE FUNCTION retired_grant_key_stays();
CREATE OR REPLACE TRIGGER no_truncate BEFORE TRUNCATE ON retired_grant_key
    FOR EACH STATEMENT EXECUTE FUNCTION retired_grant_key_stays();
ALTER TABLE retired_grant_key ENABLE ALWAYS TRIGGER no_change;
ALTER TABLE retired_grant_key ENABLE ALWAYS TRIGGER no_truncate;
