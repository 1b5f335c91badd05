"""Payments, from the proposal to the decision: what a tool charges and refunds, and what is made of it."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tests.peers.support.documented import documented
from tests.peers.support.errand import Errand
from tests.peers.support.path import SETTLED, fired, not_asked, succeeded

MATCH = {"metadata.key": "scope.idempotency_key"}
FINANCIAL = {"effect_domain": "FINANCIAL"}


def charging(processor, *, url=None, ledger=None, books=None, settings=None, **part):
    usual = {
        "kind": "charge",
        "match": MATCH,
        "amount": "sr.amount",
        "currency": "sr.currency",
        "tenant_field": "metadata.tenant",
        "target_field": "metadata.order",
    }
    return Errand(
        pattern="payments",
        settings={"url": url or processor.url} | (settings or {}),
        credential={"token": "sk_test_word"} | ({"ledger_url": books} if books else {}),
        arguments={"order": "o-17", "amount": 2000, "currency": "EUR"},
        lookup={"effects": {"pay": {name: one for name, one in (usual | part).items() if one is not None}}}
        | ({"ledger": ledger} if ledger else {}),
        predicates=(
            "sa.id != '' && sa.metadata.key == scope.idempotency_key",
            "sa.amount == sr.amount && sa.currency == sr.currency",
            f"sa.account == '{(settings or {}).get('account', '')}'",
            "sa.status == 'succeeded'",
            *(("sa.ledger.exists && sa.ledger.amount == sr.amount",) if ledger else ()),
        ),
        target="order/{order}",
        facts=FINANCIAL,
    )


def refunding(processor, charge):
    return Errand(
        pattern="payments",
        settings={"url": processor.url},
        credential={"token": "sk_test_word"},
        arguments={"charge": charge["id"], "amount": 500},
        lookup={
            "effects": {
                "refund": {
                    "kind": "refund",
                    "of": {"charge": "sr.charge"},
                    "match": MATCH,
                    "amount": "sr.amount",
                    "currency": "'EUR'",
                    "target_field": "charge",
                }
            }
        },
        predicates=("sa.amount == sr.amount", "sa.target.amount_refunded == sr.amount"),
        target="charge/{charge}",
        facts=FINANCIAL,
    )


def charge(processor, work, **fields):
    usual = {"source": "tok_visa", "metadata__key": work.key, "metadata__tenant": "acme", "metadata__order": "o-17"}
    return processor.charge(**(usual | fields))


@pytest.fixture
def books(superuser_connection):
    """Our own books beside the processor: a real PostgreSQL."""
    schema = f"books_{uuid4().hex[:8]}"

    def run(text, *values):
        superuser_connection.execute(sql.SQL(text).format(s=sql.Identifier(schema)), values)

    run("CREATE SCHEMA {s}")
    run("CREATE TABLE {s}.entries (key text, amount bigint, currency text)")
    info = superuser_connection.info
    address = make_conninfo(host=info.host, port=info.port, dbname=info.dbname, user=info.user, password=info.password)
    ledger = {
        "table": f"{schema}.entries",
        "where": {"key": "scope.idempotency_key"},
        "amount_column": "amount",
        "currency_column": "currency",
    }
    yield run, {"ledger": ledger, "books": address}
    run("DROP SCHEMA {s} CASCADE")


@pytest.mark.long
@pytest.mark.req("R-CP-05", "R-VD-05")
def test_a_charge_with_its_ledger_entry_is_a_success(office, careful, books):
    run, asked = books

    def pay(work):
        charge(careful, work, key=work.key)
        run("INSERT INTO {s}.entries VALUES (%s, 2000, 'EUR')", work.key)

    ended = office.carry_out(charging(careful, **asked), pay)
    succeeded(ended)
    assert ended.effect["fields"]["state"] == "captured"
    assert not_asked(ended) == set()


@pytest.mark.long
@pytest.mark.req("R-CP-05", "R-CP-16", "R-VD-05")
def test_a_charge_with_a_diverging_ledger_entry_raises_an_indicator(office, careful, books):
    run, asked = books

    def pay(work):
        charge(careful, work)
        run("INSERT INTO {s}.entries VALUES (%s, 1999, 'EUR')", work.key)

    fired(office.carry_out(charging(careful, **asked), pay), "provider_local_ledger_divergence")


@pytest.mark.long
@pytest.mark.req("R-CP-05", "R-CP-16", "R-VD-05")
def test_a_charge_of_another_amount_raises_its_indicator(office, careful):
    fired(office.carry_out(charging(careful), lambda work: charge(careful, work, amount=2100)), "amount_mismatch")


@pytest.mark.long
@pytest.mark.req("R-CP-05", "R-VD-05")
def test_a_declined_charge_that_was_reported_as_a_success_raises_decline(office, careful):
    def decline(work):
        charge(careful, work, source="tok_chargeDeclinedInsufficientFunds", expect=402)

    fired(office.carry_out(charging(careful), decline), "decline")


@pytest.mark.long
@pytest.mark.req("R-CP-05", "R-DC-06", "R-VD-05")
def test_a_charge_made_twice_raises_duplicate_charge(office, careless):
    def pay_twice(work):
        customer = careless.customer()
        for _ in range(2):
            charge(careless, work, key=work.key, **customer)

    fired(office.carry_out(charging(careless), pay_twice), "duplicate_charge", row="RT-12")


@pytest.mark.long
@pytest.mark.req("R-CP-05")
def test_a_refund_is_a_success_and_one_of_another_amount_a_mismatch(office, careful):
    first, second = careful.charge(source="tok_visa"), careful.charge(source="tok_visa")
    succeeded(office.carry_out(refunding(careful, first), lambda work: careful.refund(first, metadata__key=work.key)))
    ended = office.carry_out(
        refunding(careful, second), lambda work: careful.refund(second, amount=600, metadata__key=work.key)
    )
    fired(ended, "refund_mismatch")


@pytest.mark.long
@pytest.mark.req("R-CP-05", "R-VD-05")
def test_a_payment_in_processing_too_long_raises_its_indicator(office, careless):
    """localstripe decides over a direct debit after half a second: it is asked before, by a clock that is ahead."""

    method = careless.post("/v1/payment_methods", type="sepa_debit", sepa_debit__iban="DE62370400440532013001",
                           billing_details__name="Ann", billing_details__email="a@example.test")["id"]  # fmt: skip
    customer = careless.post("/v1/customers", email="ann@example.test")["id"]
    careless.post(f"/v1/payment_methods/{method}/attach", customer=customer)
    part = {"kind": "payment_intent", "id": "sr.payment", "match": None, "settle_within_s": 60}
    errand = charging(careless, **part)
    for number in range(5):
        order = f"o-{number}"
        made = careless.post("/v1/payment_intents", amount=2000, currency="eur", customer=customer,
                             payment_method=method, metadata__tenant="acme", metadata__order=order)  # fmt: skip
        given = errand.arguments | {"order": order, "payment": made["id"]}
        errand = replace(errand, arguments=given, predicates=("sa.status == 'succeeded'",))
        work = office.begin(errand)
        office.observe(work)
        careless.post(f"/v1/payment_intents/{made['id']}/confirm")
        ended = office.verify(work, later=SETTLED + timedelta(seconds=90))
        if "pending_beyond_sla" in ended.indicators:
            break
    fired(ended, "pending_beyond_sla")
    time.sleep(1)  # and then the bank says no
    fired(office.verify(work), "decline")


def documents(work, at, **fields):
    """One charge as Stripe documents it."""
    made = {
        "id": "ch_1",
        "object": "charge",
        "status": "succeeded",
        "captured": True,
        "amount": 2000,
        "currency": "eur",
        "created": int(at.timestamp()),
        "metadata": {"key": work.key, "tenant": "acme", "order": "o-17"},
    }
    return {"/v1/charges": {"object": "list", "data": [made | fields], "has_more": False}}


@pytest.mark.req("R-CP-05", "R-VD-05")
@pytest.mark.parametrize("fields", [{}, {"failure_balance_transaction": "txn_1"}])
def test_a_reversed_charge_did_not_settle(office, fields):
    """Neither processor takes a charge back, and none knows connected accounts."""
    account = {"settings": {"account": "acct_1"}}
    work = office.begin(charging(None, url="http://127.0.0.1:9", **account))
    office.observe(work)
    with documented(documents(work, office.now(), **fields)) as url:
        office.place(charging(None, url=url, **account))
        ended = office.verify(work)
    if fields:
        fired(ended, "settlement_failure")
    else:
        succeeded(ended)


@pytest.mark.long
@pytest.mark.req("R-CP-13")
@pytest.mark.parametrize("fields", [{"metadata__tenant": "willow"}, {"metadata__order": "o-18"}])
def test_a_charge_of_another_customer_is_the_wrong_target(office, careful, fields):
    ended = office.carry_out(charging(careful), lambda work: charge(careful, work, **fields))
    assert (ended.discrepancy, ended.row) == ("WRONG_TARGET_MODIFIED", "RT-14")
