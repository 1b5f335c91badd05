-- Overrides of the stop on starts: whose rows these are, how far one may reach, and that it changes behind the gate.

SELECT ledger_isolate('approvals_startoverride');
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_constraint WHERE conname = 'start_override_is_bounded') THEN
        ALTER TABLE approvals_startoverride ADD CONSTRAINT start_override_is_bounded CHECK (
            ends_at > placed_at AND ends_at <= placed_at + interval '4 hours'
            AND jsonb_typeof(tools) = 'array' AND jsonb_array_length(tools) BETWEEN 1 AND 20);
    END IF;
END $$;
SELECT ledger_gate('approvals_startoverride', 'INSERT OR UPDATE OR DELETE');
