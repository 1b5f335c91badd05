-- Each tenant sees its own rows and no others, whoever owns the tables: row-level security is forced, and the tenant is
-- the one that the session names. Where it names none, there is nothing to see.

CREATE OR REPLACE FUNCTION ledger_current_tenant() RETURNS uuid LANGUAGE sql STABLE AS $$
    SELECT nullif(current_setting('app.tenant', true), '')::uuid
$$;

-- Every function about a tenant's rows takes the tenant as its first argument, so that a server which knows where these are
-- can run it there, and begins with this: the tenant, where it is the session's own, and an error otherwise. It has no
-- settings of its own and writes nothing, so the planner puts its text in its place.
CREATE OR REPLACE FUNCTION ledger_refuse_tenant(p_tenant uuid) RETURNS uuid LANGUAGE plpgsql STABLE AS $$
BEGIN
    RAISE EXCEPTION 'the tenant % is not that of this session', coalesce(p_tenant::text, 'null')
        USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE OR REPLACE FUNCTION ledger_own_tenant(p_tenant uuid) RETURNS uuid LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN p_tenant = ledger_current_tenant() THEN p_tenant ELSE ledger_refuse_tenant(p_tenant) END
$$;

CREATE OR REPLACE FUNCTION ledger_isolate(target regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', target);
    EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', target);
    EXECUTE format('%s POLICY one_tenant ON %s USING (tenant_id = ledger_current_tenant())
        WITH CHECK (tenant_id = ledger_current_tenant())',
        CASE WHEN EXISTS (SELECT FROM pg_policy WHERE polrelid = target AND polname = 'one_tenant')
            THEN 'ALTER' ELSE 'CREATE' END, target);
END $$;
REVOKE ALL ON FUNCTION ledger_isolate(regclass), ledger_refuse_tenant(uuid), ledger_own_tenant(uuid) FROM PUBLIC;
