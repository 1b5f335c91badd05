-- The directory of cells (docs/cells.md), in a database of its own: `manage.py cells prepare` runs this there as the
-- owner, each time. A cell is one installation; `tenant` says which cell serves whom, and nothing else about them.
-- Each change has a row in `change`, written by triggers in the order of commits; nobody takes one away.

CREATE TABLE IF NOT EXISTS cell (
    name text PRIMARY KEY CHECK (name ~ '^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$'),
    -- What people open, and where the router sends its requests.
    public_url text NOT NULL UNIQUE CHECK (public_url ~ '^https?://[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[1-9][0-9]{0,4})?$'),
    addresses text[] NOT NULL CHECK (cardinality(addresses) > 0 AND array_position(addresses, NULL) IS NULL),
    -- Its record, for `cells check`: the address of a role that reads `ledger_tenant`, without a password; empty if none.
    record text NOT NULL DEFAULT '' CHECK (record !~ '//[^/@]*:[^/@]*@|password=')
);

CREATE TABLE IF NOT EXISTS tenant (
    id uuid PRIMARY KEY,
    slug text NOT NULL UNIQUE CHECK (slug ~ '^[a-zA-Z0-9_-]{1,63}$'),
    -- A host name that is this tenant's alone, if it has one.
    host text UNIQUE CHECK (host ~ '^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$'),
    cell text NOT NULL REFERENCES cell (name),
    version bigint NOT NULL
);

CREATE TABLE IF NOT EXISTS change (
    number bigint PRIMARY KEY,
    at timestamptz NOT NULL,
    role text NOT NULL,
    reason text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('cell', 'tenant')),
    before jsonb,
    after jsonb CHECK (before IS NOT NULL OR after IS NOT NULL)
);

CREATE OR REPLACE FUNCTION directory_host(url text) RETURNS text LANGUAGE sql IMMUTABLE
    SET search_path = pg_catalog, pg_temp
    AS $$ SELECT split_part(split_part(url, '://', 2), ':', 1) $$;

-- One version for each change of a tenant's row; its id and slug stay what they are.
CREATE OR REPLACE FUNCTION directory_next_version() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.version := 1;
    IF TG_OP = 'UPDATE' THEN
        IF (NEW.id, NEW.slug) IS DISTINCT FROM (OLD.id, OLD.slug) THEN
            RAISE EXCEPTION 'a tenant keeps its id and its slug' USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        NEW.version := OLD.version + 1;
    END IF;
    RETURN NEW;
END $$;

-- The row in `change`. The lock lets one change commit at a time, so numbers have no gaps and grow with the commits.
CREATE OR REPLACE FUNCTION directory_record() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    earlier jsonb := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) END;
    later jsonb := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) END;
BEGIN
    LOCK TABLE public.change IN SHARE ROW EXCLUSIVE MODE;
    IF EXISTS (SELECT FROM public.tenant JOIN public.cell ON host = public.directory_host(public_url)) THEN
        RAISE EXCEPTION 'a host leads to a cell or to a tenant, not to both' USING ERRCODE = 'unique_violation';
    END IF;
    INSERT INTO public.change (number, at, role, reason, kind, before, after)
        SELECT coalesce(max(number), 0) + 1, clock_timestamp(), session_user,
            coalesce(current_setting('directory.reason', true), ''), TG_ARGV[0], earlier, later
        FROM public.change;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION directory_history_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'what was changed stays on record' USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE OR REPLACE TRIGGER a_version BEFORE INSERT OR UPDATE ON tenant
    FOR EACH ROW EXECUTE FUNCTION directory_next_version();
CREATE OR REPLACE TRIGGER on_record AFTER INSERT OR UPDATE OR DELETE ON tenant
    FOR EACH ROW EXECUTE FUNCTION directory_record('tenant');
CREATE OR REPLACE TRIGGER on_record AFTER INSERT OR UPDATE OR DELETE ON cell
    FOR EACH ROW EXECUTE FUNCTION directory_record('cell');
CREATE OR REPLACE TRIGGER no_change BEFORE UPDATE OR DELETE ON change
    FOR EACH ROW EXECUTE FUNCTION directory_history_stays();
CREATE OR REPLACE TRIGGER no_truncate BEFORE TRUNCATE ON change
    FOR EACH STATEMENT EXECUTE FUNCTION directory_history_stays();
CREATE OR REPLACE TRIGGER no_truncate BEFORE TRUNCATE ON tenant
    FOR EACH STATEMENT EXECUTE FUNCTION directory_history_stays();
CREATE OR REPLACE TRIGGER no_truncate BEFORE TRUNCATE ON cell
    FOR EACH STATEMENT EXECUTE FUNCTION directory_history_stays();
ALTER TABLE tenant ENABLE ALWAYS TRIGGER a_version;
ALTER TABLE tenant ENABLE ALWAYS TRIGGER on_record;
ALTER TABLE tenant ENABLE ALWAYS TRIGGER no_truncate;
ALTER TABLE cell ENABLE ALWAYS TRIGGER on_record;
ALTER TABLE cell ENABLE ALWAYS TRIGGER no_truncate;
ALTER TABLE change ENABLE ALWAYS TRIGGER no_change;
ALTER TABLE change ENABLE ALWAYS TRIGGER no_truncate;
REVOKE ALL ON FUNCTION directory_record(), directory_next_version(), directory_history_stays() FROM PUBLIC;
