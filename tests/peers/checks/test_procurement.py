"""Purchase orders made in a real Tryton by its own workflow, and read back by a user who may only read."""

from __future__ import annotations

import httpx
import pytest

from reviews.checks.interface import CheckFailed, Consistency
from tests.peers.support import environment
from tests.peers.support.tryton import look

pytestmark = pytest.mark.long


@pytest.mark.req("R-CP-08")
def test_a_confirmed_order_is_present(shop):
    shop.order(payment_term=shop.terms)
    found = look(shop, terms="'30 days'")
    (effect,) = found.effects
    assert (effect.present, effect.count) == (True, 1)
    assert {"vendor": "V-1", "amount": "30.00", "currency": "EUR", "company": "acme", "requester": "admin",
            "terms": "30 days", "skus": ["SKU-1"], "approved": True}.items() <= effect.fields.items()  # fmt: skip
    assert effect.scope == {"tenant": ("acme",), "target": ("V-1",)}
    assert found.consistency is Consistency.PRIMARY
    assert found.indicators == ()


@pytest.mark.req("R-CP-08")
@pytest.mark.parametrize("upto", ["draft", "quote"])
def test_an_unconfirmed_order_lacks_its_approval(shop, upto):
    shop.order(upto=upto)
    found = look(shop)
    assert found.effects[0].present
    assert found.indicators == ("approval_missing",)
    assert look(shop, states=["draft", "quotation"]).indicators == ()


@pytest.mark.req("R-CP-08")
def test_an_order_confirmed_by_another_user_lacks_its_approval(shop):
    shop.order()
    assert look(shop, approver="'Director'").indicators == ("approval_missing",)


@pytest.mark.req("R-CP-08")
def test_an_order_from_another_vendor_is_not_authorised(shop):
    shop.offer("V-2", "SKU-1", "10.00")
    shop.order(vendor="V-2")
    found = look(shop)
    assert found.indicators == ("unauthorized_vendor_or_sku",)
    assert found.effects[0].scope["target"] == ("V-2",)


@pytest.mark.req("R-CP-08")
def test_an_order_of_another_item_is_not_authorised(shop):
    shop.order(sku="SKU-2")
    assert look(shop, catalogue=False).indicators == ("unauthorized_vendor_or_sku",)


@pytest.mark.req("R-CP-08")
def test_an_item_that_the_vendor_does_not_sell_is_not_authorised(shop):
    shop.order(sku="SKU-2")
    assert look(shop, sku=None).indicators == ("unauthorized_vendor_or_sku",)


@pytest.mark.req("R-CP-08")
@pytest.mark.parametrize("catalogue", [True, False])
def test_another_price_is_a_mismatch(shop, catalogue):
    shop.order(price="12.50")
    expected = {"amount": None} if catalogue else {}
    assert look(shop, catalogue=catalogue, **expected).indicators == ("price_mismatch",)


@pytest.mark.req("R-CP-08")
@pytest.mark.parametrize("other", [{"currency": "'USD'"}, {"terms": "'60 days'"}])
def test_another_currency_or_other_terms_are_a_mismatch(shop, other):
    shop.order(payment_term=shop.terms)
    assert look(shop, **other).indicators == ("price_mismatch",)


@pytest.mark.req("R-CP-08")
def test_two_orders_are_duplicates(shop):
    shop.order()
    shop.order()
    found = look(shop)
    assert found.effects[0].count == 2
    assert found.indicators == ("duplicate_po",)


@pytest.mark.req("R-CP-08")
def test_a_cancelled_order_is_rejected(shop):
    shop.cancel(shop.order(upto="quote"))
    found = look(shop)
    assert (found.effects[0].present, found.effects[0].fields["state"]) == (False, "cancelled")
    assert found.indicators == ("rejected_purchase",)
    shop.order()
    assert look(shop).indicators == ()


@pytest.mark.req("R-CP-08")
def test_an_exceeded_budget_is_detected(shop):
    for key in ("key-1", "key-2"):
        shop.order(reference=key, description="team-7")
    budget = {"match": {"description": "'team-7'"}}
    enough = look(shop, budget={**budget, "limit": "'60.00'"})
    assert enough.indicators == ()
    assert enough.effects[0].fields["committed"] == "60.00"
    assert look(shop, budget={**budget, "limit": "59"}).indicators == ("budget_breach",)


def test_a_missing_order_is_absent(shop):
    assert look(shop).effects[0].present is False


def test_a_user_outside_the_company_cannot_determine_absence(shop):
    shop.order()
    assert look(shop, user="stranger").effects[0].present in {None, True}
    assert look(shop, user="stranger", match={"reference": "'none'"}).effects[0].present is None
    assert look(shop, settings={"company": "Other"}, match={"reference": "'none'"}).effects[0].present is None


def test_an_order_that_changes_during_the_reading_gives_no_answer(shop, monkeypatch):
    from reviews.checks.procurement import TrytonClient

    order = shop.order(upto="draft")
    lines = TrytonClient._lines

    def slow(register, number):
        shop.call("purchase.purchase.write", [order], {"description": "changed"})
        return lines(register, number)

    monkeypatch.setattr(TrytonClient, "_lines", slow)
    with pytest.raises(CheckFailed, match="changed") as failed:
        look(shop)
    assert failed.value.retryable


def test_a_field_that_does_not_exist_gives_no_answer(shop):
    with pytest.raises(CheckFailed) as failed:
        look(shop, match={"color": "'red'"})
    assert not failed.value.retryable


@pytest.mark.req("R-VD-16")
def test_an_unreachable_server_or_a_refused_password_is_an_outage(shop):
    for changes in ({"url": f"http://127.0.0.1:{environment.free_port()}"}, {"user": "nobody"}):
        with pytest.raises(CheckFailed) as failed:
            look(shop, **changes)
        assert failed.value.retryable


def test_another_database_gives_no_answer(shop):
    with pytest.raises(CheckFailed):
        look(shop, settings={"database": "none"})


def test_the_credential_can_only_read(shop):
    order = shop.order(upto="draft")
    question = {"id": 1, "method": "model.purchase.purchase.write", "params": [[order], {"reference": "x"}, {}]}
    said = httpx.post(f"{shop.url}/tr/rpc/", json=question, auth=("reader", "Only-reads-26"), trust_env=False).json()
    assert "not allowed" in str(said["error"])
