"""Documents in a real pgvector, and a role that can only read and that row security binds."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from console.local import servers
from reviews.checks.interface import SystemAccess
from reviews.checks.vector import VectorSearchCheck
from tests.conftest import new_database
from tests.peers.support.errand import Errand

BINDINGS = {
    "sr": {"document": "d-1", "checksum": "abc", "model": "m-2", "audience": "staff"},
    "scope": {"tenant": "acme"},
}


class Library:
    """A schema of its own with documents, a vector index and a copy that is refreshed."""

    def __init__(self, connection):
        self.connection = connection
        self.schema = f"library_{uuid4().hex[:8]}"
        # A role of its own: what is dropped with one is dropped in every database.
        self.reader = f"{self.schema}_reader"
        try:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except psycopg.Error as problem:
            pytest.skip(f"This PostgreSQL has no pgvector: {problem}")
        self.run("CREATE SCHEMA {s}")
        self.run(
            "CREATE TABLE {s}.documents (id text, tenant text, audience text, model text, checksum text,"
            " snapshot text, embedding public.vector(3))"
        )
        self.run("CREATE INDEX documents_embedding ON {s}.documents USING hnsw (embedding public.vector_cosine_ops)")
        self.run("CREATE ROLE {r} LOGIN PASSWORD 'word'")
        for number in range(20):
            self.add(f"other-{number}", vector=f"[{number},1,{20 - number}]")
        self.grant()

    def grant(self):
        for right in (
            "CONNECT ON DATABASE {d}",
            "USAGE ON SCHEMA {s}, public",
            "SELECT ON ALL TABLES IN SCHEMA {s}",
        ):
            self.run(f"GRANT {right} TO {{r}}")

    def run(self, text, *values):
        names = {
            "s": sql.Identifier(self.schema),
            "d": sql.Identifier(self.connection.info.dbname),
            "r": sql.Identifier(self.reader),
        }
        self.connection.execute(sql.SQL(text).format(**names), values)

    def add(self, number="d-1", vector="[1,9,2]", tenant="acme", audience="staff", model="m-2", checksum="abc"):
        self.run(
            "INSERT INTO {s}.documents VALUES (%s, %s, %s, %s, %s, 's-7', %s)",
            number, tenant, audience, model, checksum, vector,
        )  # fmt: skip

    def guard(self):
        """Row security as an application declares it: the searcher's audience is a session setting."""
        self.run("ALTER TABLE {s}.documents ENABLE ROW LEVEL SECURITY")
        self.run("CREATE POLICY audience ON {s}.documents USING (audience = current_setting('app.audience', true))")

    def copy(self):
        self.run("CREATE MATERIALIZED VIEW {s}.search AS SELECT * FROM {s}.documents")
        self.run("CREATE INDEX search_embedding ON {s}.search USING hnsw (embedding public.vector_cosine_ops)")
        self.grant()

    def drop(self):
        self.run("DROP SCHEMA {s} CASCADE")
        self.run("DROP OWNED BY {r}")
        self.run("DROP ROLE {r}")

    def look(self, *, retrieval=None, settings=None, url=None, **part):
        info = self.connection.info
        address = make_conninfo(host=info.host, port=info.port, dbname=info.dbname, user=self.reader, password="word")
        search = {
            "table": f"{self.schema}.documents",
            "where": {"id": "sr.document"},
            "embedding_column": "embedding",
        } | (retrieval or {})
        lookup = {
            "table": f"{self.schema}.documents",
            "where": {"id": "sr.document"},
            "embedding_column": "embedding",
            "fields": ["checksum"],
            "tenant_column": "tenant",
            "target_column": "id",
            "retrieval": search,
        } | part
        return VectorSearchCheck().read(
            system=SystemAccess("library", "vector_search", settings or {}, {"url": url or address}),
            verification={"lookup": {"effects": {"index": {k: v for k, v in lookup.items() if v is not None}}}},
            bindings=BINDINGS,
            at=datetime.now(UTC),
            timeout_s=5,
        )


@pytest.fixture
def library(template, run):
    """In a database of its own: an extension stays, and no other test must see it."""
    with new_database(run) as database:
        url = run.postgres.url(servers.SUPERUSER, database.name)
        with psycopg.connect(url, autocommit=True) as connection:
            place = Library(connection)
            yield place
            place.drop()


def indexing(library, *, search=None, settings=None, **part):
    """The errand: a document is to be stored and found by those who may see it."""
    info = library.connection.info
    documents = {
        "table": f"{library.schema}.documents",
        "where": {"id": "sr.document"},
        "embedding_column": "embedding",
    }
    usual = {
        "version_column": "model",
        "embedding_version": "sr.model",
        "checksum_column": "checksum",
        "checksum": "sr.checksum",
        "scope_column": "audience",
        "permission_scope": "sr.audience",
        "corpus_column": "snapshot",
        "tenant_column": "tenant",
        "target_column": "id",
        "retrieval": documents | {"visible_to": "sr.audience", "hidden_from": "'public'"} | (search or {}),
    }
    return Errand(
        pattern="vector_search",
        settings={"scope_setting": "app.audience"} | (settings or {}),
        credential={
            "host": info.host, "port": info.port, "dbname": info.dbname, "user": library.reader, "password": "word",
        },
        arguments={"document": "d-1", "checksum": "abc", "model": "m-2", "audience": "staff"},
        lookup={"effects": {"index": documents | usual | part}},
        predicates=(
            "sa.checksum == sr.checksum",
            "sa.embedding_version == sr.model",
            "sa.permission_scope == sr.audience",
            "sa.corpus_snapshot == 's-7'",
            "sa.index_version != ''",
            "sa.retrievable",
        ),
        target="document/{document}",
    )  # fmt: skip
