"""Orders, from the proposal to the decision: what a tool buys through a real Tryton, and what is made of it."""

from __future__ import annotations

import pytest

from tests.peers.support.errand import Errand
from tests.peers.support.path import accounted, fired, not_asked, succeeded

pytestmark = pytest.mark.long


def ordering(shop, *, url=None, **part):
    usual = {
        "match": {"reference": "scope.idempotency_key"},
        "vendor": "sr.vendor",
        "sku": "sr.sku",
        "amount": "sr.amount",
        "currency": "'EUR'",
        "terms": "'30 days'",
        "catalogue": True,
        "budget": {"limit": "sr.limit", "match": {"description": "sr.team"}},
        "tenant_field": "company",
        "target_field": "vendor",
    }
    return Errand(
        pattern="procurement",
        settings={"url": url or shop.url, "database": "tr", "company": "acme"},
        credential={"user": "reader", "password": "Only-reads-26"},
        arguments={"vendor": "V-1", "sku": "SKU-1", "amount": "30.00", "limit": "50.00", "team": shop.team},
        lookup={"effects": {"order": usual | part}},
        predicates=(
            "sa.id != ''",
            "sa.vendor == sr.vendor && sa.skus == [sr.sku]",
            "sa.amount == sr.amount && sa.currency == 'EUR'",
            "sa.approved && sa.state in ['confirmed', 'processing']",
            "sa.committed == sr.amount",
            "sa.terms == '30 days'",
            "sa.requester == 'admin'",
        ),
        target="vendor/{vendor}",
    )


def order(shop, work, times=1, **fields):
    for _ in range(times):
        made = shop.order(**{"reference": work.key, "payment_term": shop.terms, "description": shop.team} | fields)
    return made


def order_beyond_budget(shop, work):
    order(shop, work)
    order(shop, work, reference="another")


@pytest.mark.req("R-CP-08", "R-CP-14", "R-VD-05")
def test_a_confirmed_order_is_a_success(office, shop):
    ended = office.carry_out(ordering(shop), lambda work: order(shop, work))
    succeeded(ended)
    assert not_asked(ended) == set()
    accounted(ended, actor="admin", place="acme")


@pytest.mark.req("R-CP-08", "R-CP-13", "R-CP-16")
@pytest.mark.parametrize(
    ("indicator", "effect"),
    [
        ("unauthorized_vendor_or_sku", lambda shop, work: order(shop, work, vendor="V-2")),
        ("price_mismatch", lambda shop, work: order(shop, work, price="11.00")),
        ("budget_breach", order_beyond_budget),
        ("approval_missing", lambda shop, work: order(shop, work, upto="quote")),
        ("duplicate_po", lambda shop, work: order(shop, work, times=2)),
        ("rejected_purchase", lambda shop, work: shop.cancel(order(shop, work, upto="quote"))),
    ],
)
def test_a_wrong_order_raises_its_indicator(office, shop, indicator, effect):
    fired(office.carry_out(ordering(shop), lambda work: effect(shop, work)), indicator)
