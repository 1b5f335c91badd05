-- The example's shop, run as its owner. Money is in minor units.
CREATE TABLE IF NOT EXISTS shop.orders (
    id text PRIMARY KEY,
    tenant text NOT NULL,
    customer text NOT NULL,
    amount bigint NOT NULL CHECK (amount > 0),
    currency text NOT NULL,
    refunded bigint NOT NULL DEFAULT 0,
    status text NOT NULL DEFAULT 'paid',
    version bigint NOT NULL DEFAULT 1,
    updated_by text NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now()
);

-- No unique index on idempotency_key, on purpose: a duplicate can really happen here, and be found.
CREATE TABLE IF NOT EXISTS shop.refunds (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_id text NOT NULL REFERENCES shop.orders (id),
    tenant text NOT NULL,
    amount bigint NOT NULL,
    currency text NOT NULL,
    status text NOT NULL,
    idempotency_key text NOT NULL,
    actor text NOT NULL,
    trace_id text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS refunds_by_key ON shop.refunds (idempotency_key);

-- Money of a refund that was charged again.
CREATE TABLE IF NOT EXISTS shop.charges (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    refund_id bigint NOT NULL REFERENCES shop.refunds (id),
    order_id text NOT NULL REFERENCES shop.orders (id),
    tenant text NOT NULL,
    amount bigint NOT NULL CHECK (amount > 0),
    currency text NOT NULL,
    status text NOT NULL DEFAULT 'succeeded',
    idempotency_key text NOT NULL,
    actor text NOT NULL,
    trace_id text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS charges_by_key ON shop.charges (idempotency_key);

CREATE TABLE IF NOT EXISTS shop.notices (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_id text NOT NULL REFERENCES shop.orders (id),
    tenant text NOT NULL,
    recipient text NOT NULL,
    body text NOT NULL,
    status text NOT NULL,
    idempotency_key text NOT NULL,
    actor text NOT NULL,
    trace_id text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS notices_by_key ON shop.notices (idempotency_key);

-- Stock that is kept back for an order. Releasing it is what takes a reservation back.
CREATE TABLE IF NOT EXISTS shop.reservations (
    id text PRIMARY KEY,
    order_id text NOT NULL REFERENCES shop.orders (id),
    tenant text NOT NULL,
    sku text NOT NULL,
    quantity bigint NOT NULL CHECK (quantity > 0),
    status text NOT NULL DEFAULT 'held',
    idempotency_key text NOT NULL,
    actor text NOT NULL,
    trace_id text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    released_at timestamptz
);
CREATE INDEX IF NOT EXISTS reservations_by_key ON shop.reservations (idempotency_key);

CREATE TABLE IF NOT EXISTS shop.audit (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_id text NOT NULL,
    operation text NOT NULL,
    actor text NOT NULL,
    idempotency_key text NOT NULL,
    trace_id text NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS audit_by_trace ON shop.audit (trace_id);

-- What is to go wrong with which order, document or payload. Only the example's own programs read it.
CREATE TABLE IF NOT EXISTS shop.example_faults (
    target text PRIMARY KEY,
    fault text NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now()
);
