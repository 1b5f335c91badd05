"""Beat's schedule. Ticks are all that it has, so its memory is enough, and a tick that could not be sent is missed."""

from __future__ import annotations

import logging
from typing import Any

from celery.beat import ScheduleEntry, Scheduler, SchedulingError

from ledger.management.alive_file import renew_alive_file

log = logging.getLogger(__name__)


class Ticks(Scheduler):
    """Celery's scheduler in memory, which logs once that the broker is unreachable and once that it is back."""

    away = False
    # Each tick takes a connection from the pool, which opens another for one that broke; Celery would keep the first.
    producer = None  # type: ignore[assignment]

    def schedules_equal(self, old_schedules: Any, new_schedules: Any) -> bool:
        """Ours never changes; Celery would compare it with itself, entry by entry, before each tick."""
        return True

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send what is due; return the seconds until more is."""
        renew_alive_file()
        return float(super().tick(*args, **kwargs))

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
