"""A shop's orders and refunds in a real PostgreSQL, and a role that can only read them."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

from psycopg import sql
from psycopg.conninfo import make_conninfo

from reviews.checks.catalogue import check_for
from reviews.checks.interface import SystemAccess

AT = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
CHECK = check_for("databases")
BINDINGS: dict[str, dict[str, object]] = {
    "si": {},
    "sr": {"order_id": "o-17", "amount": 1000},
    "so": {},
    "scope": {"idempotency_key": "key-1", "tenant": "acme", "trace_id": "tr-1"},
    "pre": {},
}


class Shop:
    """A schema of its own in the test's database, written by us and read by the check."""

    def __init__(self, connection):
        self.connection = connection
        self.schema = f"shop_{uuid4().hex[:8]}"
        # A role of its own: what is dropped with one is dropped in every database.
        self.reader = f"{self.schema}_reader"
        self.run("CREATE SCHEMA {s}")
        self.run(
            "CREATE TABLE {s}.refunds (id bigint GENERATED ALWAYS AS IDENTITY, idempotency_key text,"
            " order_id text, tenant text, amount bigint, fee numeric(10,2), details jsonb,"
            " made_at timestamptz DEFAULT '2026-03-02T09:00:00Z')"
        )
        self.run("CREATE TABLE {s}.orders (id text, tenant text, status text, version bigint)")
        self.run("CREATE TABLE {s}.audit (trace_id text, actor text)")
        self.run("INSERT INTO {s}.orders VALUES ('o-17', 'acme', 'paid', 3)")
        self.run("CREATE ROLE {r} LOGIN PASSWORD 'word'")
        for right in ("CONNECT ON DATABASE {d}", "USAGE ON SCHEMA {s}", "SELECT ON ALL TABLES IN SCHEMA {s}"):
            self.run(f"GRANT {right} TO {{r}}")

    def run(self, text, *values):
        names = {
            "s": sql.Identifier(self.schema),
            "d": sql.Identifier(self.connection.info.dbname),
            "r": sql.Identifier(self.reader),
        }
        self.connection.execute(sql.SQL(text).format(**names), values)

    def refund(self, key="key-1", order="o-17", tenant="acme", amount=1000, fee="1.50", details="{}"):
        self.run(
            "INSERT INTO {s}.refunds (idempotency_key, order_id, tenant, amount, fee, details)"
            " VALUES (%s, %s, %s, %s, %s, %s)",
            key, order, tenant, amount, fee, details,
        )  # fmt: skip

    def drop(self):
        self.run("DROP SCHEMA {s} CASCADE")
        self.run("DROP OWNED BY {r}")
        self.run("DROP ROLE {r}")

    @property
    def url(self):
        info = self.connection.info
        return make_conninfo(host=info.host, port=info.port, dbname=info.dbname, user=self.reader, password="word")

    @property
    def lookup(self):
        return {
            "effects": {
                "refund": {
                    "table": f"{self.schema}.refunds",
                    "where": {"idempotency_key": "scope.idempotency_key"},
                    "fields": ["amount", "order_id", "fee", "details", "made_at"],
                    "tenant_column": "tenant",
                    "target_column": "order_id",
                }
            }
        }

    @property
    def target(self):
        return {
            "table": f"{self.schema}.orders",
            "where": {"id": "sr.order_id"},
            "fields": ["status"],
            "version_column": "version",
        }

    def look(self, *, lookup=None, bindings=BINDINGS, settings=None, url=None, timeout_s=5, **more):
        return CHECK.read(
            system=SystemAccess("shop", "databases", settings or {}, {"url": url or self.url}),
            verification={"lookup": (lookup or self.lookup) | more},
            bindings=bindings,
            at=AT,
            timeout_s=timeout_s,
        )
