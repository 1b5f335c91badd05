"""Messages, from the proposal to the decision: what a tool sends through a real Valkey, and what is made of it."""

from __future__ import annotations

from datetime import timedelta

import pytest
import redis

from tests.peers.support.errand import Errand
from tests.peers.support.path import SETTLED, fired, not_asked, succeeded


class Events:
    """A stream with one group, whose consumer keeps what it handled in a hash."""

    def __init__(self, client):
        self.client = client

    def publish(self, work, **fields):
        return self.client.xadd(
            "shop:events", {"key": work.key, "order_id": "o-17", "tenant": "acme", "seq": "8"} | fields
        )

    def consume(self, *, acknowledge=True, handle=True):
        for _, messages in self.client.xreadgroup("mailer", "m-1", {"shop:events": ">"}):
            for number, fields in messages:
                if handle:
                    self.client.hset(f"shop:sent:{fields['order_id']}", mapping=fields)
                if acknowledge:
                    self.client.xack("shop:events", "mailer", number)

    def give_up(self, work):
        self.publish(work)
        self.consume(acknowledge=False, handle=False)
        self.client.xadd("shop:dead", {"key": work.key, "reason": "no address"})

    def fail(self, work):
        number = self.publish(work)
        self.consume(acknowledge=False, handle=False)
        for _ in range(2):
            self.client.xclaim("shop:events", "mailer", "m-2", 0, [number])

    def handle_out_of_order(self, work):
        self.publish(work)
        self.consume()
        self.client.hset("shop:sent:o-17", "seq", "7")

    def send(self, work, times=1, handle=True, **fields):
        for _ in range(times):
            self.publish(work, **fields)
        self.consume(handle=handle)


@pytest.fixture
def events(valkey_url):
    with redis.Redis.from_url(valkey_url, decode_responses=True) as client:
        client.xgroup_create("shop:events", "mailer", id="0", mkstream=True)
        yield Events(client)


def publishing(url, **facts):
    return Errand(
        pattern="queues_events",
        credential={"url": url},
        arguments={"order_id": "o-17"},
        lookup={
            "effects": {
                "publish": {
                    "stream": "'shop:events'",
                    "match": {"key": "scope.idempotency_key"},
                    "group": "'mailer'",
                    "dead_letter": "'shop:dead'",
                    "downstream": {"hash": "'shop:sent:' + sr.order_id"},
                    "fields": ["order_id"],
                    "sequence_field": "seq",
                    "max_deliveries": 3,
                    "tenant_field": "tenant",
                    "target_field": "order_id",
                }
            }
        },
        predicates=("sa.order_id == sr.order_id", "sa.acknowledged", "sa.downstream.order_id == sr.order_id"),
        target="order/{order_id}",
        facts=facts,
    )


@pytest.mark.req("R-CP-11", "R-VD-04")
def test_a_handled_message_is_a_success(office, valkey_url, events):
    ended = office.carry_out(publishing(valkey_url), events.send)
    succeeded(ended)
    assert ended.effect["fields"]["message_id"] in ended.document["readings"][0]["freshness"]
    assert not_asked(ended) == set()


@pytest.mark.req("R-CP-11", "R-CP-16", "R-VD-04")
@pytest.mark.parametrize(
    ("indicator", "effect"),
    [
        ("duplicate_event", lambda events, work: events.send(work, times=2)),
        ("dead_letter", Events.give_up),
        ("consumer_failure", Events.fail),
        ("out_of_order_processing", Events.handle_out_of_order),
        ("missing_downstream_mutation", lambda events, work: events.send(work, handle=False)),
    ],
)
def test_a_message_without_its_effect_raises_its_indicator(office, valkey_url, events, indicator, effect):
    fired(office.carry_out(publishing(valkey_url), lambda work: effect(events, work)), indicator)


@pytest.mark.req("R-CP-11", "R-DC-09")
def test_a_message_is_waited_for_until_a_consumer_takes_it(office, valkey_url, events):
    work = office.begin(publishing(valkey_url))
    events.publish(work)
    office.observe(work)
    early = office.verify(work)
    assert (early.discrepancy, early.state, early.indicators) == ("PROPAGATION_DELAY", "PENDING", set())
    events.consume()
    succeeded(office.verify(work))


@pytest.mark.req("R-CP-11", "R-DC-09")
def test_a_message_that_waits_too_long_raises_message_stuck(office, valkey_url, events):
    ended = office.carry_out(publishing(valkey_url), events.publish, later=SETTLED + timedelta(seconds=90))
    fired(ended, "message_stuck")


@pytest.mark.req("R-CP-13", "R-DC-07")
@pytest.mark.parametrize("changes", [{"tenant": "willow"}, {"order_id": "o-18"}])
def test_a_message_for_another_target_is_the_wrong_target(office, valkey_url, events, changes):
    ended = office.carry_out(publishing(valkey_url), lambda work: events.send(work, **changes))
    assert (ended.discrepancy, ended.row) == ("WRONG_TARGET_MODIFIED", "RT-14")


@pytest.mark.req("R-CP-11", "R-DC-06")
def test_a_duplicate_with_a_financial_effect_is_frozen_first(office, valkey_url, events):
    errand = publishing(valkey_url, effect_domain="FINANCIAL")
    fired(office.carry_out(errand, lambda work: events.send(work, times=2)), "duplicate_event", row="RT-12")
