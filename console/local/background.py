"""Sequencer, eraser and beat in one process, as `up` runs them: on one machine three would load the same libraries.

1. Each has a thread of its own. A database connection belongs to a thread, so the sequencer and the eraser each sign
   in as their own role; beat has no connection.
2. One that fails is started again after a pause, while the others go on. `up` starts the process again.
3. Elsewhere each is a command of its own, with nothing but its own role (docs/deploy.md).
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections import deque
from collections.abc import Callable

import django
from django.db import DEFAULT_DB_ALIAS, connections

from console.beat import Ticks
from console.celery import app
from console.local.processes import Backoff

log = logging.getLogger(__name__)
STOP_WITHIN_S = 8.0


def main() -> None:
    """Run all three until SIGTERM or SIGINT."""
    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    django.setup()
    logging.getLogger("celery").setLevel(logging.WARNING)
    parts = {"sequencer": run_sequencer, "eraser": run_eraser, "beat": run_beat}
    threads = [
        threading.Thread(target=keep_running, args=(name, run, ending), name=name, daemon=True)
        for name, run in parts.items()
    ]
    for thread in threads:
        thread.start()
    ending.wait()
    until = time.monotonic() + STOP_WITHIN_S
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))


def keep_running(name: str, run: Callable[[threading.Event], None], ending: threading.Event) -> None:
    """Call `run(ending)` until `ending` is set; start it again after a pause whenever it fails or returns early."""
    backoff = Backoff()
    while not ending.is_set():
        began = time.monotonic()
        try:
            run(ending)
        except (Exception, SystemExit):
            log.exception("%s failed.", name)
        connections.close_all()
        if not ending.is_set():
            pause_s = backoff.next_pause(ran_s=time.monotonic() - began)
            log.error("%s stopped unexpectedly; restarting in %.0f s.", name, pause_s)
            ending.wait(pause_s)


def run_sequencer(ending: threading.Event) -> None:
    from ledger.management.commands.sequencer import Sequencer, open_signer

    with open_signer() as signer:
        Sequencer(signer).run(ending)


def run_eraser(ending: threading.Event) -> None:
    from ledger.management.commands.eraser import erase_until

    wrapper = connections.create_connection("eraser")
    wrapper.alias = DEFAULT_DB_ALIAS
    # Of this thread alone.
    connections[DEFAULT_DB_ALIAS] = wrapper
    deque(erase_until(ending), maxlen=0)


def run_beat(ending: threading.Event) -> None:
    ticks = Ticks(app=app)
    while not ending.is_set():
        ending.wait(ticks.tick())


if __name__ == "__main__":
    main()
