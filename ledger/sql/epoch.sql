-- The epoch only rises, whoever writes it.

CREATE OR REPLACE FUNCTION ledger_epoch_rises() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.number >= OLD.number THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'the epoch only rises: % on % is refused', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE OR REPLACE TRIGGER epoch_rises BEFORE UPDATE OR DELETE ON ledger_epoch
    FOR EACH ROW EXECUTE FUNCTION ledger_epoch_rises();
ALTER TABLE ledger_epoch ENABLE ALWAYS TRIGGER epoch_rises;
CREATE OR REPLACE TRIGGER epoch_stays BEFORE TRUNCATE ON ledger_epoch
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_epoch_rises();
ALTER TABLE ledger_epoch ENABLE ALWAYS TRIGGER epoch_stays;
REVOKE ALL ON FUNCTION ledger_epoch_rises() FROM PUBLIC;
