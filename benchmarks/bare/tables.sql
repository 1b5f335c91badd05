-- One row per event of the record: the same bytes, the same number of indexes (five on the event, one on the entry, one
-- on the queue of the log).
CREATE TABLE bare_row (
    id uuid PRIMARY KEY,
    subject_id uuid NOT NULL,
    seq integer NOT NULL,
    kind text NOT NULL,
    state text NOT NULL,
    envelope bytea NOT NULL,
    entry bytea NOT NULL,
    detail bytea NOT NULL,
    at timestamptz NOT NULL,
    position bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    UNIQUE (subject_id, seq),
    UNIQUE (subject_id, seq, state)
);
CREATE INDEX ON bare_row (at);
CREATE INDEX ON bare_row (subject_id, id);
CREATE INDEX ON bare_row (kind, id);
GRANT SELECT, INSERT ON bare_row TO counterfoil_app;

-- A chain of hashes for all, whose tip is held from reading it to the commit.
CREATE TABLE bare_tip (size bigint NOT NULL, head bytea NOT NULL);
INSERT INTO bare_tip VALUES (0, '');
CREATE TABLE bare_chain (
    position bigint PRIMARY KEY,
    envelope bytea NOT NULL,
    entry bytea NOT NULL,
    detail bytea NOT NULL,
    hash bytea NOT NULL
);
CREATE FUNCTION bare_chain_append(p_envelope bytea, p_entry bytea, p_detail bytea) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_size bigint;
    v_head bytea;
BEGIN
    SELECT size, head INTO v_size, v_head FROM bare_tip FOR UPDATE;
    v_head := sha256(v_head || p_envelope);
    INSERT INTO bare_chain VALUES (v_size, p_envelope, p_entry, p_detail, v_head);
    UPDATE bare_tip SET size = v_size + 1, head = v_head;
END $$;
GRANT SELECT, UPDATE ON bare_tip TO counterfoil_app;
GRANT INSERT ON bare_chain TO counterfoil_app;
GRANT EXECUTE ON FUNCTION bare_chain_append(bytea, bytea, bytea) TO counterfoil_app;
