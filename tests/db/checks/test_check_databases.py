"""Rows read back from a real PostgreSQL with a role that can only read."""

from __future__ import annotations

import threading

import psycopg
import pytest
from psycopg import sql

from reviews.checks import databases, postgres
from reviews.checks.interface import CheckFailed, Consistency, SystemAccess
from tests.peers.support.orders import AT, BINDINGS, CHECK, Shop


@pytest.fixture
def shop(superuser_connection):
    place = Shop(superuser_connection)
    yield place
    place.drop()


@pytest.mark.req("R-CP-01", "R-VD-03", "R-VD-09")
def test_a_row_is_read_back_from_the_primary(shop):
    shop.refund(details='{"rate": 0.5, "parts": [1, 2]}')
    shop.refund(key="key-2")
    found = shop.look()
    (effect,) = found.effects
    assert (effect.present, effect.count) == (True, 1)
    assert effect.fields == {
        "amount": 1000,
        "order_id": "o-17",
        "fee": "1.50",
        "details": {"rate": "0.5", "parts": [1, 2]},
        "made_at": "2026-03-02T09:00:00+00:00",
    }
    assert effect.scope == {"tenant": ("acme",), "target": ("o-17",)}
    assert found.consistency is Consistency.PRIMARY
    assert found.is_strong
    assert found.freshness.startswith("lsn ")
    assert "xmin" in found.freshness
    assert found.indicators == ()
    assert found.observed_at == AT
    assert "key-1" not in found.pointer


def test_a_missing_row_is_absent(shop):
    (effect,) = shop.look().effects
    assert (effect.present, effect.count, effect.fields) == (False, 0, {})


@pytest.mark.req("R-EX-18")
def test_every_matching_row_is_counted(shop):
    shop.refund()
    shop.refund(tenant="other", order="o-18")
    (effect,) = shop.look().effects
    assert effect.count == 2
    assert effect.scope == {"tenant": ("acme", "other"), "target": ("o-17", "o-18")}


@pytest.mark.req("R-CP-01", "R-CP-13")
def test_a_row_of_another_tenant_is_detected(shop):
    shop.refund(tenant="other")
    assert shop.look().indicators == ("wrong_tenant",)


@pytest.mark.req("R-CP-01", "R-DC-08")
def test_the_target_is_read_with_the_effect(shop):
    shop.refund()
    found = shop.look(target=shop.target | {"tenant_column": "tenant"})
    assert found.target == {"exists": True, "count": 1, "status": "paid", "version": 3}
    assert found.indicators == ()


@pytest.mark.req("R-CP-01")
def test_a_missing_target_or_one_of_another_owner_is_detected(shop):
    shop.run("UPDATE {s}.orders SET tenant = 'other'")
    assert shop.look(target=shop.target | {"tenant_column": "tenant"}).indicators == ("wrong_tenant",)
    shop.run("DELETE FROM {s}.orders")
    found = shop.look(target=shop.target)
    assert found.target == {"exists": False, "count": 0}
    assert found.indicators == ("missing_row",)


@pytest.mark.req("R-CP-01")
def test_the_audit_trail_is_read_with_the_effect(shop):
    audit = {"table": f"{shop.schema}.audit", "where": {"trace_id": "scope.trace_id"}, "actor_column": "actor"}
    assert shop.look(audit=audit).context["audit"] == {"exists": False, "count": 0, "actors": []}
    shop.run("INSERT INTO {s}.audit VALUES ('tr-1', 'shop-writer'), ('tr-1', 'shop-writer')")
    assert shop.look(audit=audit).context["audit"] == {
        "exists": True,
        "count": 2,
        "actors": ["shop-writer"],
    }


