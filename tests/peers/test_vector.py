"""Documents searched in a real pgvector, with a role that can only read and that row security binds."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from reviews.checks.catalogue import check_for
from reviews.checks.interface import CheckFailed, Consistency, SystemAccess
from reviews.checks.vector import Vector

pytestmark = pytest.mark.long

READER = "counterfoil_vector_reader"
BINDINGS = {
    "sr": {"document": "d-1", "checksum": "abc", "model": "m-2", "audience": "staff"},
    "scope": {"tenant": "acme"},
}


class Library:
    """A schema of its own with documents, a vector index and a copy that is refreshed."""

    def __init__(self, connection):
        self.connection = connection
        self.schema = f"library_{uuid4().hex[:8]}"
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
        connection.execute(
            sql.SQL("DO $$BEGIN CREATE ROLE {} LOGIN PASSWORD 'word';"
                    " EXCEPTION WHEN duplicate_object THEN NULL; END$$").format(sql.Identifier(READER))
        )  # fmt: skip
        for number in range(20):
            self.add(f"other-{number}", vector=f"[{number},1,{20 - number}]")
        self.grant()

    def grant(self):
        for right in (
            "CONNECT ON DATABASE {d}",
            "USAGE ON SCHEMA {s}, public",
            "SELECT ON ALL TABLES IN SCHEMA {s}",
        ):
            self.run(f"GRANT {right} TO {READER}")

    def run(self, text, *values):
        names = {"s": sql.Identifier(self.schema), "d": sql.Identifier(self.connection.info.dbname)}
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
        self.run(f"DROP OWNED BY {READER}")

    def look(self, *, retrieval=None, settings=None, url=None, user=READER, **part):
        info = self.connection.info
        address = make_conninfo(host=info.host, port=info.port, dbname=info.dbname, user=user, password="word")
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
        return Vector().read(
            system=SystemAccess("library", "vector_search", settings or {}, {"url": url or address}),
            verification={"lookup": {"effects": {"index": {k: v for k, v in lookup.items() if v is not None}}}},
            bindings=BINDINGS,
            at=datetime.now(UTC),
            timeout_s=5,
        )


@pytest.fixture
def library(committed_db, superuser_connection):
    place = Library(superuser_connection)
    yield place
    place.drop()


@pytest.mark.req("R-CP-12", "R-VD-03")
def test_a_document_is_read_and_retrieved(library):
    library.add()
    found = library.look(
        version_column="model", embedding_version="sr.model", scope_column="audience", permission_scope="sr.audience",
        checksum_column="checksum", checksum="sr.checksum", corpus_column="snapshot",
    )  # fmt: skip
    (effect,) = found.effects
    assert (effect.present, effect.count) == (True, 1)
    index = effect.fields["index_version"]
    assert index.startswith("documents_embedding hnsw ")
    assert effect.fields == {
        "checksum": "abc",
        "embedding_version": "m-2",
        "permission_scope": "staff",
        "corpus_snapshot": "s-7",
        "dimensions": 3,
        "index_version": index,
        "retrievable": True,
        "rank": 1,
    }
    assert effect.scope == {"tenant": ("acme",), "target": ("d-1",)}
    assert found.indicators == ()
    assert found.consistency is Consistency.PRIMARY
    assert found.freshness.startswith("lsn ")
    library.run("REINDEX INDEX {s}.documents_embedding")
    assert library.look().effects[0].fields["index_version"] != index


@pytest.mark.req("R-CP-12")
def test_a_document_that_is_not_there_is_absent(library):
    found = library.look()
    assert found.effects[0].present is False
    assert found.indicators == ("document_missing",)


@pytest.mark.req("R-CP-12", "R-EX-18")
def test_one_that_was_indexed_twice_is_counted(library):
    library.add()
    library.add()
    assert library.look().effects[0].count == 2


@pytest.mark.req("R-CP-12")
def test_another_embedding_version_is_seen(library):
    library.add(model="m-1")
    found = library.look(version_column="model", embedding_version="sr.model")
    assert found.indicators == ("wrong_embedding_version",)


class TestStale:
    @pytest.mark.req("R-CP-12", "R-DC-09")
    def test_a_copy_that_was_not_refreshed(self, library):
        library.copy()
        library.add()
        search = {"table": f"{library.schema}.search"}
        found = library.look(retrieval=search)
        assert found.effects[0].present
        assert not found.effects[0].fields["retrievable"]
        assert found.indicators == ("stale_index",)
        library.run("REFRESH MATERIALIZED VIEW {s}.search")
        assert library.look(retrieval=search).indicators == ()
        library.run("UPDATE {s}.documents SET embedding = '[2,2,9]' WHERE id = 'd-1'")
        assert library.look(retrieval=search).indicators == ("stale_index",)

    @pytest.mark.req("R-CP-12")
    @pytest.mark.parametrize(
        "change",
        [
            "DROP INDEX {s}.documents_embedding",
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{s}.documents_embedding'::regclass",
            "UPDATE {s}.documents SET embedding = NULL WHERE id = 'd-1'",
        ],
    )
    def test_an_index_that_cannot_give_it_back(self, library, change):
        library.add()
        library.run(change)
        assert library.look().indicators == ("stale_index",)

    def test_an_index_for_another_distance(self, library):
        library.add()
        assert library.look(retrieval={"metric": "l2"}).indicators == ("stale_index",)

    def test_an_older_text(self, library):
        library.add(checksum="older")
        assert library.look(checksum_column="checksum", checksum="sr.checksum").indicators == ("stale_index",)


@pytest.mark.req("R-CP-12")
def test_a_search_that_finds_something_else_is_seen(library):
    for number in range(5):
        library.add(f"twin-{number}")
    library.add()
    twins = [{"id": "sr.document"}, *({"id": f"'twin-{number}'"} for number in range(5))]
    fired = [library.look(where=one, retrieval={"where": one, "neighbours": 1}).indicators for one in twins]
    assert sorted(fired) == [(), *[("retrieval_mismatch",)] * 5]


class TestPermission:
    SETTINGS = {"scope_setting": "app.audience"}
    SEARCH = {"visible_to": "sr.audience", "hidden_from": "'public'"}

    @pytest.mark.req("R-CP-12")
    def test_those_who_may_not_see_it_do_not_find_it(self, library):
        library.guard()
        library.add()
        found = library.look(settings=self.SETTINGS, retrieval=self.SEARCH)
        assert found.effects[0].fields["retrievable"]
        assert found.indicators == ()

    @pytest.mark.req("R-CP-12")
    def test_one_that_they_find_is_a_leak(self, library):
        library.guard()
        library.run("CREATE POLICY careless ON {s}.documents USING (tenant = 'acme')")
        library.add()
        assert library.look(settings=self.SETTINGS, retrieval=self.SEARCH).indicators == ("permission_leakage",)

    @pytest.mark.req("R-CP-12")
    def test_a_copy_without_row_security_leaks(self, library):
        library.guard()
        library.add()
        library.copy()
        search = self.SEARCH | {"table": f"{library.schema}.search"}
        assert library.look(settings=self.SETTINGS, retrieval=search).indicators == ("permission_leakage",)

    @pytest.mark.req("R-CP-12")
    def test_another_scope_on_the_document_is_a_leak(self, library):
        library.add(audience="public")
        found = library.look(scope_column="audience", permission_scope="sr.audience")
        assert found.indicators == ("permission_leakage",)

    def test_a_reader_that_nothing_binds_shows_nothing(self, library):
        library.add()
        with pytest.raises(CheckFailed, match="bind") as failed:
            library.look(settings=self.SETTINGS, retrieval=self.SEARCH)
        assert not failed.value.retryable

    def test_without_a_setting_no_scope_can_be_tried(self, library):
        with pytest.raises(CheckFailed, match="scope_setting"):
            library.look(retrieval=self.SEARCH)


class TestRemoval:
    def test_a_document_may_be_wanted_gone(self, library):
        library.add()
        assert library.look(expect="absent").effects[0].present is False
        library.run("DELETE FROM {s}.documents WHERE id = 'd-1'")
        found = library.look(expect="absent")
        assert (found.effects[0].present, found.indicators) == (True, ())

    def test_a_copy_that_still_has_it_is_waited_for(self, library):
        library.add()
        library.copy()
        library.run("DELETE FROM {s}.documents WHERE id = 'd-1'")
        found = library.look(expect="absent", retrieval={"table": f"{library.schema}.search"})
        assert found.effects[0].present is False
        assert found.indicators == ("stale_index",)


def test_values_are_bound_and_never_sql(library):
    library.add()
    assert library.look(where={"id": '"x OR 1=1"'}).effects[0].present is False


def test_only_listed_tables_are_read(library):
    with pytest.raises(CheckFailed, match="not among"):
        library.look(settings={"tables": ["elsewhere"]})


@pytest.mark.req("R-VD-16")
def test_a_server_that_does_not_answer_is_an_outage(library):
    with pytest.raises(CheckFailed) as failed:
        library.look(url="postgresql://reader:word@127.0.0.1:1/library")
    assert failed.value.retryable


def test_a_table_that_is_not_there_never_answers(library):
    with pytest.raises(CheckFailed) as failed:
        library.look(table=f"{library.schema}.nothing")
    assert not failed.value.retryable


def test_the_catalogue_has_it():
    assert isinstance(check_for("vector_search"), Vector)
