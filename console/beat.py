"""Beat's schedule. Ticks are all that it has, so its memory is enough, and a tick that could not be sent is missed.

While no worker takes any, beat keeps the newest thousand messages of each queue: a tick is stale after its period, and
a hint that is lost is found by the next tick. RabbitMQ drops messages by their age (`console/celery.py`).
"""

from __future__ import annotations

import logging
import time
from typing import Any

from celery.beat import ScheduleEntry, Scheduler, SchedulingError
from kombu.exceptions import KombuError
from redis import RedisError

from ledger.management.alive_file import renew_alive_file

log = logging.getLogger(__name__)
MOST_WAITING, TRIMMED_EVERY_S = 1000, 60.0


class Ticks(Scheduler):
    """Celery's scheduler in memory, which logs once that the broker is unreachable and once that it is back."""

    away = False
    trimmed_at = float("-inf")
    # Each tick takes a connection from the pool, which opens another for one that broke; Celery would keep the first.
    producer = None  # type: ignore[assignment]

    def schedules_equal(self, old_schedules: Any, new_schedules: Any) -> bool:
        """Ours never changes; Celery would compare it with itself, entry by entry, before each tick."""
        return True

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send what is due; return the seconds until more is."""
        renew_alive_file()
        pause_s = float(super().tick(*args, **kwargs))
        if not self.away and time.monotonic() - self.trimmed_at >= TRIMMED_EVERY_S:
            self.trimmed_at = time.monotonic()
            self.trim_queues()
        return pause_s

    def trim_queues(self) -> None:
        """Drop all but the newest messages of each queue, where the broker is Redis or Valkey."""
        try:
            with self.app.connection_for_write() as broker:
                channel: Any = broker.default_channel
                for name in self.app.amqp.queues if broker.transport.driver_type == "redis" else ():
                    channel.client.ltrim(name, 0, MOST_WAITING - 1)
        except (KombuError, RedisError, OSError) as error:
            log.warning("the queues could not be trimmed: %s", error)

    def apply_entry(self, entry: ScheduleEntry, producer: Any = None) -> None:
        try:
            self.apply_async(entry, producer=producer, advance=False)
        except SchedulingError as error:
            if not self.away:
                log.warning("the broker takes no ticks; work waits in the database: %s", error)
            self.away = True
        else:
            if self.away:
                log.warning("the broker takes ticks again")
            self.away = False
