"""Documents searched in a real pgvector, with a role that can only read and that row security binds."""

from __future__ import annotations

import pytest

from reviews.checks.catalogue import check_for
from reviews.checks.interface import CheckFailed, Consistency
from reviews.checks.vector import VectorSearchCheck

pytestmark = pytest.mark.long


@pytest.mark.req("R-CP-12", "R-VD-03")
def test_a_document_is_read_and_found_by_its_embedding(library):
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
def test_a_missing_document_is_absent(library):
    found = library.look()
    assert found.effects[0].present is False
    assert found.indicators == ("document_missing",)


@pytest.mark.req("R-CP-12", "R-EX-18")
def test_a_document_that_was_indexed_twice_is_counted_twice(library):
    library.add()
    library.add()
    assert library.look().effects[0].count == 2


@pytest.mark.req("R-CP-12")
def test_another_embedding_version_is_detected(library):
    library.add(model="m-1")
    found = library.look(version_column="model", embedding_version="sr.model")
    assert found.indicators == ("wrong_embedding_version",)


class TestStale:
    @pytest.mark.req("R-CP-12", "R-DC-09")
    def test_an_unrefreshed_copy_is_a_stale_index(self, library):
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
    def test_an_index_that_cannot_return_the_document_is_stale(self, library, change):
        library.add()
        library.run(change)
        assert library.look().indicators == ("stale_index",)

    def test_an_index_for_another_metric_is_stale(self, library):
        library.add()
        assert library.look(retrieval={"metric": "l2"}).indicators == ("stale_index",)

    def test_a_document_with_an_older_checksum_is_stale(self, library):
        library.add(checksum="older")
        assert library.look(checksum_column="checksum", checksum="sr.checksum").indicators == ("stale_index",)


@pytest.mark.req("R-CP-12")
def test_a_search_that_finds_another_document_is_detected(library):
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
    def test_a_document_hidden_from_other_scopes_raises_no_indicator(self, library):
        library.guard()
        library.add()
        found = library.look(settings=self.SETTINGS, retrieval=self.SEARCH)
        assert found.effects[0].fields["retrievable"]
        assert found.indicators == ()

    @pytest.mark.req("R-CP-12")
    def test_a_document_found_from_another_scope_is_a_leak(self, library):
        library.guard()
        library.run("CREATE POLICY careless ON {s}.documents USING (tenant = 'acme')")
        library.add()
        assert library.look(settings=self.SETTINGS, retrieval=self.SEARCH).indicators == ("permission_leakage",)

    @pytest.mark.req("R-CP-12")
    def test_a_copy_without_row_security_is_a_leak(self, library):
        library.guard()
        library.add()
        library.copy()
        search = self.SEARCH | {"table": f"{library.schema}.search"}
        assert library.look(settings=self.SETTINGS, retrieval=search).indicators == ("permission_leakage",)

    @pytest.mark.req("R-CP-12")
    def test_a_document_with_another_permission_scope_is_a_leak(self, library):
        library.add(audience="public")
        found = library.look(scope_column="audience", permission_scope="sr.audience")
        assert found.indicators == ("permission_leakage",)

    def test_a_reader_that_row_security_does_not_bind_gives_no_answer(self, library):
        library.add()
        with pytest.raises(CheckFailed, match="bind") as failed:
            library.look(settings=self.SETTINGS, retrieval=self.SEARCH)
        assert not failed.value.retryable

    def test_without_a_scope_setting_no_scope_can_be_tested(self, library):
        with pytest.raises(CheckFailed, match="scope_setting"):
            library.look(retrieval=self.SEARCH)


class TestRemoval:
    def test_a_document_may_be_required_absent(self, library):
        library.add()
        assert library.look(expect="absent").effects[0].present is False
        library.run("DELETE FROM {s}.documents WHERE id = 'd-1'")
        found = library.look(expect="absent")
        assert (found.effects[0].present, found.indicators) == (True, ())

    def test_a_deleted_document_that_a_copy_still_has_is_a_stale_index(self, library):
        library.add()
        library.copy()
        library.run("DELETE FROM {s}.documents WHERE id = 'd-1'")
        found = library.look(expect="absent", retrieval={"table": f"{library.schema}.search"})
        assert found.effects[0].present is False
        assert found.indicators == ("stale_index",)


def test_values_are_bound_and_never_read_as_sql(library):
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


def test_a_missing_table_gives_no_answer(library):
    with pytest.raises(CheckFailed) as failed:
        library.look(table=f"{library.schema}.nothing")
    assert not failed.value.retryable


def test_the_catalogue_contains_the_vector_check():
    assert isinstance(check_for("vector_search"), VectorSearchCheck)
