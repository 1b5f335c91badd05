-- Has the server look at tables that have grown by half since it looked last, or that it has never looked at. It makes
-- plans for the sizes that it knows: in a young database, and after a bulk load, it knows none for a minute or longer, and
-- finds reading a whole table as good as reading one row of it. Plans that are kept are made anew after each look.
--
-- A table of a few pages is left alone, and each look is at twice the size of the one before, so there are few of them. It
-- reads a sample of bounded size, writes no row of ours, and makes no writer wait.
CREATE OR REPLACE FUNCTION ledger_learn_sizes() RETURNS integer LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    v_table text;
    v_count integer := 0;
BEGIN
    FOR v_table IN SELECT oid::regclass::text FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relowner = current_user::regrole
            AND pg_relation_size(oid) / current_setting('block_size')::integer > 4 + relpages * 3 / 2
    LOOP
        EXECUTE format('ANALYZE %s', v_table);
        v_count := v_count + 1;
    END LOOP;
    RETURN v_count;
END $$;
REVOKE ALL ON FUNCTION ledger_learn_sizes() FROM PUBLIC;
