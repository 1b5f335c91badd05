"""The mailer: reads the shop's events, stores what it sent, acknowledges.

An event counts as handled when `shop:sent:<order>` says so; the acknowledgement follows in the same
step, so that a crash leaves either both or neither. An event that was read and not acknowledged is
read again at the next start.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import psycopg
import redis

from example import faults, shop
from example.faults import Fault
from example.shop import DEAD_LETTERS, GROUP, STREAM, Shop

log = logging.getLogger("example.consumer")

LATE_BY_S = 12.0
_NAME = "mailer-1"

Fields = dict[Any, Any]


def run() -> None:
    """Consume events until stopped; an unreachable server only delays it."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    place = shop.from_environment()
    while not stop.is_set():
        try:
            with place.valkey() as valkey:
                consume(place, valkey, stop)
        except (redis.RedisError, psycopg.OperationalError) as fault:
            log.warning("waiting for the shop's servers: %s", fault)
            stop.wait(2.0)


def consume(place: Shop, valkey: redis.Redis, stop: threading.Event) -> None:
    """Handle events as they come; those planned to be late are delayed."""
    shop.set_up_stream(valkey)
    waiting = _read(valkey, "0")
    while not stop.is_set():
        for message, fields in list(waiting.items()):
            if _handled(place, valkey, message, fields):
                del waiting[message]
        waiting |= _read(valkey, ">")


def _read(valkey: redis.Redis, after: str) -> dict[str, dict[str, str]]:
    answer: Any = valkey.xreadgroup(GROUP, _NAME, {STREAM: after}, count=100, block=300)
    streams = answer.items() if isinstance(answer, dict) else answer or []
    messages: dict[str, dict[str, str]] = {}
    for _, entries in streams:
        # Some answers nest the entries of a stream once more.
        nested = entries and isinstance(entries[0], list)
        messages |= dict(entries[0] if nested else entries)
    return messages


def _handled(place: Shop, valkey: redis.Redis, message: str, fields: Mapping[str, str]) -> bool:
    order_id = fields["order_id"]
    with place.connect() as connection:
        fault = faults.fault_of(connection, order_id)
    written_at = int(message.partition("-")[0]) / 1000
    if fault is Fault.LATE_CONSUMER and time.time() < written_at + LATE_BY_S:
        return False
    with valkey.pipeline(transaction=True) as step:
        if fault is Fault.DEAD_LETTER:
            step.xadd(DEAD_LETTERS, _dead(message, fields))
        else:
            step.hset(shop.sent_key(order_id), mapping=_sent(message, fields))
        step.xack(STREAM, GROUP, message)
        step.execute()
    return True


def _dead(message: str, fields: Mapping[str, str]) -> Fields:
    return {**dict(fields), "original_id": message, "reason": "no address"}


def _sent(message: str, fields: Mapping[str, str]) -> Fields:
    return {
        "status": "sent",
        "event": fields["event"],
        "event_id": message,
        "idempotency_key": fields["idempotency_key"],
        "sent_at": datetime.now(UTC).isoformat(),
    }
