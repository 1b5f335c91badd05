-- Whose claims these are, and what of a claim never changes.

SELECT ledger_isolate('reviews_claim'::regclass);

-- What somebody claimed stays as it was said, except where it is erased; readings move only how it stands. No
-- reading takes back that there was one, and one that settles nothing takes back no other.
CREATE OR REPLACE FUNCTION reviews_keep_claim() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    v_moves text[] := ARRAY['state', 'reached_by', 'changed_at', 'result', 'discrepancy', 'pointer', 'read_at', 'case_id'];
    v_blanks text[] := ARRAY['operation', 'target', 'said_by'];
BEGIN
    IF TG_OP = 'UPDATE' AND to_jsonb(NEW) - v_moves = to_jsonb(OLD) - v_moves
            AND (OLD.state IN ('OPEN', NEW.state) OR NEW.state NOT IN ('OPEN', 'UNKNOWN')) THEN
        RETURN NEW;
    END IF;
    IF TG_OP = 'UPDATE' AND to_jsonb(NEW) - v_blanks = to_jsonb(OLD) - v_blanks
            AND NEW.operation || NEW.target || NEW.said_by = '' THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'a claim stays as it was made: % is refused', TG_OP USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE OR REPLACE TRIGGER keep_claim BEFORE UPDATE OR DELETE ON reviews_claim
    FOR EACH ROW EXECUTE FUNCTION reviews_keep_claim();
ALTER TABLE reviews_claim ENABLE ALWAYS TRIGGER keep_claim;
