"""The example's stream: published once, consumed, acknowledged, late, given up."""

from __future__ import annotations

import threading
import time

import pytest

from example import consumer, tools
from example.faults import Fault
from example.shop import DEAD_LETTERS, GROUP, STREAM, sent_key


@pytest.fixture
def valkey(place):
    with place.shop.valkey() as client:
        yield client


@pytest.fixture
def publish(place, stage, work_for):
    def one(fault=None, key=None):
        order = stage.order(fault=fault)
        payload = {"order_id": order.order_id, "event": "packed"}
        work = work_for("publish_order_event", payload, key=key)
        return order.order_id, tools.publish_order_event(place.shop, work), work

    return one


@pytest.fixture
def mailer(place, valkey):
    stop = threading.Event()
    thread = threading.Thread(target=consumer.consume, args=(place.shop, valkey, stop))
    yield thread
    stop.set()
    if thread.ident:
        thread.join(5)
    assert not thread.is_alive()


def _until(condition, seconds=5.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError("it did not happen in time")


def test_an_event_is_published_with_its_key_and_trace(valkey, publish):
    order_id, result, work = publish()
    ((message, fields),) = valkey.xrange(STREAM)
    assert result.evidence == f"{STREAM}/{message}"
    assert fields["order_id"] == order_id
    assert fields["idempotency_key"] == work.idempotency_key
    assert fields["trace_id"] == work.trace.trace_id


def test_an_event_is_published_once_per_idempotency_key(valkey, place, work_for):
    work = work_for("publish_order_event", {"order_id": "EX-1", "event": "packed"})
    first = tools.publish_order_event(place.shop, work)
    second = tools.publish_order_event(place.shop, work)
    assert first.evidence == second.evidence
    assert valkey.xlen(STREAM) == 1


def test_the_mailer_keeps_what_it_sent_and_acknowledges(valkey, publish, mailer):
    mailer.start()
    order_id, _, work = publish()
    sent = _until(lambda: valkey.hgetall(sent_key(order_id)))
    assert sent["status"] == "sent"
    assert sent["idempotency_key"] == work.idempotency_key
    assert valkey.xpending(STREAM, GROUP)["pending"] == 0


def test_a_slow_mailer_acknowledges_the_event_after_it_has_sent_it(valkey, publish, mailer, monkeypatch):
    monkeypatch.setattr(consumer, "LATE_BY_S", 1.5)
    mailer.start()
    order_id, _, _ = publish(Fault.LATE_CONSUMER)
    _until(lambda: valkey.xpending(STREAM, GROUP)["pending"] == 1)
    assert valkey.hgetall(sent_key(order_id)) == {}
    _until(lambda: valkey.hgetall(sent_key(order_id)))
    assert valkey.xpending(STREAM, GROUP)["pending"] == 0


def test_one_late_event_does_not_hold_up_the_others(valkey, publish, mailer):
    mailer.start()
    late, _, _ = publish(Fault.LATE_CONSUMER)
    order_id, _, _ = publish()
    _until(lambda: valkey.hgetall(sent_key(order_id)))
    assert valkey.hgetall(sent_key(late)) == {}


def test_a_restarted_mailer_handles_the_events_that_it_had_already_read(valkey, publish, mailer):
    from example.shop import set_up_stream

    set_up_stream(valkey)
    order_id, _, _ = publish()
    valkey.xreadgroup(GROUP, "mailer-1", {STREAM: ">"})
    mailer.start()
    _until(lambda: valkey.hgetall(sent_key(order_id)))


def test_an_event_that_cannot_be_handled_becomes_a_dead_letter(valkey, publish, mailer):
    mailer.start()
    order_id, _, work = publish(Fault.DEAD_LETTER)
    ((_, letter),) = _until(lambda: valkey.xrange(DEAD_LETTERS))
    assert letter["idempotency_key"] == work.idempotency_key
    assert valkey.hgetall(sent_key(order_id)) == {}
    assert valkey.xpending(STREAM, GROUP)["pending"] == 0
