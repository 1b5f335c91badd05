"""Rows, from the proposal to the decision: what a tool writes into a real PostgreSQL, and what is made of it."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import sql

from tests.peers.support.errand import Errand
from tests.peers.support.orders import Shop
from tests.peers.support.path import accounted, fired, not_asked, succeeded
from tests.peers.support.standby import standby


@pytest.fixture
def shop(superuser_connection):
    place = Shop(superuser_connection)
    yield place
    place.drop()


def refunding(shop, *, url=None, **effect):
    part = {
        "table": f"{shop.schema}.refunds",
        "where": {"idempotency_key": "scope.idempotency_key"},
        "fields": ["amount", "order_id"],
        "equals": {"amount": "sr.amount"},
        "tenant_column": "tenant",
        "target_column": "order_id",
    }
    trail = {
        "table": f"{shop.schema}.audit",
        "where": {"trace_id": "scope.trace_id"},
        "actor_column": "actor",
    }
    return Errand(
        pattern="databases",
        credential={"url": url or shop.url},
        arguments={"order_id": "o-17", "amount": 1000},
        lookup={"effects": {"refund": part | effect}, "target": shop.target, "audit": trail},
        predicates=("sa.amount == sr.amount", "sa.audit.exists", "sa.audit.actors == ['shop-writer']"),
        target="order/{order_id}",
        reading={"timeout_s": 1},
    )


def refund(shop, work, **fields):
    shop.refund(key=work.key, **fields)
    shop.run("INSERT INTO {s}.audit VALUES (%s, 'shop-writer')", work.trace_id)


def settling(shop):
    part = shop.target | {"equals": {"status": "'settled'"}, "tenant_column": "tenant", "target_column": "id"}
    return Errand(
        pattern="databases",
        credential={"url": shop.url},
        arguments={"order_id": "o-17"},
        lookup={"effects": {"settle": part}},
        predicates=("sa.status == 'settled'",),
        target="order/{order_id}",
        reading={"baseline": True},
    )


@pytest.mark.req("R-CP-01", "R-VD-03")
def test_a_written_row_is_a_success(office, shop):
    ended = office.carry_out(refunding(shop), lambda work: refund(shop, work))
    succeeded(ended)
    assert ended.entry["verification"]["source"] == "place"
    assert not_asked(ended) == set()


@pytest.mark.req("R-CP-14")
def test_the_evidence_answers_what_where_by_whom_under_which_authority_and_how(office, shop):
    ended = office.carry_out(refunding(shop), lambda work: refund(shop, work))
    accounted(ended, actor="shop-writer", place="acme")
    wrong = office.carry_out(refunding(shop), lambda work: None)
    assert wrong.document["account"]["what"]["effects"] == ["refund: absent (0)"]


@pytest.mark.req("R-CP-01", "R-VD-04")
def test_a_row_with_an_advanced_version_is_a_success(office, shop):
    change = "UPDATE {s}.orders SET status = 'settled', version = 4"
    ended = office.carry_out(settling(shop), lambda work: shop.run(change))
    succeeded(ended)
    assert not_asked(ended) == {"actor_id_match", "audit_log_has_trace_id"}


@pytest.mark.req("R-CP-01", "R-CP-13", "R-CP-16", "R-VD-03")
@pytest.mark.parametrize(
    ("indicator", "changes"),
    [("wrong_tenant", {"tenant": "willow"}), ("field_values_mismatch", {"amount": 999})],
)
def test_a_wrong_row_raises_its_indicator(office, shop, indicator, changes):
    fired(office.carry_out(refunding(shop), lambda work: refund(shop, work, **changes)), indicator)


@pytest.mark.req("R-CP-01", "R-DC-08")
def test_an_order_deleted_meanwhile_raises_missing_row(office, shop):
    fired(office.carry_out(refunding(shop), lambda work: shop.run("DELETE FROM {s}.orders")), "missing_row")


@pytest.mark.req("R-CP-01", "R-DC-02")
def test_an_unchanged_version_raises_stale_version(office, shop):
    """Somebody had settled the order before; the tool changed nothing."""
    shop.run("UPDATE {s}.orders SET status = 'settled'")
    fired(office.carry_out(settling(shop), lambda work: None), "stale_version")


@pytest.mark.req("R-CP-01", "R-VD-16")
def test_a_locked_table_raises_lock_timeout_and_is_read_again(office, shop):
    info = shop.connection.info
    work = office.begin(refunding(shop))
    refund(shop, work)
    office.observe(work)
    with psycopg.connect(info.dsn, password=info.password) as other:
        other.execute(sql.SQL("LOCK TABLE {}.refunds").format(sql.Identifier(shop.schema)))
        ended = office.verify(work)
    fired(ended, "lock_timeout", row="RT-19")
    succeeded(office.verify(work))


@pytest.mark.req("R-CP-01", "R-VD-09")
def test_a_standby_gives_no_verdict(office, cluster, run):
    """The order is missing there as well; the primary may have both."""
    made = []
    with standby(cluster, run.folder, lambda connection: made.append(Shop(connection))) as url:
        ended = office.carry_out(refunding(made[0], url=url), lambda work: None)
    assert ended.indicators == {"freshness_not_guaranteed"}
    assert (ended.discrepancy, ended.row, ended.state) == ("UNVERIFIABLE_STATE", "RT-02", "PENDING")
