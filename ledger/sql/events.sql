-- The tables of the record itself: the events, and what an event commits to and keeps apart. They are partitioned by
-- subject id, so by time (partitions.sql).
--
-- What one row shows is checked here: no gap in its number, a legal step, the hash of its bytes. That it continues the
-- event before it is what `ledger_append` asks of the subject's head, which no two events can move from the same place,
-- and what `verify_ledger` finds where somebody wrote around that door.

CREATE TABLE IF NOT EXISTS ledger_event (
    tenant_id uuid NOT NULL,
    subject_id uuid NOT NULL,
    seq integer NOT NULL,
    prev_seq integer,
    id uuid NOT NULL,
    subject_kind text NOT NULL,
    kind text NOT NULL,
    from_state text NOT NULL,
    state text NOT NULL,
    prev bytea,
    envelope bytea NOT NULL,
    entry_hash bytea NOT NULL,
    actor_kind text NOT NULL,
    actor_id uuid NOT NULL,
    at timestamptz NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT event_is_unique PRIMARY KEY (tenant_id, subject_id, seq),
    CONSTRAINT event_sequence_has_no_gap CHECK (
        seq >= 1 AND prev_seq IS NOT DISTINCT FROM nullif(seq - 1, 0) AND (prev IS NULL) = (seq = 1)
            AND (from_state = '') = (seq = 1)
    ),
    CONSTRAINT event_hash_is_of_the_envelope CHECK (entry_hash = sha256('\x00'::bytea || envelope))
) PARTITION BY RANGE (subject_id);
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_constraint
            WHERE conrelid = 'ledger_event'::regclass AND conname = 'event_step_is_legal') THEN
        ALTER TABLE ledger_event ADD CONSTRAINT event_step_is_legal
            CHECK (ledger_is_legal_step(subject_kind, from_state, state));
    END IF;
END $$;
CREATE INDEX IF NOT EXISTS event_by_time ON ledger_event (tenant_id, recorded_at);
CREATE INDEX IF NOT EXISTS event_by_id ON ledger_event (tenant_id, id);
-- Few events lead there, and the page of hallucinations counts them over a month.
CREATE INDEX IF NOT EXISTS event_compensation_failed ON ledger_event (tenant_id, subject_id)
    WHERE state = 'COMPENSATION_FAILED';
-- What is searched for must be found without reading the record, and what is appended a thousand times a second must
-- not pay for it: so only what people did is indexed by who, and only what is not in every action by what. The rest is
-- so frequent that reading from the newest on finds it (`ledger.actions.queries.search`).
CREATE INDEX IF NOT EXISTS event_by_person ON ledger_event (tenant_id, actor_id, id)
    WHERE actor_kind IN ('person', 'operator', 'auditor');
CREATE INDEX IF NOT EXISTS event_by_kind ON ledger_event (tenant_id, kind, id) WHERE kind NOT IN (
    'proposed', 'validated', 'grant_minted', 'execution_started', 'observed', 'verification_started', 'verified',
    'reconciled', 'session_opened');

CREATE TABLE IF NOT EXISTS ledger_entry (
    tenant_id uuid NOT NULL,
    subject_id uuid NOT NULL,
    seq integer NOT NULL,
    entry_salt bytea,
    entry bytea,
    detail_salt bytea,
    detail bytea,
    CONSTRAINT entry_is_unique PRIMARY KEY (tenant_id, subject_id, seq)
) PARTITION BY RANGE (subject_id);

SELECT ledger_isolate(each), ledger_make_append_only(each) FROM unnest(ARRAY[
    'ledger_event', 'ledger_entry']::regclass[]) each;
