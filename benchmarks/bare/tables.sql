-- One row per event of the record: the same bytes, the same number of indexes (four on the event, one on the entry).
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
    UNIQUE (subject_id, seq),
    UNIQUE (subject_id, seq, state)
);
CREATE INDEX ON bare_row (at);
CREATE INDEX ON bare_row (subject_id, id);
GRANT SELECT, INSERT ON bare_row TO counterfoil_app;
