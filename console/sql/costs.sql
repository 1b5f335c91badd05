-- Whose prices and budgets these are, and what of a price never changes.

SELECT ledger_isolate(each) FROM unnest(ARRAY['console_price', 'console_costbudget']::regclass[]) each;

-- A price that has applied stays what it was: of a row only its end is set, once and never to a time before.
CREATE OR REPLACE FUNCTION console_keep_price() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL
            AND to_jsonb(NEW) - 'ended_at' = to_jsonb(OLD) - 'ended_at' THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'a price only ends: % is refused', TG_OP USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE OR REPLACE TRIGGER keep_price BEFORE UPDATE OR DELETE ON console_price
    FOR EACH ROW EXECUTE FUNCTION console_keep_price();
ALTER TABLE console_price ENABLE ALWAYS TRIGGER keep_price;
