"""Documents, from the proposal to the decision: what a tool stores in a real pgvector, and what is made of it."""

from __future__ import annotations

import pytest

from tests.peers.support.library import indexing
from tests.peers.support.path import fired, not_asked, succeeded


@pytest.fixture
def guarded(library):
    library.guard()
    return library


@pytest.mark.req("R-CP-12", "R-VD-03")
def test_a_document_that_is_found_is_a_success(office, guarded):
    ended = office.carry_out(indexing(guarded), lambda work: guarded.add())
    succeeded(ended)
    assert not_asked(ended) == set()


def add_with_leak(library):
    library.run("CREATE POLICY careless ON {s}.documents USING (tenant = 'acme')")
    library.add()


def add_without_index(library):
    library.add()
    library.run("DROP INDEX {s}.documents_embedding")


@pytest.mark.req("R-CP-12", "R-CP-16")
@pytest.mark.parametrize(
    ("indicator", "effect"),
    [
        ("document_missing", lambda library: None),
        ("wrong_embedding_version", lambda library: library.add(model="m-1")),
        ("stale_index", add_without_index),
        ("permission_leakage", add_with_leak),
    ],
)
def test_a_wrong_document_raises_its_indicator(office, guarded, indicator, effect):
    fired(office.carry_out(indexing(guarded), lambda work: effect(guarded)), indicator)


@pytest.mark.req("R-CP-12")
def test_a_document_that_the_search_does_not_find_raises_retrieval_mismatch(office, guarded):
    """Six documents with one vector, and a search that shows one: five of them cannot be found."""
    for number in range(5):
        guarded.add(f"twin-{number}")
    ended = office.carry_out(indexing(guarded, search={"neighbours": 1}), lambda work: guarded.add())
    if ended.state == "RECONCILED_SUCCESS":  # this one was the lucky one
        guarded.run("DELETE FROM {s}.documents WHERE id = 'd-1'")
        guarded.run("VACUUM {s}.documents")
        ended = office.carry_out(indexing(guarded, search={"neighbours": 1}), lambda work: guarded.add())
    fired(ended, "retrieval_mismatch")


@pytest.mark.req("R-CP-12", "R-DC-09")
def test_an_outdated_copy_is_waited_for_until_it_is_refreshed(office, library):
    library.copy()
    search = {"table": f"{library.schema}.search"}
    errand = indexing(library, search=search)
    del errand.lookup["effects"]["index"]["retrieval"]["hidden_from"]
    work = office.begin(errand)
    library.add()
    office.observe(work)
    fired(office.verify(work), "stale_index")
    library.run("REFRESH MATERIALIZED VIEW {s}.search")
    succeeded(office.verify(work))


@pytest.mark.req("R-CP-13", "R-DC-07")
def test_a_document_of_another_tenant_is_the_wrong_target(office, guarded):
    ended = office.carry_out(indexing(guarded), lambda work: guarded.add(tenant="willow"))
    assert (ended.discrepancy, ended.row) == ("WRONG_TARGET_MODIFIED", "RT-14")