def test_the_reader_cannot_write(shop):
    with psycopg.connect(shop.url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(sql.SQL("DELETE FROM {}.refunds").format(sql.Identifier(shop.schema)))


def test_a_credential_with_write_rights_is_used_for_reading_only(shop):
    """Somebody registered the owner's: the reading's own transaction still refuses."""
    info = shop.connection.info
    given = {"host": info.host, "port": info.port, "dbname": info.dbname, "user": info.user, "password": info.password}
    with (
        postgres.read_only_connection(SystemAccess("shop", "databases", {}, given), 5) as connection,
        pytest.raises(psycopg.errors.ReadOnlySqlTransaction),
    ):
        connection.execute(sql.SQL("DELETE FROM {}.refunds").format(sql.Identifier(shop.schema)))


class TestUpdates:
    def lookup(self, shop, **changes):
        part = shop.target | {"present_if": "row.status == 'cancelled'"} | changes
        return {"effects": {"cancel": part}}

    def test_a_condition_decides_if_the_change_is_present(self, shop):
        assert shop.look(lookup=self.lookup(shop)).effects[0].present is False
        shop.run("UPDATE {s}.orders SET status = 'cancelled', version = 4")
        (effect,) = shop.look(lookup=self.lookup(shop)).effects
        assert effect.present
        assert effect.fields == {"status": "cancelled", "version": 4}

    def test_a_condition_may_use_columns_that_are_not_returned(self, shop):
        asked = self.lookup(shop, fields=["version"], present_if="row.tenant == scope.tenant")
        assert shop.look(lookup=asked).effects[0].present

    def test_an_undecidable_condition_does_not_count_as_absence(self, shop):
        shop.run("UPDATE {s}.orders SET status = NULL")
        asked = self.lookup(shop, present_if="row.status.startsWith('can')")
        assert shop.look(lookup=asked).effects[0].present is None

    @pytest.mark.req("R-CP-01", "R-RC-09")
    @pytest.mark.parametrize(("before", "fired"), [(3, ("stale_version",)), (2, ())])
    def test_a_version_that_did_not_advance_is_detected(self, shop, before, fired):
        asked = self.lookup(shop, present_if="row.status == 'paid'")
        pre = {"effects": {"cancel": {"version": before}}}
        assert shop.look(lookup=asked, bindings=BINDINGS | {"pre": pre}).indicators == fired

    def test_a_row_may_be_required_absent(self, shop):
        asked = {"effects": {"delete": {name: shop.target[name] for name in ("table", "where")}}}
        asked["effects"]["delete"]["expect"] = "absent"
        assert shop.look(lookup=asked).effects[0].present is False
        shop.run("DELETE FROM {s}.orders")
        (effect,) = shop.look(lookup=asked).effects
        assert (effect.present, effect.count) == (True, 1)


@pytest.mark.req("R-CP-01")
def test_a_lookup_can_compare_values_itself(shop):
    shop.refund(amount=999)
    wanted = {"equals": {"amount": "sr.amount"}}
    lookup = {"effects": {"refund": shop.lookup["effects"]["refund"] | wanted}}
    assert shop.look(lookup=lookup).indicators == ("field_values_mismatch",)


@pytest.mark.req("R-CP-01", "R-VD-09", "R-HS-07")
def test_a_server_in_recovery_is_a_replica(shop, monkeypatch):
    shop.refund()
    standing = {"in_recovery": True, "position": "0/1"}
    monkeypatch.setattr(databases, "_standing", lambda connection: standing)
    found = shop.look()
    assert found.consistency is Consistency.REPLICA
    assert found.indicators == ("freshness_not_guaranteed",)
    assert not found.is_strong


@pytest.mark.req("R-CP-01")
def test_a_lock_is_waited_for_and_then_reported(shop):
    with psycopg.connect(shop.connection.info.dsn, password=shop.connection.info.password) as other:
        other.execute(sql.SQL("LOCK TABLE {}.refunds").format(sql.Identifier(shop.schema)))
        with pytest.raises(CheckFailed) as failed:
            shop.look(timeout_s=2)
        other.rollback()
    assert failed.value.retryable
    assert failed.value.indicators == ("lock_timeout",)


@pytest.mark.req("R-RC-05")
def test_values_are_bound_and_never_read_as_sql(shop):
    shop.refund()
    evil = "key-1' OR '1'='1"
    bindings = BINDINGS | {"scope": BINDINGS["scope"] | {"idempotency_key": evil}}
    assert shop.look(bindings=bindings).effects[0].present is False


def test_a_table_name_is_quoted_and_never_read_as_sql(shop):
    asked = {"effects": {"x": {"table": 'refunds"; DROP TABLE x; --', "where": {"id": "sr.order_id"}}}}
    with pytest.raises(CheckFailed) as failed:
        shop.look(lookup=asked)
    assert not failed.value.retryable
    assert "does not exist" in failed.value.reason


def test_the_connection_cannot_write(shop):
    system = SystemAccess(
        "shop", "databases", {}, {"url": shop.connection.info.dsn, "password": shop.connection.info.password}
    )
    with databases._connected(system, 5) as connection, pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        connection.execute("CREATE TABLE should_not_be (x int)")


@pytest.mark.parametrize("table", ["nothing", "secret"])
def test_missing_or_unlisted_tables_give_no_answer(shop, table):
    shop.run("CREATE TABLE {s}.secret (idempotency_key text)")
    asked = {"effects": {"x": {"table": f"{shop.schema}.{table}", "where": {"idempotency_key": "'k'"}}}}
    with pytest.raises(CheckFailed) as failed:
        shop.look(lookup=asked)
    assert not failed.value.retryable


@pytest.mark.req("R-VD-16")
def test_a_server_that_does_not_answer_is_an_outage(shop):
    with pytest.raises(CheckFailed) as failed:
        shop.look(url="postgresql://reader:word@127.0.0.1:1/shop")
    assert failed.value.retryable
    assert "word" not in failed.value.reason


def test_a_refused_password_is_retried(shop):
    with pytest.raises(CheckFailed) as failed:
        shop.look(url=shop.url.replace("password=word", "password=wrong"))
    assert failed.value.retryable


def test_only_listed_tables_are_read(shop):
    with pytest.raises(CheckFailed, match="not among"):
        shop.look(settings={"tables": ["shop.orders"]})


@pytest.mark.parametrize("missing", ["scope", "sr"])
def test_a_lookup_with_a_missing_value_is_refused_and_never_widened(shop, missing):
    shop.refund()
    with pytest.raises(CheckFailed, match="filled in") as failed:
        shop.look(bindings=BINDINGS | {missing: {}}, target=shop.target)
    assert not failed.value.retryable


def test_everything_is_read_in_one_snapshot(shop, monkeypatch):
    """A commit between two statements is seen by all of the reading or by none of it."""
    really, turns = databases._rows, threading.Event()

    def slowly(connection, part, bindings):
        if not turns.is_set():
            turns.set()
            found = really(connection, part, bindings)
            shop.run("DELETE FROM {s}.orders")
            return found
        return really(connection, part, bindings)

    monkeypatch.setattr(databases, "_rows", slowly)
    assert shop.look(target=shop.target).target["exists"]
    assert not shop.look(target=shop.target).target["exists"]


class TestAtRegistration:
    GOOD = {
        "table": "shop.refunds",
        "where": {"idempotency_key": "scope.idempotency_key"},
        "fields": ["amount"],
        "present_if": "row.amount > 0 && row.amount == sr.amount",
        "tenant_column": "tenant",
        "target_column": "order_id",
        "version_column": "version",
        "equals": {"amount": "sr.amount"},
        "expect": "present",
    }

    def faults(self, **changes):
        part = {name: value for name, value in (self.GOOD | changes).items() if value is not None}
        return CHECK.validate({"lookup": {"effects": {"refund": part}}})

    def test_a_valid_lookup_is_accepted(self):
        assert self.faults() == []
        assert self.faults(table="refunds", fields=None, present_if=None) == []

    @pytest.mark.parametrize(
        "changes",
        [
            {"table": None},
            {"table": "a.b.c"},
            {"table": 'x"; DROP TABLE y'},
            {"where": None},
            {"where": {}},
            {"where": {"key": "sa.key"}},
            {"where": {"key": "idempotency key"}},
            {"where": {"a b": "'x'"}},
            {"fields": ["count"]},
            {"fields": ["a;b"]},
            {"fields": "amount"},
            {"present_if": "sa.amount == 1"},
            {"present_if": "row.amount + 1"},
            {"expect": "maybe"},
            {"equals": {"amount": 3}},
            {"tenant_column": "a b"},
            {"tenant_colum": "tenant"},
        ],
    )
    def test_an_invalid_lookup_is_reported(self, changes):
        assert self.faults(**changes)

    def test_the_target_and_the_audit_of_a_lookup_are_checked_too(self):
        lookup = {"effects": {}, "target": {"table": "t"}, "audit": {"table": 1, "where": {}}, "more": 1}
        assert len(CHECK.validate({"lookup": lookup})) >= 4

    def test_the_declared_columns_are_the_known_fields(self):
        target = {"table": "t", "where": {}, "fields": ["status"], "version_column": "v"}
        audit = {"table": "a", "where": {}}
        schema = CHECK.typed_fields({"effects": {"refund": self.GOOD}, "target": target, "audit": audit})
        assert {"amount", "version", "exists", "count", "effects", "target", "audit"} == set(schema["properties"])
        assert {"status", "v", "version", "exists", "count"} == set(schema["properties"]["target"]["properties"])
