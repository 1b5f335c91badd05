-- Each tenant sees its own rows and no others, whoever owns the tables: row-level security is forced, and the tenant is
-- the one that the session names. Where it names none, there is nothing to see.

CREATE OR REPLACE FUNCTION ledger_current_tenant() RETURNS uuid LANGUAGE sql STABLE AS $$
    SELECT nullif(current_setting('app.tenant', true), '')::uuid
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
REVOKE ALL ON FUNCTION ledger_isolate(regclass) FROM PUBLIC;
