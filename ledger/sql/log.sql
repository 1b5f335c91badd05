-- The Merkle log: its tree only grows, what was signed or given for it is append-only, and its queue is swept often.

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_constraint WHERE conname = 'tile_holds_whole_hashes') THEN
        ALTER TABLE ledger_tile ADD CONSTRAINT tile_holds_whole_hashes
            CHECK (length(hashes) BETWEEN 32 AND 8192 AND length(hashes) % 32 = 0);
    END IF;
END $$;
SELECT ledger_isolate(each) FROM unnest(ARRAY[
    'ledger_log', 'ledger_leaf', 'ledger_tile', 'ledger_tip', 'ledger_checkpoint', 'ledger_anchor', 'ledger_anchoring',
    'ledger_alarm', 'ledger_integritycheck']::regclass[]) each;
SELECT ledger_make_growing(each) FROM unnest(ARRAY['ledger_tile', 'ledger_tip']::regclass[]) each;
SELECT ledger_make_append_only(each) FROM unnest(ARRAY[
    'ledger_log', 'ledger_leaf', 'ledger_checkpoint', 'ledger_anchor']::regclass[]) each;

-- A queue whose rows live for milliseconds: without frequent vacuum its head would be a graveyard.
ALTER TABLE ledger_pending ALTER COLUMN at SET DEFAULT clock_timestamp();
ALTER TABLE ledger_pending SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 100000
);
