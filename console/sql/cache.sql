-- Where Django's cache keeps which codes were used, and how many were wrong.

CREATE TABLE IF NOT EXISTS console_cache (
    cache_key varchar(255) PRIMARY KEY,
    value text NOT NULL,
    expires timestamptz NOT NULL
);
CREATE INDEX IF NOT EXISTS console_cache_expires ON console_cache (expires);
